//! The life of groups with one member, in all versions; errors; descriptions and lists.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::leave_group_request::MemberIdentity;
use mainstem_kafka_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use mainstem_kafka_wire::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse, SyncGroupRequest,
    SyncGroupResponse,
};

use super::super::canonical::Names;
use super::super::script::Script;
use super::cluster::wait_for_coordinator;
use super::committed;
use super::produce::KEPT;
use crate::support::requests::join;

/// A consumer's subscription to the topic `t`, as the protocol `consumer` encodes it (version 0).
pub(super) const SUBSCRIPTION: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 0];

pub(super) fn ask_join(
    script: &mut Script,
    name: &str,
    version: i16,
    request: &JoinGroupRequest<'_>,
) -> JoinGroupResponse<'static> {
    script.ask(name, version, request)
}

/// Joins a group as its only member, whatever the version asks for. Gives member id and generation.
pub(super) fn join_alone(script: &mut Script, version: i16, group: &str) -> (String, i32) {
    let request = join(group, "", SUBSCRIPTION);
    let mut joined = ask_join(script, "join", version, &request);
    if version >= 4 {
        let id = joined.member_id.into_owned();
        joined = ask_join(script, "join with the id", version, &join(group, &id, SUBSCRIPTION));
    }
    (joined.member_id.into_owned(), joined.generation_id)
}

pub(super) fn sync<'m>(
    group: &'m str,
    member: &'m str,
    generation: i32,
    assignments: &[(&'m str, &'m [u8])],
) -> SyncGroupRequest<'m> {
    let assignment = |(member, assignment): &(&'m str, &'m [u8])| SyncGroupRequestAssignment {
        member_id: Cow::Borrowed(*member),
        assignment: Cow::Borrowed(*assignment),
    };
    SyncGroupRequest {
        group_id: Cow::Borrowed(group),
        generation_id: generation,
        member_id: Cow::Borrowed(member),
        assignments: assignments.iter().map(assignment).collect(),
        ..Default::default()
    }
}

/// Sync in version 5 and later names protocol type and name.
pub(super) fn sync_in<'m>(version: i16, request: SyncGroupRequest<'m>) -> SyncGroupRequest<'m> {
    if version < 5 {
        return request;
    }
    let (protocol_type, protocol_name) = (Some(Cow::Borrowed("consumer")), Some(Cow::Borrowed("range")));
    SyncGroupRequest { protocol_type, protocol_name, ..request }
}

pub(super) fn heartbeat<'m>(group: &'m str, member: &'m str, generation: i32) -> HeartbeatRequest<'m> {
    HeartbeatRequest {
        group_id: Cow::Borrowed(group),
        generation_id: generation,
        member_id: Cow::Borrowed(member),
        ..Default::default()
    }
}

pub(super) fn ask_heartbeat(script: &mut Script, name: &str, version: i16, request: &HeartbeatRequest<'_>) {
    script.ask::<_, HeartbeatResponse>(name, version, request);
}

pub(super) fn leave<'m>(version: i16, group: &'m str, members: &[(&'m str, Option<&'m str>)]) -> LeaveGroupRequest<'m> {
    let identity = |(member, instance): &(&'m str, Option<&'m str>)| MemberIdentity {
        member_id: Cow::Borrowed(*member),
        group_instance_id: instance.map(Cow::Borrowed),
        reason: None,
    };
    let mut request = LeaveGroupRequest { group_id: Cow::Borrowed(group), ..Default::default() };
    if version >= 3 {
        request.members = members.iter().map(identity).collect();
    } else {
        request.member_id = Cow::Borrowed(members[0].0);
    }
    request
}

/// Kafka answers in the order of its partitions, and lists members in that of a hash map.
pub(super) fn describe(script: &mut Script, name: &str, version: i16, groups: &[&str]) {
    let request = DescribeGroupsRequest {
        groups: groups.iter().map(|group| Cow::Borrowed(*group)).collect(),
        include_authorized_operations: version >= 3,
    };
    script.ask_shaped(name, version, &request, |response: &mut DescribeGroupsResponse<'static>, _: &mut Names| {
        response.groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        for group in &mut response.groups {
            group.members.sort_by(|a, b| {
                (&a.member_metadata, &a.member_assignment).cmp(&(&b.member_metadata, &b.member_assignment))
            });
        }
    });
}

#[test]
fn a_group_of_one_in_all_versions() {
    let mut script = Script::start("a_group_of_one_in_all_versions");
    wait_for_coordinator(&mut script);
    let topic = script.create("t", 2, &[KEPT]);
    for version in 0..=9 {
        let group: &'static str = format!("one-{version}").leak();
        let (sync_version, beat, desc) = (version.min(5), version.min(4), version.min(6));
        let (id, generation) = join_alone(&mut script, version, group);
        describe(&mut script, "joined", desc, &[group]);
        ask_heartbeat(&mut script, "heartbeat while completing", beat, &heartbeat(group, &id, generation));
        committed::commit_as(&mut script, "commit while completing", version.max(2), topic, group, &id, generation);
        for (name, member, generation) in
            [("old", id.as_str(), generation - 1), ("unknown", "nobody", generation), ("no", "", generation)]
        {
            let request = sync_in(sync_version, sync(group, member, generation, &[]));
            script.ask::<_, SyncGroupResponse<'static>>(&format!("sync: {name}"), sync_version, &request);
            ask_heartbeat(&mut script, &format!("heartbeat: {name}"), beat, &heartbeat(group, member, generation));
        }
        let request = sync_in(sync_version, sync(group, &id, generation, &[(&id, b"mine"), ("nobody", b"not mine")]));
        script.ask::<_, SyncGroupResponse<'static>>("sync", sync_version, &request);
        let request = sync_in(sync_version, sync(group, &id, generation, &[]));
        script.ask::<_, SyncGroupResponse<'static>>("sync again", sync_version, &request);
        ask_heartbeat(&mut script, "heartbeat", beat, &heartbeat(group, &id, generation));
        describe(&mut script, "stable", desc, &[group]);
        committed::commit_as(&mut script, "commit", version.max(2), topic, group, &id, generation);
        committed::commit_as(&mut script, "commit: old", version.max(2), topic, group, &id, generation - 1);
        committed::commit_as(&mut script, "commit: unknown", version.max(2), topic, group, "nobody", generation);
        committed::commit_as(&mut script, "commit: no member", version.max(2), topic, group, "", -1);
        committed::fetch_one(&mut script, "offsets", version.max(1), topic, group);
        let joined = ask_join(&mut script, "the leader joins again", version, &join(group, &id, SUBSCRIPTION));
        let generation = joined.generation_id;
        let request = sync_in(sync_version, sync(group, &id, generation, &[]));
        script.ask::<_, SyncGroupResponse<'static>>("sync without an assignment", sync_version, &request);
        for (name, member) in [("leave: unknown", "nobody"), ("leave", &id), ("leave again", &id)] {
            let request = leave(sync_version, group, &[(member, None)]);
            script.ask::<_, LeaveGroupResponse<'static>>(name, sync_version, &request);
        }
        ask_heartbeat(&mut script, "heartbeat after leaving", beat, &heartbeat(group, &id, generation));
        describe(&mut script, "empty", desc, &[group]);
        committed::commit_as(&mut script, "commit to the empty group", version.max(2), topic, group, "", -1);
        committed::commit_as(&mut script, "commit: gone", version.max(2), topic, group, &id, generation);
    }
    script.finish();
}

#[test]
fn group_errors() {
    let mut script = Script::start("group_errors");
    wait_for_coordinator(&mut script);
    for version in [0, 3, 4, 9] {
        let group: &'static str = format!("errors-{version}").leak();
        let (sync_version, beat) = (version.min(5), version.min(4));
        ask_join(&mut script, "an empty group", version, &join("", "", SUBSCRIPTION));
        for timeout in [-1, 0, 5_999, 1_800_001] {
            let request = JoinGroupRequest { session_timeout_ms: timeout, ..join(group, "", SUBSCRIPTION) };
            ask_join(&mut script, &format!("session timeout {timeout}"), version, &request);
        }
        ask_join(&mut script, "an unknown member of an unknown group", version, &join(group, "nobody", SUBSCRIPTION));
        let request = JoinGroupRequest { protocols: Vec::new(), ..join(group, "", SUBSCRIPTION) };
        ask_join(&mut script, "no protocols", version, &request);
        let request = JoinGroupRequest { protocol_type: Cow::Borrowed(""), ..join(group, "", SUBSCRIPTION) };
        ask_join(&mut script, "no protocol type", version, &request);
        ask_heartbeat(&mut script, "heartbeat to an unknown group", beat, &heartbeat(group, "nobody", 1));
        ask_heartbeat(&mut script, "heartbeat to an empty name", beat, &heartbeat("", "nobody", 1));
        for (name, id) in [("an unknown group", group), ("an empty name", "")] {
            let request = sync_in(sync_version, sync(id, "nobody", 1, &[]));
            script.ask::<_, SyncGroupResponse<'static>>(&format!("sync with {name}"), sync_version, &request);
            let request = leave(sync_version, id, &[("nobody", None)]);
            script.ask::<_, LeaveGroupResponse<'static>>(&format!("leave {name}"), sync_version, &request);
        }
        let (id, generation) = join_alone(&mut script, version, group);
        ask_join(&mut script, "an unknown member", version, &join(group, "nobody", SUBSCRIPTION));
        let request = JoinGroupRequest { protocol_type: Cow::Borrowed("connect"), ..join(group, "", SUBSCRIPTION) };
        ask_join(&mut script, "another protocol type", version, &request);
        let mut request = join(group, "", SUBSCRIPTION);
        request.protocols[0].name = Cow::Borrowed("sticky");
        ask_join(&mut script, "no protocol in common", version, &request);
        if sync_version == 5 {
            for (protocol_type, protocol_name) in
                [(Some("connect"), Some("range")), (Some("consumer"), Some("sticky")), (None, None)]
            {
                let request = SyncGroupRequest {
                    protocol_type: protocol_type.map(Cow::Borrowed),
                    protocol_name: protocol_name.map(Cow::Borrowed),
                    ..sync(group, &id, generation, &[])
                };
                let name = format!("sync as {protocol_type:?} {protocol_name:?}");
                script.ask::<_, SyncGroupResponse<'static>>(&name, sync_version, &request);
            }
        }
        let request =
            leave(sync_version, group, &[(&id, None), ("nobody", None), (&id, None), ("", Some("no-instance"))]);
        script.ask::<_, LeaveGroupResponse<'static>>("several leave", sync_version, &request);
    }
    script.finish();
}

#[test]
fn other_protocol_types() {
    let mut script = Script::start("other_protocol_types");
    wait_for_coordinator(&mut script);
    for (protocol_type, protocol) in [("connect", "compatible"), ("sr", "v0")] {
        let group: &'static str = format!("other-{protocol_type}").leak();
        let mut request = join(group, "", b"\x00\xffopaque");
        request.protocol_type = Cow::Borrowed(protocol_type);
        request.protocols[0].name = Cow::Borrowed(protocol);
        let joined = ask_join(&mut script, "join", 3, &request);
        let id = joined.member_id.into_owned();
        let request = sync(group, &id, joined.generation_id, &[(&id, b"\xfe")]);
        script.ask::<_, SyncGroupResponse<'static>>("sync", 2, &request);
        describe(&mut script, "described", 5, &[group]);
        script.ask::<_, LeaveGroupResponse<'static>>("leave", 2, &leave(2, group, &[(&id, None)]));
    }
    script.finish();
}

#[test]
fn describe_groups_in_all_versions() {
    let mut script = Script::start("describe_groups_in_all_versions");
    wait_for_coordinator(&mut script);
    let topic = script.create("describe", 1, &[KEPT]);
    committed::commit_as(&mut script, "commit", 8, topic, "", "", -1);
    for version in 0..=6 {
        describe(&mut script, "unknown", version, &["no-such-group", "nor-this"]);
        describe(&mut script, "an empty name", version, &[""]);
        describe(&mut script, "none", version, &[]);
        let request = DescribeGroupsRequest { groups: vec![Cow::Borrowed("no-such-group")], ..Default::default() };
        script.ask::<_, DescribeGroupsResponse<'static>>("without operations", version, &request);
    }
    script.finish();
}

#[test]
fn list_groups_in_all_versions() {
    let mut script = Script::start("list_groups_in_all_versions");
    wait_for_coordinator(&mut script);
    let topic = script.create("list", 1, &[KEPT]);
    let (id, generation) = join_alone(&mut script, 3, "list-completing");
    committed::commit_as(&mut script, "commit", 8, topic, "list-simple", "", -1);
    let own = |response: &mut ListGroupsResponse<'static>, _: &mut Names| {
        response.groups.retain(|group| group.group_id.starts_with("list-"));
        response.groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
    };
    for version in 0..=5 {
        script.ask_shaped("all", version, &ListGroupsRequest::default(), own);
        if version >= 4 {
            for states in [&["Empty"][..], &["CompletingRebalance", "Empty"], &["completingrebalance"], &["Bogus"]] {
                let states_filter = states.iter().map(|state| Cow::Borrowed(*state)).collect();
                let request = ListGroupsRequest { states_filter, ..Default::default() };
                script.ask_shaped(&format!("states {states:?}"), version, &request, own);
            }
        }
        if version >= 5 {
            for types in [&["classic"][..], &["Classic"], &["consumer"], &["consumer", "classic"], &["bogus"]] {
                let types_filter = types.iter().map(|kind| Cow::Borrowed(*kind)).collect();
                let request = ListGroupsRequest { types_filter, ..Default::default() };
                script.ask_shaped(&format!("types {types:?}"), version, &request, own);
            }
        }
    }
    ask_heartbeat(&mut script, "alive", 3, &heartbeat("list-completing", &id, generation));
    script.finish();
}
