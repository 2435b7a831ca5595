//! What the fake knows of groups, and of deleting records.

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::*;

use super::FakeState;

impl FakeState {
    pub(super) fn find_coordinator(
        &self,
        request: &FindCoordinatorRequest<'_>,
        version: i16,
        error_code: i16,
    ) -> FindCoordinatorResponse<'static> {
        let host = || "127.0.0.1".into();
        if version < 4 {
            assert!(!request.key.is_empty() && request.coordinator_keys.is_empty());
            return FindCoordinatorResponse {
                error_code,
                node_id: 1,
                host: host(),
                port: self.port,
                ..Default::default()
            };
        }
        let coordinators = request.coordinator_keys.iter().map(|key| find_coordinator_response::Coordinator {
            key: key.to_string().into(),
            node_id: 1,
            host: host(),
            port: self.port,
            error_code,
            ..Default::default()
        });
        FindCoordinatorResponse { coordinators: coordinators.collect(), ..Default::default() }
    }

    /// A group of one member, which leads and may come back.
    pub(super) fn join(
        &mut self,
        request: &JoinGroupRequest<'_>,
        version: i16,
        error_code: i16,
    ) -> JoinGroupResponse<'static> {
        assert_eq!((&*request.protocol_type, &*request.protocols[0].name), ("consumer", "range"));
        if error_code != 0 {
            return JoinGroupResponse { error_code, protocol_name: Some("".into()), ..Default::default() };
        }
        let mut member_id = request.member_id.to_string();
        if member_id.is_empty() {
            self.ids_given += 1;
            member_id = format!("member-{}", self.ids_given);
            if version >= 4 {
                return JoinGroupResponse {
                    error_code: ErrorCode::MEMBER_ID_REQUIRED.0,
                    protocol_name: Some("".into()),
                    member_id: member_id.into(),
                    ..Default::default()
                };
            }
        }
        self.generation += 1;
        let member = join_group_response::JoinGroupResponseMember {
            member_id: member_id.clone().into(),
            metadata: request.protocols[0].metadata.to_vec().into(),
            ..Default::default()
        };
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_name: Some("range".into()),
            leader: member_id.clone().into(),
            member_id: member_id.into(),
            members: vec![member],
            ..Default::default()
        }
    }

    pub(super) fn sync(&mut self, request: &SyncGroupRequest<'_>, error_code: i16) -> SyncGroupResponse<'static> {
        assert_eq!(request.generation_id, self.generation);
        let own = request.assignments.iter().find(|one| one.member_id == request.member_id);
        let assignment = own.map(|one| one.assignment.to_vec()).unwrap_or_default();
        SyncGroupResponse { error_code, assignment: assignment.into(), ..Default::default() }
    }

    pub(super) fn heartbeat(&self, request: &HeartbeatRequest<'_>, error_code: i16) -> HeartbeatResponse {
        assert!(request.generation_id <= self.generation);
        HeartbeatResponse { error_code, ..Default::default() }
    }

    pub(super) fn leave(&mut self, request: &LeaveGroupRequest<'_>, version: i16) -> LeaveGroupResponse<'static> {
        assert_eq!(request.members.is_empty(), version < 3);
        self.left.extend(request.members.iter().map(|member| member.member_id.to_string()));
        self.left.extend((version < 3).then(|| request.member_id.to_string()));
        LeaveGroupResponse::default()
    }

    pub(super) fn list_groups(&self, version: i16, error_code: i16) -> ListGroupsResponse<'static> {
        let groups = self.groups.keys().map(|group| list_groups_response::ListedGroup {
            group_id: group.clone().into(),
            group_state: if version >= 4 { "Empty".into() } else { "".into() },
            group_type: if version >= 5 { "Classic".into() } else { "".into() },
            ..Default::default()
        });
        ListGroupsResponse { error_code, groups: groups.collect(), ..Default::default() }
    }

    pub(super) fn describe_groups(
        &self,
        request: &DescribeGroupsRequest<'_>,
        version: i16,
    ) -> DescribeGroupsResponse<'static> {
        let groups = request.groups.iter().map(|group| {
            let exists = self.groups.contains_key(&**group);
            let absent = if version >= 6 { ErrorCode::GROUP_ID_NOT_FOUND.0 } else { 0 };
            describe_groups_response::DescribedGroup {
                error_code: if exists { 0 } else { absent },
                group_id: group.to_string().into(),
                group_state: if exists { "Empty".into() } else { "Dead".into() },
                ..Default::default()
            }
        });
        DescribeGroupsResponse { groups: groups.collect(), ..Default::default() }
    }

    pub(super) fn delete_groups(&mut self, request: &DeleteGroupsRequest<'_>) -> DeleteGroupsResponse<'static> {
        let results = request.groups_names.iter().map(|group| {
            let existed = self.groups.remove(&**group).is_some();
            delete_groups_response::DeletableGroupResult {
                group_id: group.to_string().into(),
                error_code: if existed { 0 } else { ErrorCode::GROUP_ID_NOT_FOUND.0 },
                ..Default::default()
            }
        });
        DeleteGroupsResponse { results: results.collect(), ..Default::default() }
    }

    pub(super) fn offset_fetch(
        &self,
        request: &OffsetFetchRequest<'_>,
        version: i16,
        error_code: i16,
    ) -> OffsetFetchResponse<'static> {
        let group = if version < 8 { &request.group_id } else { &request.groups[0].group_id };
        let all = self.groups.get(&**group).into_iter().flatten();
        let all = all.map(|((topic, index), offset)| (topic.clone(), *index, *offset));
        if version < 8 {
            assert_eq!(request.topics, None);
            let topics = all.map(|(topic, partition_index, committed_offset)| {
                let partition = offset_fetch_response::OffsetFetchResponsePartition {
                    partition_index,
                    committed_offset,
                    ..Default::default()
                };
                offset_fetch_response::OffsetFetchResponseTopic { name: topic.into(), partitions: vec![partition] }
            });
            return OffsetFetchResponse { error_code, topics: topics.collect(), ..Default::default() };
        }
        let topics = all.map(|(topic, partition_index, committed_offset)| {
            let partition = offset_fetch_response::OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                ..Default::default()
            };
            let partitions = vec![partition];
            offset_fetch_response::OffsetFetchResponseTopics { name: topic.into(), partitions, ..Default::default() }
        });
        let answer = offset_fetch_response::OffsetFetchResponseGroup {
            group_id: group.to_string().into(),
            topics: topics.collect(),
            error_code,
        };
        OffsetFetchResponse { groups: vec![answer], ..Default::default() }
    }

    pub(super) fn offset_commit(
        &mut self,
        request: &OffsetCommitRequest<'_>,
        error_code: i16,
    ) -> OffsetCommitResponse<'static> {
        let generation = if request.member_id.is_empty() { -1 } else { self.generation };
        assert_eq!(request.generation_id_or_member_epoch, generation);
        let offsets = self.groups.entry(request.group_id.to_string()).or_default();
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|one| {
                if error_code == 0 {
                    offsets.insert((topic.name.to_string(), one.partition_index), one.committed_offset);
                }
                offset_commit_response::OffsetCommitResponsePartition {
                    partition_index: one.partition_index,
                    error_code,
                }
            });
            offset_commit_response::OffsetCommitResponseTopic {
                name: topic.name.to_string().into(),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
    }

    pub(super) fn offset_delete(
        &mut self,
        request: &OffsetDeleteRequest<'_>,
        error_code: i16,
    ) -> OffsetDeleteResponse<'static> {
        let offsets = self.groups.entry(request.group_id.to_string()).or_default();
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|one| {
                offsets.remove(&(topic.name.to_string(), one.partition_index));
                offset_delete_response::OffsetDeleteResponsePartition {
                    partition_index: one.partition_index,
                    error_code: 0,
                }
            });
            offset_delete_response::OffsetDeleteResponseTopic {
                name: topic.name.to_string().into(),
                partitions: partitions.collect(),
            }
        });
        OffsetDeleteResponse { error_code, topics: topics.collect(), ..Default::default() }
    }

    /// Nothing goes; what is told is what was asked for.
    pub(super) fn delete_records(
        &self,
        request: &DeleteRecordsRequest<'_>,
        error_code: i16,
    ) -> DeleteRecordsResponse<'static> {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|one| {
                let there = (one.partition_index as usize) < self.topics[&*topic.name].len();
                assert!(there);
                delete_records_response::DeleteRecordsPartitionResult {
                    partition_index: one.partition_index,
                    low_watermark: one.offset,
                    error_code,
                }
            });
            delete_records_response::DeleteRecordsTopicResult {
                name: topic.name.to_string().into(),
                partitions: partitions.collect(),
            }
        });
        DeleteRecordsResponse { topics: topics.collect(), ..Default::default() }
    }
}
