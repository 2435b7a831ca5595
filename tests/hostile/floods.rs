//! Groups with more members than anybody has, and more groups.

use std::borrow::Cow;
use std::io::Write;

use mainstem_kafka_wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use mainstem_kafka_wire::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, FindCoordinatorRequest, FindCoordinatorResponse, JoinGroupResponse,
    ListGroupsRequest, ListGroupsResponse,
};

use crate::bed::{Bed, MIB};
use crate::wire::{self, Client, Outcome, receive};

const MEMBER_ID_REQUIRED: i16 = 79;

fn join(group: &str, metadata: &'static [u8]) -> JoinGroupRequest<'static> {
    JoinGroupRequest {
        group_id: Cow::Owned(group.to_owned()),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), metadata: Cow::Borrowed(metadata) }],
        ..Default::default()
    }
}

/// A client for which the coordinator is there.
fn member(bed: &Bed) -> Client {
    let mut client = bed.connect();
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    loop {
        let find = FindCoordinatorRequest { key: "g".into(), ..Default::default() };
        let _: FindCoordinatorResponse<'_> = client.ask(2, &find);
        let answer: JoinGroupResponse<'_> = client.ask(5, &join("first", b""));
        if answer.error_code == MEMBER_ID_REQUIRED {
            return client;
        }
        assert!(std::time::Instant::now() < deadline, "{answer:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Sends requests that are answered at once, some at a time.
fn send_all(client: &mut Client, requests: impl Iterator<Item = bytes::Bytes>, mut answer: impl FnMut(Vec<u8>)) {
    let requests: Vec<_> = requests.collect();
    for some in requests.chunks(200) {
        client.stream.write_all(&some.concat()).unwrap();
        for _ in some {
            let Outcome::Answer(bytes) = receive(&mut client.stream) else { panic!("closed") };
            answer(bytes);
        }
    }
}

#[test]
fn tens_of_thousands_of_members_that_never_come_back() {
    let bed = Bed::start(&[]);
    let mut client = member(&bed);
    bed.endure("30,000 pending members", 128 * MIB, |_| {
        let request = wire::request(5, &join("crowd", b"metadata"));
        send_all(&mut client, std::iter::repeat_n(request, 30_000), |answer| {
            let answer: JoinGroupResponse<'_> = wire::decode::<JoinGroupRequest<'_>, _>(5, answer);
            assert_eq!(answer.error_code, MEMBER_ID_REQUIRED);
        });
    });
}

#[test]
fn thousands_of_groups() {
    let bed = Bed::start(&[]);
    let mut client = member(&bed);
    bed.endure("5,000 groups", 128 * MIB, |_| {
        let requests = (0..5_000).map(|number| wire::request(5, &join(&format!("group-{number}"), b"")));
        send_all(&mut client, requests, |_| {});
        let listed: ListGroupsResponse<'_> = client.ask(4, &ListGroupsRequest::default());
        assert!(listed.groups.len() >= 5_000);
    });
}

/// Members whose joins are parked, each on a connection of its own, which then go away.
#[test]
fn a_thousand_members_that_join_and_vanish() {
    let bed = Bed::start(&["group.initial.rebalance.delay.ms=500"]);
    drop(member(&bed));
    bed.endure("1,000 vanishing members", 96 * MIB, |bed| {
        let mut clients: Vec<Client> = (0..1000).map(|_| bed.connect()).collect();
        let request = wire::request(2, &join("vanishing", &[7; 1024]));
        for client in &mut clients {
            client.stream.write_all(&request).unwrap();
        }
        drop(clients);
        let mut watching = bed.connect();
        let deadline = std::time::Instant::now() + crate::support::PATIENCE;
        loop {
            let request = DescribeGroupsRequest { groups: vec!["vanishing".into()], ..Default::default() };
            let answer: DescribeGroupsResponse<'_> = watching.ask(0, &request);
            // The rebalance that they joined is over.
            if !["Dead", "PreparingRebalance"].contains(&&*answer.groups[0].group_state) {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{answer:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
}
