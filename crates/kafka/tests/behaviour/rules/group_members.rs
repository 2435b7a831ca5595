//! Members of classic groups: rows 51 to 56, 59 and 60. All of it through the api; the state machine has tests of its
//! own.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::describe_groups_response::DescribedGroup;
use mainstem_kafka_wire::messages::join_group_request::JoinGroupRequestProtocol;
use mainstem_kafka_wire::messages::leave_group_request::MemberIdentity;
use mainstem_kafka_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use mainstem_kafka_wire::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse, SyncGroupRequest,
    SyncGroupResponse,
};

use crate::support::Node;
use crate::support::link::{CLIENT_ID, Link, Sent, settle};
use crate::support::requests::join;

const GROUP: &str = "g";

fn start(settings: &[(&str, &str)]) -> Node {
    let node = Node::start_in_real_time(settings);
    node.runtime.block_on(node.broker().create_offsets_topic()).unwrap();
    node
}

/// Joins and gives the answer.
fn joined(node: &Node, version: i16, request: &JoinGroupRequest<'_>) -> JoinGroupResponse<'static> {
    node.call(version, request)
}

/// Joins in version 9, with a new id if need be.
fn member(node: &Node, group: &str, metadata: &[u8]) -> JoinGroupResponse<'static> {
    let first = joined(node, 9, &join(group, "", metadata));
    assert_eq!(first.error_code, ErrorCode::MEMBER_ID_REQUIRED.0);
    joined(node, 9, &join(group, &first.member_id, metadata))
}

fn sync_request<'m>(member: &'m str, generation: i32, assignments: &[(&'m str, &'m [u8])]) -> SyncGroupRequest<'m> {
    let assignment = |(member, assignment): &(&'m str, &'m [u8])| SyncGroupRequestAssignment {
        member_id: Cow::Borrowed(*member),
        assignment: Cow::Borrowed(*assignment),
    };
    SyncGroupRequest {
        group_id: Cow::Borrowed(GROUP),
        generation_id: generation,
        member_id: Cow::Borrowed(member),
        assignments: assignments.iter().map(assignment).collect(),
        ..Default::default()
    }
}

fn synced(node: &Node, member: &str, generation: i32, assignments: &[(&str, &[u8])]) -> SyncGroupResponse<'static> {
    node.call(3, &sync_request(member, generation, assignments))
}

fn beat(node: &Node, member: &str, generation: i32) -> i16 {
    let request = HeartbeatRequest {
        group_id: Cow::Borrowed(GROUP),
        generation_id: generation,
        member_id: Cow::Borrowed(member),
        ..Default::default()
    };
    node.call::<_, HeartbeatResponse>(3, &request).error_code
}

fn described(node: &Node, version: i16) -> DescribedGroup<'static> {
    let request = DescribeGroupsRequest { groups: vec![Cow::Borrowed(GROUP)], ..Default::default() };
    let response: DescribeGroupsResponse<'static> = node.call(version, &request);
    response.groups.into_iter().next().unwrap()
}

fn left(node: &Node, version: i16, member: &str) -> i16 {
    let mut request = LeaveGroupRequest { group_id: Cow::Borrowed(GROUP), ..Default::default() };
    if version >= 3 {
        request.members = vec![MemberIdentity { member_id: Cow::Borrowed(member), ..Default::default() }];
    } else {
        request.member_id = Cow::Borrowed(member);
    }
    let response: LeaveGroupResponse<'static> = node.call(version, &request);
    response.members.first().map_or(response.error_code, |member| member.error_code)
}

/// Two members, `a` the leader, in one stable generation.
struct Pair {
    node: Node,
    a: String,
    b: String,
    generation: i32,
}

impl Pair {
    fn start() -> Pair {
        let node = start(&[]);
        let a = member(&node, GROUP, b"a").member_id.into_owned();
        let b = joined(&node, 9, &join(GROUP, "", b"b")).member_id.into_owned();
        let (link, waiting) = waits(&node, &join(GROUP, &b, b"b"));
        let leads = joined(&node, 9, &join(GROUP, &a, b"a"));
        let follows = answer(link, waiting);
        assert_eq!((leads.error_code, follows.error_code, follows.members.len()), (0, 0, 0));
        let metadata: Vec<&[u8]> = leads.members.iter().map(|member| member.metadata.as_ref()).collect();
        assert_eq!(
            (leads.leader.as_ref(), metadata),
            (a.as_str(), vec![&b"a"[..], b"b"]),
            "the leader gets the members"
        );
        let generation = leads.generation_id;
        assert_eq!(synced(&node, &a, generation, &[(&a, b"1"), (&b, b"2")]).assignment.as_ref(), b"1");
        assert_eq!(synced(&node, &b, generation, &[]).assignment.as_ref(), b"2");
        Pair { node, a, b, generation }
    }
}

/// A join that is not answered yet.
fn waits(node: &Node, request: &JoinGroupRequest<'_>) -> (Link, Sent) {
    let mut link = node.connect();
    let sent = link.send(9, request);
    settle(&node.runtime);
    assert!(!sent.is_ended(), "{request:?}");
    (link, sent)
}

fn answer(mut link: Link, sent: Sent) -> JoinGroupResponse<'static> {
    link.end::<JoinGroupRequest<'_>, _>(9, sent).answer()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn row_51_from_version_4_a_new_member_is_told_its_id_first() {
    let node = start(&[]);
    for version in 0..=9 {
        let group: &'static str = format!("g-{version}").leak();
        let first = joined(&node, version, &join(group, "", b"m"));
        assert_eq!(first.error_code, if version >= 4 { ErrorCode::MEMBER_ID_REQUIRED.0 } else { 0 });
        let id = first.member_id.as_ref();
        let uuid = id.strip_prefix(CLIENT_ID).and_then(|rest| rest.strip_prefix('-')).unwrap();
        assert_eq!((uuid.len(), uuid.matches('-').count()), (36, 4), "{id}");
        if version >= 4 {
            let second = joined(&node, version, &join(group, id, b"m"));
            assert_eq!((second.error_code, second.member_id.as_ref(), second.generation_id), (0, id, 1));
        }
    }
    let request = JoinGroupRequest { group_instance_id: Some(Cow::Borrowed("i")), ..join("static", "", b"m") };
    assert_eq!(joined(&node, 9, &request).error_code, 0, "a static member joins at once");
}

#[test]
fn row_51_an_id_that_is_not_used_within_the_session_timeout_is_forgotten() {
    let node = start(&[("group.min.session.timeout.ms", "1")]);
    let mut pause = Duration::from_millis(20);
    loop {
        let new = JoinGroupRequest { session_timeout_ms: 5, ..join(GROUP, "", b"m") };
        let id = joined(&node, 4, &new).member_id.into_owned();
        std::thread::sleep(pause);
        let known = JoinGroupRequest { session_timeout_ms: 60_000, ..join(GROUP, &id, b"m") };
        let code = joined(&node, 4, &known).error_code;
        if code == ErrorCode::UNKNOWN_MEMBER_ID.0 {
            return;
        }
        // The machine was too slow to notice: again, with more time.
        assert!(code == 0 && left(&node, 3, &id) == 0 && pause < Duration::from_secs(10));
        pause *= 2;
    }
}

#[test]
fn row_51_the_first_join_of_an_empty_group_waits_for_others() {
    let node = start(&[("group.initial.rebalance.delay.ms", "200")]);
    let began = Instant::now();
    assert_eq!(joined(&node, 3, &join(GROUP, "", b"m")).error_code, 0);
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[test]
fn row_52_joins_that_are_refused() {
    let node = start(&[]);
    let refused = |request: &JoinGroupRequest<'_>, error: ErrorCode| {
        for version in [0, 4, 9] {
            let response = joined(&node, version, request);
            assert_eq!((response.error_code, response.generation_id), (error.0, -1), "{version}");
            assert_eq!((response.leader.as_ref(), response.members.len()), ("", 0));
        }
    };
    refused(&join("", "", b"m"), ErrorCode::INVALID_GROUP_ID);
    for session_timeout_ms in [5_999, 1_800_001] {
        let request = JoinGroupRequest { session_timeout_ms, ..join(GROUP, "", b"m") };
        refused(&request, ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    refused(&join(GROUP, "nobody", b"m"), ErrorCode::UNKNOWN_MEMBER_ID);
    refused(&JoinGroupRequest { protocols: vec![], ..join(GROUP, "", b"m") }, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(joined(&node, 0, &join(GROUP, "", b"m")).error_code, 0);
    refused(&join(GROUP, "nobody", b"m"), ErrorCode::UNKNOWN_MEMBER_ID);
    let other_type = JoinGroupRequest { protocol_type: Cow::Borrowed("connect"), ..join(GROUP, "", b"m") };
    refused(&other_type, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let mut nothing_in_common = join(GROUP, "", b"m");
    nothing_in_common.protocols[0].name = Cow::Borrowed("sticky");
    refused(&nothing_in_common, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
}

#[test]
fn row_52_a_full_group_takes_nobody_else() {
    let node = start(&[("group.max.size", "1")]);
    let first = joined(&node, 3, &join(GROUP, "", b"m"));
    for version in [3, 9] {
        let refused = joined(&node, version, &join(GROUP, "", b"m"));
        assert_eq!(refused.error_code, ErrorCode::GROUP_MAX_SIZE_REACHED.0);
    }
    assert_eq!(joined(&node, 3, &join(GROUP, &first.member_id, b"m")).error_code, 0, "who is in, stays");
}

#[test]
fn row_53_a_leader_that_joins_again_starts_a_rebalance_and_a_follower_that_did_not_change_does_not() {
    let Pair { node, a, b, generation } = Pair::start();
    let again = joined(&node, 9, &join(GROUP, &b, b"b"));
    assert_eq!((again.error_code, again.generation_id, again.members.len()), (0, generation, 0));
    assert_eq!(beat(&node, &a, generation), 0, "no rebalance");
    let (link, waiting) = waits(&node, &join(GROUP, &a, b"a"));
    assert_eq!(beat(&node, &b, generation), ErrorCode::REBALANCE_IN_PROGRESS.0);
    assert_eq!(joined(&node, 9, &join(GROUP, &b, b"b")).generation_id, generation + 1);
    assert_eq!(answer(link, waiting).generation_id, generation + 1);
    // While the leader has not synced, who joins as before gets the same answer again.
    let replayed = joined(&node, 9, &join(GROUP, &b, b"b"));
    assert_eq!((replayed.error_code, replayed.generation_id), (0, generation + 1));
}

#[test]
fn row_53_a_follower_whose_metadata_changed_starts_a_rebalance() {
    let Pair { node, a, b, generation } = Pair::start();
    let (link, waiting) = waits(&node, &join(GROUP, &b, b"b, changed"));
    let leads = joined(&node, 9, &join(GROUP, &a, b"a"));
    assert_eq!((leads.generation_id, leads.members.len()), (generation + 1, 2));
    assert_eq!(answer(link, waiting).generation_id, generation + 1);
}

#[test]
fn row_54_what_a_heartbeat_says_in_each_state() {
    let Pair { node, a, b, generation } = Pair::start();
    assert_eq!(beat(&node, &a, generation), 0, "Stable");
    for other in [generation - 1, generation + 1, -1] {
        assert_eq!(beat(&node, &a, other), ErrorCode::ILLEGAL_GENERATION.0);
    }
    assert_eq!(beat(&node, "nobody", generation), ErrorCode::UNKNOWN_MEMBER_ID.0);
    let (link, waiting) = waits(&node, &join(GROUP, &a, b"a"));
    assert_eq!(beat(&node, &b, generation), ErrorCode::REBALANCE_IN_PROGRESS.0, "PreparingRebalance");
    joined(&node, 9, &join(GROUP, &b, b"b"));
    let generation = answer(link, waiting).generation_id;
    assert_eq!(described(&node, 5).group_state, "CompletingRebalance");
    assert_eq!(beat(&node, &b, generation), 0, "CompletingRebalance");
    assert_eq!((left(&node, 3, &a), left(&node, 3, &b)), (0, 0));
    assert_eq!(described(&node, 5).group_state, "Empty");
    assert_eq!(beat(&node, &b, generation), ErrorCode::UNKNOWN_MEMBER_ID.0, "Empty");
}

#[test]
fn row_54_a_member_that_is_silent_for_its_session_timeout_is_gone() {
    let node = start(&[("group.min.session.timeout.ms", "1")]);
    let request = JoinGroupRequest { session_timeout_ms: 30, ..join(GROUP, "", b"m") };
    assert_eq!(joined(&node, 3, &request).error_code, 0);
    eventually("the member is still there", || described(&node, 5).group_state == "Empty");
}

#[test]
fn row_55_syncs_wait_for_the_leader_and_who_it_forgot_gets_nothing() {
    let Pair { node, a, b, generation } = Pair::start();
    let (link, waiting) = waits(&node, &join(GROUP, &a, b"a"));
    assert_eq!(synced(&node, &b, generation, &[]).error_code, ErrorCode::REBALANCE_IN_PROGRESS.0);
    joined(&node, 9, &join(GROUP, &b, b"b"));
    let generation = answer(link, waiting).generation_id;
    let mut link = node.connect();
    let waiting = link.send(3, &sync_request(&b, generation, &[]));
    settle(&node.runtime);
    assert!(!waiting.is_ended());
    assert_eq!(synced(&node, &a, generation, &[(&a, b"all")]).assignment.as_ref(), b"all");
    let follows: SyncGroupResponse<'static> = link.end::<SyncGroupRequest<'_>, _>(3, waiting).answer();
    assert_eq!((follows.error_code, follows.assignment.as_ref()), (0, &b""[..]));
    assert_eq!(synced(&node, &a, generation, &[]).assignment.as_ref(), b"all", "asked again, it is what is stored");
    assert_eq!(synced(&node, &a, generation - 1, &[]).error_code, ErrorCode::ILLEGAL_GENERATION.0);
    assert_eq!(synced(&node, "nobody", generation, &[]).error_code, ErrorCode::UNKNOWN_MEMBER_ID.0);
}

#[test]
fn row_55_from_version_5_the_protocol_must_be_named_and_fit() {
    let Pair { node, a, generation, .. } = Pair::start();
    let named = |protocol_type: Option<&'static str>, protocol_name: Option<&'static str>| SyncGroupRequest {
        protocol_type: protocol_type.map(Cow::Borrowed),
        protocol_name: protocol_name.map(Cow::Borrowed),
        ..sync_request(&a, generation, &[])
    };
    let fits: SyncGroupResponse<'static> = node.call(5, &named(Some("consumer"), Some("range")));
    assert_eq!((fits.error_code, fits.protocol_type.as_deref()), (0, Some("consumer")));
    assert_eq!((fits.protocol_name.as_deref(), fits.assignment.as_ref()), (Some("range"), &b"1"[..]));
    let others =
        [(Some("connect"), Some("range")), (Some("consumer"), Some("sticky")), (None, None), (Some("consumer"), None)];
    for (protocol_type, protocol_name) in others {
        let response: SyncGroupResponse<'static> = node.call(5, &named(protocol_type, protocol_name));
        assert_eq!(response.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL.0);
    }
}

#[test]
fn row_55_members_that_do_not_sync_within_the_rebalance_timeout_are_removed() {
    let node = start(&[]);
    let id = joined(&node, 4, &join(GROUP, "", b"m")).member_id.into_owned();
    let request = JoinGroupRequest { rebalance_timeout_ms: 50, ..join(GROUP, &id, b"m") };
    assert_eq!(joined(&node, 4, &request).error_code, 0);
    eventually("the member is still there", || described(&node, 5).members.is_empty());
}

fn static_join<'m>(instance: &'m str, id: &'m str, metadata: &'m [u8]) -> JoinGroupRequest<'m> {
    JoinGroupRequest { group_instance_id: Some(Cow::Borrowed(instance)), ..join(GROUP, id, metadata) }
}

#[test]
fn row_56_a_static_member_that_comes_back_takes_its_place_without_a_rebalance() {
    for version in 5..=9 {
        let node = start(&[]);
        let first = joined(&node, version, &static_join("i", "", b"m"));
        let old = first.member_id.clone();
        assert_eq!(synced(&node, &old, first.generation_id, &[(&old, b"all")]).error_code, 0);
        let back = joined(&node, version, &static_join("i", "", b"m"));
        let new = back.member_id.clone();
        assert_eq!((back.error_code, back.generation_id), (0, first.generation_id), "no rebalance");
        assert_ne!(new, old);
        // From version 9 the leader knows that it leads and need not assign; before, it is kept from assigning.
        assert_eq!(back.skip_assignment, version >= 9);
        assert_eq!(back.leader, if version >= 9 { new.clone() } else { old.clone() });
        assert_eq!(synced(&node, &new, back.generation_id, &[]).assignment.as_ref(), b"all");
        let beat_as = |id: &str| {
            let request = HeartbeatRequest {
                group_id: Cow::Borrowed(GROUP),
                generation_id: back.generation_id,
                member_id: Cow::Owned(id.to_owned()),
                group_instance_id: Some(Cow::Borrowed("i")),
            };
            node.call::<_, HeartbeatResponse>(3, &request).error_code
        };
        assert_eq!((beat_as(&old), beat_as(&new)), (ErrorCode::FENCED_INSTANCE_ID.0, 0));
        let fenced = joined(&node, version, &static_join("i", &old, b"m"));
        assert_eq!(fenced.error_code, ErrorCode::FENCED_INSTANCE_ID.0);
        let changed = joined(&node, version, &static_join("i", "", b"m, changed"));
        assert_eq!(changed.generation_id, first.generation_id, "the protocol is still the same");
        let mut other = static_join("i", "", b"m");
        other.protocols.insert(0, JoinGroupRequestProtocol { name: Cow::Borrowed("sticky"), ..Default::default() });
        let other = joined(&node, version, &other);
        assert_eq!(
            (other.error_code, other.generation_id),
            (0, first.generation_id + 1),
            "another protocol: a rebalance"
        );
    }
}

#[test]
fn row_56_static_members_are_removed_by_their_instance_id() {
    let node = start(&[]);
    joined(&node, 9, &static_join("i", "", b"m"));
    for version in 3..=5 {
        let identity = |instance: &'static str| MemberIdentity {
            group_instance_id: Some(Cow::Borrowed(instance)),
            ..Default::default()
        };
        let request = LeaveGroupRequest {
            group_id: Cow::Borrowed(GROUP),
            members: vec![identity("unknown"), identity("i")],
            ..Default::default()
        };
        let response: LeaveGroupResponse<'static> = node.call(version, &request);
        let codes: Vec<i16> = response.members.iter().map(|member| member.error_code).collect();
        let unknown = ErrorCode::UNKNOWN_MEMBER_ID.0;
        assert_eq!((response.error_code, codes), (0, vec![unknown, if version == 3 { 0 } else { unknown }]));
    }
    assert_eq!(described(&node, 5).group_state, "Empty");
}

#[test]
fn groups_and_their_members_survive_a_restart() {
    let Pair { node, a, b, generation } = Pair::start();
    let node = node.restart();
    eventually("the groups are not loaded", || described(&node, 5).error_code == 0);
    let group = described(&node, 5);
    assert_eq!((group.group_state.as_ref(), group.members.len()), ("Stable", 2));
    assert_eq!((beat(&node, &a, generation), beat(&node, &b, generation)), (0, 0));
    assert_eq!(synced(&node, &b, generation, &[]).assignment.as_ref(), b"2");
}

#[test]
fn row_59_an_unknown_group_is_dead_and_from_version_6_not_found() {
    let node = start(&[]);
    for version in 0..=6 {
        let group = described(&node, version);
        assert_eq!(group.error_code, if version >= 6 { ErrorCode::GROUP_ID_NOT_FOUND.0 } else { 0 });
        assert_eq!((group.group_state.as_ref(), group.members.len()), ("Dead", 0));
        assert_eq!(group.error_message.is_some(), version >= 6);
    }
}

#[test]
fn row_59_groups_are_described_and_listed_in_their_states() {
    let Pair { node, a, b, .. } = Pair::start();
    let listed = |states: &[&'static str]| {
        let states_filter = states.iter().map(|state| Cow::Borrowed(*state)).collect();
        let request = ListGroupsRequest { states_filter, ..Default::default() };
        let response: ListGroupsResponse<'static> = node.call(5, &request);
        response
            .groups
            .iter()
            .map(|group| (group.group_state.to_string(), group.group_type.to_string()))
            .collect::<Vec<_>>()
    };
    let group = described(&node, 5);
    assert_eq!((group.group_state.as_ref(), group.protocol_type.as_ref()), ("Stable", "consumer"));
    assert_eq!(group.protocol_data, "range");
    let member = group.members.iter().find(|member| member.member_id == a.as_str()).unwrap();
    assert_eq!((member.client_id.as_ref(), member.client_host.as_ref()), (CLIENT_ID, "/127.0.0.1"));
    assert_eq!((member.member_metadata.as_ref(), member.member_assignment.as_ref()), (&b"a"[..], &b"1"[..]));
    assert_eq!(listed(&["Stable"]), [("Stable".to_owned(), "classic".to_owned())]);
    assert_eq!(listed(&["Empty"]), []);
    let (link, waiting) = waits(&node, &join(GROUP, &a, b"a"));
    assert_eq!(described(&node, 5).group_state, "PreparingRebalance");
    left(&node, 3, &b);
    answer(link, waiting);
    assert_eq!(described(&node, 5).group_state, "CompletingRebalance");
    left(&node, 3, &a);
    assert_eq!(described(&node, 5).group_state, "Empty");
    assert_eq!(listed(&[]), [("Empty".to_owned(), "classic".to_owned())]);
}

#[test]
fn row_60_protocols_of_any_type_and_their_bytes_are_opaque() {
    let node = start(&[]);
    for (protocol_type, metadata) in [("connect", &b"\xff\0\xfe"[..]), ("sr", b""), ("consumer", b"not a subscription")]
    {
        let group: &'static str = format!("g-{protocol_type}").leak();
        let mut request = join(group, "", metadata);
        request.protocol_type = Cow::Borrowed(protocol_type);
        request.protocols[0].name = Cow::Borrowed("p");
        let answer = joined(&node, 3, &request);
        assert_eq!((answer.error_code, answer.members[0].metadata.as_ref()), (0, metadata));
        let request = SyncGroupRequest {
            group_id: Cow::Borrowed(group),
            ..sync_request(&answer.member_id, answer.generation_id, &[(&answer.member_id, b"\x80\x81")])
        };
        let response: SyncGroupResponse<'static> = node.call(0, &request);
        assert_eq!(response.assignment.as_ref(), b"\x80\x81");
    }
}
