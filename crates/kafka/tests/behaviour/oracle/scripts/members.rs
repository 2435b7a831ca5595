//! Groups of several members, and static members.

use std::borrow::Cow;

use mainstem_kafka_wire::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};

use super::super::canonical::Names;
use super::super::script::{Asked, Script};
use super::cluster::wait_for_coordinator;
use super::groups::{ask_heartbeat, describe, heartbeat, leave, sync, sync_in};
use crate::support::requests::join;

/// Kafka lists members in the order of a hash map; their metadata tells them apart.
fn sorted(response: &mut JoinGroupResponse<'static>, _: &mut Names) {
    response.members.sort_by(|a, b| a.metadata.cmp(&b.metadata));
}

struct Member {
    link: usize,
    metadata: &'static [u8],
    instance: Option<&'static str>,
    id: String,
}

impl Member {
    fn new(script: &mut Script, metadata: &'static [u8], instance: Option<&'static str>) -> Member {
        Member { link: script.connect(), metadata, instance, id: String::new() }
    }

    fn join<'m>(&'m self, group: &'m str) -> JoinGroupRequest<'m> {
        let group_instance_id = self.instance.map(Cow::Borrowed);
        JoinGroupRequest { group_instance_id, ..join(group, &self.id, self.metadata) }
    }

    fn sends_join(&self, script: &mut Script, name: &str, version: i16, group: &str) -> Asked {
        script.send(self.link, name, version, &self.join(group))
    }

    fn is_joined(&mut self, script: &mut Script, asked: Asked) -> JoinGroupResponse<'static> {
        let answer = script.answer_with::<JoinGroupRequest<'_>, JoinGroupResponse<'static>>(asked, sorted).answer();
        self.id = answer.member_id.clone().into_owned();
        answer
    }

    /// Asks for a member id, where the version wants one.
    fn introduces_itself(&mut self, script: &mut Script, version: i16, group: &str) {
        if version >= 4 && self.instance.is_none() {
            let asked = self.sends_join(script, "for an id", version, group);
            self.is_joined(script, asked);
        }
    }

    fn sends_sync(&self, script: &mut Script, name: &str, version: i16, request: SyncGroupRequest<'_>) -> Asked {
        let group_instance_id = self.instance.filter(|_| version >= 3).map(|id| Cow::Owned(id.to_owned()));
        let request = SyncGroupRequest { group_instance_id, ..sync_in(version, request) };
        script.send(self.link, name, version, &request)
    }

    fn is_synced(&self, script: &mut Script, asked: Asked) {
        script.answer::<SyncGroupRequest<'_>, SyncGroupResponse<'static>>(asked);
    }
}

#[test]
fn a_group_of_three() {
    let mut script = Script::start("a_group_of_three");
    wait_for_coordinator(&mut script);
    for version in [1, 5, 9] {
        let group: &'static str = format!("three-{version}").leak();
        let (sync_version, beat) = (version.min(5), version.min(4));
        let mut a = Member::new(&mut script, b"a", None);
        let mut b = Member::new(&mut script, b"b", None);
        let mut c = Member::new(&mut script, b"c", None);
        a.introduces_itself(&mut script, version, group);
        let alone = a.sends_join(&mut script, "a joins", version, group);
        let alone = a.is_joined(&mut script, alone);
        b.introduces_itself(&mut script, version, group);
        let second = b.sends_join(&mut script, "b joins", version, group);
        script.settle();
        ask_heartbeat(&mut script, "a has to join again", beat, &heartbeat(group, &a.id, alone.generation_id));
        let first = a.sends_join(&mut script, "a joins with b", version, group);
        let joined = a.is_joined(&mut script, first);
        b.is_joined(&mut script, second);
        let generation = joined.generation_id;
        let (leader, follower) = if joined.leader == joined.member_id { (&a, &b) } else { (&b, &a) };
        let waits = follower.sends_sync(
            &mut script,
            "the follower syncs",
            sync_version,
            sync(group, &follower.id, generation, &[]),
        );
        let assignments: &[(&str, &[u8])] = &[(&leader.id, b"for the leader"), (&follower.id, b"for the follower")];
        let request = sync(group, &leader.id, generation, assignments);
        let leads = leader.sends_sync(&mut script, "the leader syncs", sync_version, request);
        leader.is_synced(&mut script, leads);
        follower.is_synced(&mut script, waits);
        describe(&mut script, "two members", version.min(6), &[group]);
        let again = follower.sends_join(&mut script, "the follower joins again", version, group);
        script.answer_with::<JoinGroupRequest<'_>, JoinGroupResponse<'static>>(again, sorted);

        c.introduces_itself(&mut script, version, group);
        let third = c.sends_join(&mut script, "c joins", version, group);
        script.settle();
        ask_heartbeat(&mut script, "a has to join", beat, &heartbeat(group, &a.id, generation));
        describe(&mut script, "rebalance", version.min(6), &[group]);
        let too_early =
            a.sends_sync(&mut script, "a syncs too early", sync_version, sync(group, &a.id, generation, &[]));
        a.is_synced(&mut script, too_early);
        let first = a.sends_join(&mut script, "a joins again", version, group);
        let second = b.sends_join(&mut script, "b joins again", version, group);
        a.is_joined(&mut script, first);
        b.is_joined(&mut script, second);
        let joined = c.is_joined(&mut script, third);
        let generation = joined.generation_id;
        let waits = c.sends_sync(&mut script, "c syncs", sync_version, sync(group, &c.id, generation, &[]));
        script.settle();
        let request = leave(sync_version, group, &[(&b.id, None)]);
        script.ask::<_, LeaveGroupResponse<'static>>("b leaves while the others sync", sync_version, &request);
        c.is_synced(&mut script, waits);
        let first = a.sends_join(&mut script, "a joins a third time", version, group);
        let second = c.sends_join(&mut script, "c joins again", version, group);
        a.is_joined(&mut script, first);
        c.is_joined(&mut script, second);
        let request = leave(sync_version, group, &[(&c.id, None), (&a.id, None)]);
        script.ask::<_, LeaveGroupResponse<'static>>("they leave", sync_version, &request);
    }
    script.finish();
}

#[test]
fn static_members() {
    let mut script = Script::start("static_members");
    wait_for_coordinator(&mut script);
    for version in 5..=9 {
        let group: &'static str = format!("static-{version}").leak();
        let (sync_version, beat) = (version.min(5), version.min(4));
        let mut one = Member::new(&mut script, b"one", Some("i-1"));
        let asked = one.sends_join(&mut script, "join", version, group);
        let joined = one.is_joined(&mut script, asked);
        let generation = joined.generation_id;
        let request = sync(group, &one.id, generation, &[(&one.id, b"all")]);
        let asked = one.sends_sync(&mut script, "sync", sync_version, request);
        one.is_synced(&mut script, asked);
        describe(&mut script, "described", version.min(6), &[group]);

        let old = one.id.clone();
        one.id = String::new();
        let asked = one.sends_join(&mut script, "the leader comes back", version, group);
        let joined = one.is_joined(&mut script, asked);
        let generation = joined.generation_id;
        let asked = one.sends_sync(&mut script, "and syncs", sync_version, sync(group, &one.id, generation, &[]));
        one.is_synced(&mut script, asked);
        for (name, id) in [("old", old.as_str()), ("new", &one.id), ("unknown", "nobody"), ("empty", "")] {
            let request =
                HeartbeatRequest { group_instance_id: Some(Cow::Borrowed("i-1")), ..heartbeat(group, id, generation) };
            ask_heartbeat(&mut script, &format!("heartbeat of the {name} id"), beat, &request);
        }
        let without = heartbeat(group, &one.id, generation);
        ask_heartbeat(&mut script, "heartbeat without the instance", beat, &without);
        let with_another = HeartbeatRequest { group_instance_id: Some(Cow::Borrowed("i-2")), ..without };
        ask_heartbeat(&mut script, "heartbeat with another instance", beat, &with_another);
        let request = JoinGroupRequest { group_instance_id: Some(Cow::Borrowed("i-1")), ..join(group, &old, b"one") };
        script.ask_shaped("the old id joins", version, &request, sorted);
        let request = JoinGroupRequest { group_instance_id: Some(Cow::Borrowed("i-9")), ..join(group, &old, b"one") };
        script.ask_shaped("an unknown instance with an id joins", version, &request, sorted);

        one.id = String::new();
        one.metadata = b"one, changed";
        let asked = one.sends_join(&mut script, "it comes back otherwise", version, group);
        let joined = one.is_joined(&mut script, asked);
        let request = sync(group, &one.id, joined.generation_id, &[(&one.id, b"all again")]);
        let asked = one.sends_sync(&mut script, "and syncs again", sync_version, request);
        one.is_synced(&mut script, asked);
        let leaving = [("", Some("i-9")), (old.as_str(), Some("i-1")), ("", Some("i-1"))];
        let request = leave(sync_version, group, &leaving);
        script.ask::<_, LeaveGroupResponse<'static>>("removed by instance id", sync_version, &request);
        describe(&mut script, "empty", version.min(6), &[group]);
    }
    script.finish();
}
