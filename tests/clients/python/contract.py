"""What every client must be able to do, said once; one driver for each client library fills in the calls.

A test class derives from `Contract` and provides a fixture `driver`. The mix-ins below hold what not every library can do.
"""

import time

import pytest
from messages import BOTH_NULL, SAMPLES, Message, content
from waiting import wait_until


def an_hour_ago_ms():
    """Old enough to be told apart from now, too young for retention."""
    return int(time.time() * 1000) - 3_600_000


def values(count, start=0):
    return [Message(b"k%d" % i, b"v%d" % i) for i in range(start, start + count)]


class Contract:
    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_messages_of_every_shape_survive_every_codec(self, driver, fresh_name, codec):
        topic = driver.new_topic(fresh_name("codec"))
        sent = SAMPLES + ([BOTH_NULL] if driver.sends_both_null else [])
        assert driver.produce(topic, sent, codec=codec) == list(range(len(sent)))
        with driver.reader(topic) as reader:
            received = reader.read(len(sent))
        assert [r.offset for r in received] == list(range(len(sent)))
        assert [content(r) for r in received] == sent

    def test_a_message_of_one_megabyte(self, driver, fresh_name):
        topic = driver.new_topic(fresh_name("big"))
        big = Message(b"big", bytes(i * 7 % 251 for i in range(1_000_000)))
        driver.produce(topic, [big, Message(b"after", b"small")])
        with driver.reader(topic) as reader:
            assert [content(r) for r in reader.read(2)] == [big, Message(b"after", b"small")]

    def test_seek_back_and_forth(self, driver, fresh_name):
        topic = driver.new_topic(fresh_name("seek"))
        driver.produce(topic, values(100))
        with driver.reader(topic) as reader:
            assert [r.offset for r in reader.read(100)] == list(range(100))
            for target in (37, 99, 0):
                reader.seek(target)
                assert reader.read(1)[0].value == b"v%d" % target
            assert reader.range() == (0, 100)

    def test_offsets_for_times(self, driver, fresh_name):
        topic = driver.new_topic(fresh_name("times"))
        base = an_hour_ago_ms()
        driver.produce(topic, [Message(b"k", b"v", timestamp_ms=base + 1000 * i) for i in range(10)])
        with driver.reader(topic) as reader:
            assert [r.timestamp_ms for r in reader.read(10)] == [base + 1000 * i for i in range(10)]
            assert reader.offset_at(base) == 0
            assert reader.offset_at(base + 4000) == 4
            assert reader.offset_at(base + 4001) == 5
            assert reader.offset_at(base + 9001) is None

    def test_two_members_share_the_partitions_and_one_takes_over(self, driver, fresh_name):
        topic, group = driver.new_topic(fresh_name("shared"), partitions=4), fresh_name("group")
        first = driver.member(group, topic)
        wait_until(lambda: first.assigned() == {0, 1, 2, 3}, "the first member owns all partitions")
        second = driver.member(group, topic)

        def both_have_some():
            one, two = first.assigned(), second.assigned()
            return len(one) == len(two) == 2 and one | two == {0, 1, 2, 3}

        wait_until(both_have_some, "two members own two partitions each")
        first.close()
        wait_until(lambda: second.assigned() == {0, 1, 2, 3}, "the second member takes over")
        second.close()

    def test_a_group_resumes_where_it_committed(self, driver, fresh_name):
        topic, group = driver.new_topic(fresh_name("resume")), fresh_name("group")
        driver.produce(topic, values(20))
        member = driver.member(group, topic)
        assert [r.value for r in member.read(20)] == [b"v%d" % i for i in range(20)]
        member.commit(7)
        assert member.committed() == 7
        member.close()
        driver.produce(topic, values(5, start=20))
        member = driver.member(group, topic)
        assert [r.value for r in member.read(18)] == [b"v%d" % i for i in range(7, 25)]
        member.close()

    def test_topics_are_created_described_grown_and_deleted(self, driver, fresh_name):
        topic = fresh_name("admin")
        driver.create_topic(topic, partitions=2, configs={"retention.ms": "3600000", "max.message.bytes": "2000000"})
        wait_until(lambda: driver.partition_count(topic) == 2, "the topic is there")
        assert topic in driver.topic_names()
        configs = driver.topic_configs(topic)
        assert configs["retention.ms"] == "3600000"
        assert configs["max.message.bytes"] == "2000000"
        assert configs["cleanup.policy"] == "delete"
        driver.add_partitions(topic, 5)
        wait_until(lambda: driver.partition_count(topic) == 5, "the topic has grown")
        driver.delete_topic(topic)
        wait_until(lambda: topic not in driver.topic_names(), "the topic has gone")

    def test_an_idempotent_producer_keeps_order(self, driver, fresh_name):
        topic = driver.new_topic(fresh_name("idempotent"))
        sent = values(3000)
        assert driver.produce(topic, sent, idempotent=True) == list(range(3000))
        with driver.reader(topic) as reader:
            assert [content(r) for r in reader.read(3000)] == sent


def settle(members, seconds=1):
    """Polls the members until each owns two partitions and none has seen a rebalance for `seconds`. Returns what each owns."""
    seen, since = None, time.monotonic()

    def nothing_changes():
        nonlocal seen, since
        now = [(member.assigned(), member.rebalances()) for member in members]
        if now != seen or any(len(owned) != 2 for owned, _ in now):
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= seconds

    wait_until(nothing_changes, "each member owns two partitions, without a further rebalance")
    return [owned for owned, _ in seen]


class StaticMembers:
    """For libraries with static membership (KIP-345)."""

    def test_a_static_member_returns_to_its_partitions_without_a_rebalance(self, driver, fresh_name):
        topic, group = driver.new_topic(fresh_name("static"), partitions=4), fresh_name("group")
        one, two = driver.member(group, topic, instance="one"), driver.member(group, topic, instance="two")
        owned_by_one, owned_by_two = settle([one, two])
        assert owned_by_one | owned_by_two == {0, 1, 2, 3}
        rebalances = two.rebalances()
        one.close()
        returned = driver.member(group, topic, instance="one")
        wait_until(lambda: (two.assigned(), returned.assigned())[1] == owned_by_one, "it owns what it owned before")
        assert two.assigned() == owned_by_two
        assert two.rebalances() == rebalances
        returned.close()
        two.close()


class IncrementalConfigs:
    """For libraries that alter configs with IncrementalAlterConfigs (KIP-339)."""

    def test_a_topic_config_is_set_and_taken_back(self, driver, fresh_name):
        topic = driver.new_topic(fresh_name("configs"))
        before = driver.topic_configs(topic)["segment.bytes"]
        driver.set_config(topic, "segment.bytes", "20971520")
        wait_until(lambda: driver.topic_configs(topic)["segment.bytes"] == "20971520", "the config is set")
        driver.unset_config(topic, "segment.bytes")
        wait_until(lambda: driver.topic_configs(topic)["segment.bytes"] == before, "the config is the default again")


class WholeConfigs:
    """For libraries that alter configs with AlterConfigs (33), which replaces all that is set."""

    def test_the_configs_of_a_topic_are_replaced(self, driver, fresh_name):
        topic = fresh_name("whole-configs")
        driver.create_topic(topic, 1, {"segment.bytes": "20971520"})
        wait_until(lambda: driver.partition_count(topic) == 1, "the topic is there")
        driver.replace_configs(topic, {"retention.ms": "3600000"})
        wait_until(lambda: driver.topic_configs(topic)["retention.ms"] == "3600000", "the config is set")
        assert driver.topic_configs(topic)["segment.bytes"] == "1073741824", "what is not named is the default again"
        driver.replace_configs(topic, {})
        wait_until(lambda: driver.topic_configs(topic)["retention.ms"] == "604800000", "nothing is set")


class DeletedRecords:
    """For libraries with DeleteRecords (KIP-107)."""

    def test_deleted_records_are_not_read(self, driver, fresh_name):
        topic = driver.new_topic(fresh_name("deleted-records"))
        sent = values(10)
        driver.produce(topic, sent)
        assert driver.delete_records(topic, 4) == 4
        with driver.reader(topic) as reader:
            assert [content(r) for r in reader.read(6)] == sent[4:]
