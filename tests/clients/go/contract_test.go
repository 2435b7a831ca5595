// What every Go client must be able to do, said once; one driver for each client library fills in the calls.
package clients

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const limit = 60 * time.Second

type header struct {
	name  string
	value []byte
}

type message struct {
	key, value []byte
	headers    []header
	timeMs     int64
}

type received struct {
	offset int64
	message
}

// driver is one client library; a call that fails ends the test.
type driver interface {
	createTopic(name string, partitions int32, configs map[string]string)
	topicNames() []string
	partitionCount(name string) int
	topicConfigs(name string) map[string]string
	setConfig(name, key, value string)
	unsetConfig(name, key string)
	addPartitions(name string, total int)
	deleteTopic(name string)
	produce(topic string, messages []message, codec string, idempotent bool) []int64
	reader(topic string) reader
	offsetAt(topic string, timeMs int64) int64 // -1: none
	offsetRange(topic string) (first, end int64)
	member(group, topic, instance string) member
}

type reader interface {
	read(count int) []received
	seek(offset int64)
	close()
}

type member interface {
	assigned() []int32 // sorted
	rebalances() int
	read(count int) []received
	commit(offset int64)
	committed() int64
	close()
}

func bootstrap(t *testing.T) string {
	address := os.Getenv("MAINSTEM_BOOTSTRAP")
	if address == "" {
		t.Fatal("MAINSTEM_BOOTSTRAP is not set; run `cargo xtask test clients`")
	}
	return address
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("within %v it did not happen: %s", limit, what)
		}
	}
}

func freshName(t *testing.T, kind string) string {
	test := strings.NewReplacer("/", "-", "_", "-", ",", "").Replace(t.Name())
	return fmt.Sprintf("%s-%.60s-%08x", kind, test, rand.Uint32())
}

func newTopic(t *testing.T, d driver, kind string, partitions int32) string {
	t.Helper()
	name := freshName(t, kind)
	d.createTopic(name, partitions, nil)
	waitUntil(t, "the topic is there", func() bool { return d.partitionCount(name) == int(partitions) })
	return name
}

func numbered(from, count int) []message {
	messages := make([]message, count)
	for i := range messages {
		messages[i] = message{key: fmt.Appendf(nil, "k%d", from+i), value: fmt.Appendf(nil, "v%d", from+i)}
	}
	return messages
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

func expect(t *testing.T, got []received, firstOffset int64, want []message) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d messages came, not %d", len(got), len(want))
	}
	for i, r := range got {
		w := want[i]
		if r.offset != firstOffset+int64(i) {
			t.Fatalf("message %d has offset %d, not %d", i, r.offset, firstOffset+int64(i))
		}
		sameHeaders := slices.EqualFunc(r.headers, w.headers, func(a, b header) bool {
			return a.name == b.name && bytes.Equal(a.value, b.value)
		})
		if !sameBytes(r.key, w.key) || !sameBytes(r.value, w.value) || !sameHeaders {
			t.Fatalf("message %d is %.200q, not %.200q", i, fmt.Sprint(r.message), fmt.Sprint(w))
		}
	}
}

func expectOffsets(t *testing.T, got []int64, count int) {
	t.Helper()
	for i, offset := range got {
		if offset != int64(i) {
			t.Fatalf("message %d was acknowledged with offset %d", i, offset)
		}
	}
	if len(got) != count {
		t.Fatalf("%d messages were acknowledged, not %d", len(got), count)
	}
}

func runContract(t *testing.T, open func(t *testing.T) driver) {
	parts := map[string]func(*testing.T, driver){
		"a message of one megabyte":                        oneMegabyte,
		"seek back and forth":                              seekBackAndForth,
		"offsets for times":                                offsetsForTimes,
		"two members share the partitions, one takes over": twoMembers,
		"a group resumes where it committed":               commitAndResume,
		"a static member returns to its partitions":        staticMember,
		"topics are created, described, grown and deleted": adminTopics,
		"a topic config is set and taken back":             adminConfigs,
		"an idempotent producer keeps order":               idempotentOrder,
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		parts["messages of every shape survive "+codec] = func(t *testing.T, d driver) { everyShape(t, d, codec) }
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		t.Run(name, func(t *testing.T) { parts[name](t, open(t)) })
	}
}

func everyShape(t *testing.T, d driver, codec string) {
	topic := newTopic(t, d, "codec", 1)
	sent := []message{
		{key: []byte("key"), value: []byte("value"), headers: []header{{"first", []byte("1")}, {"first", []byte("again")}, {"empty", []byte{}}}},
		{value: []byte("no key")},
		{key: []byte("no value")},
		{headers: []header{{"only", []byte("header")}}},
		{key: []byte{}, value: []byte{}},
		{key: []byte("schlüssel"), value: []byte("wert → 値"), headers: []header{{"größe", []byte("ü")}}},
		{key: []byte("long"), value: bytes.Repeat([]byte("compressible "), 2000)},
	}
	expectOffsets(t, d.produce(topic, sent, codec, false), len(sent))
	r := d.reader(topic)
	defer r.close()
	expect(t, r.read(len(sent)), 0, sent)
}

func oneMegabyte(t *testing.T, d driver) {
	topic := newTopic(t, d, "big", 1)
	big := make([]byte, 1_000_000)
	for i := range big {
		big[i] = byte(i * 7 % 251)
	}
	sent := []message{{key: []byte("big"), value: big}, {key: []byte("after"), value: []byte("small")}}
	d.produce(topic, sent, "none", false)
	r := d.reader(topic)
	defer r.close()
	expect(t, r.read(2), 0, sent)
}

func seekBackAndForth(t *testing.T, d driver) {
	topic := newTopic(t, d, "seek", 1)
	sent := numbered(0, 100)
	d.produce(topic, sent, "none", false)
	r := d.reader(topic)
	defer r.close()
	expect(t, r.read(100), 0, sent)
	for _, target := range []int64{37, 99, 0} {
		r.seek(target)
		expect(t, r.read(1)[:1], target, sent[target:target+1])
	}
	if first, end := d.offsetRange(topic); first != 0 || end != 100 {
		t.Fatalf("the offsets go from %d to %d, not from 0 to 100", first, end)
	}
}

func offsetsForTimes(t *testing.T, d driver) {
	topic := newTopic(t, d, "times", 1)
	base := time.Now().Add(-time.Hour).UnixMilli() // too young for retention
	sent := numbered(0, 10)
	for i := range sent {
		sent[i].timeMs = base + int64(i)*1000
	}
	d.produce(topic, sent, "none", false)
	r := d.reader(topic)
	defer r.close()
	for i, got := range r.read(10) {
		if got.timeMs != sent[i].timeMs {
			t.Fatalf("message %d has the time %d, not %d", i, got.timeMs, sent[i].timeMs)
		}
	}
	for timeMs, want := range map[int64]int64{base: 0, base + 4000: 4, base + 4001: 5, base + 9001: -1} {
		if got := d.offsetAt(topic, timeMs); got != want {
			t.Fatalf("the offset for the time %d is %d, not %d", timeMs, got, want)
		}
	}
}

var allFour = []int32{0, 1, 2, 3}

func twoMembers(t *testing.T, d driver) {
	topic, group := newTopic(t, d, "shared", 4), freshName(t, "group")
	first := d.member(group, topic, "")
	waitUntil(t, "the first member owns all partitions", func() bool { return slices.Equal(first.assigned(), allFour) })
	second := d.member(group, topic, "")
	waitUntil(t, "two members own two partitions each", func() bool {
		one, two := first.assigned(), second.assigned()
		return len(one) == 2 && len(two) == 2 && slices.Equal(slices.Sorted(slices.Values(append(one, two...))), allFour)
	})
	first.close()
	waitUntil(t, "the second member takes over", func() bool { return slices.Equal(second.assigned(), allFour) })
	second.close()
}

func commitAndResume(t *testing.T, d driver) {
	topic, group := newTopic(t, d, "resume", 1), freshName(t, "group")
	sent := numbered(0, 25)
	d.produce(topic, sent[:20], "none", false)
	m := d.member(group, topic, "")
	expect(t, m.read(20), 0, sent[:20])
	m.commit(7)
	if got := m.committed(); got != 7 {
		t.Fatalf("the committed offset is %d, not 7", got)
	}
	m.close()
	d.produce(topic, sent[20:], "none", false)
	m = d.member(group, topic, "")
	expect(t, m.read(18), 7, sent[7:])
	m.close()
}

func staticMember(t *testing.T, d driver) {
	topic, group := newTopic(t, d, "static", 4), freshName(t, "group")
	one, two := d.member(group, topic, "one"), d.member(group, topic, "two")
	waitUntil(t, "both own two partitions", func() bool { return len(one.assigned()) == 2 && len(two.assigned()) == 2 })
	ownedByOne, ownedByTwo, rebalances := one.assigned(), two.assigned(), two.rebalances()
	one.close()
	returned := d.member(group, topic, "one")
	waitUntil(t, "it owns what it owned before", func() bool { return slices.Equal(returned.assigned(), ownedByOne) })
	if got := two.assigned(); !slices.Equal(got, ownedByTwo) {
		t.Fatalf("the other member now owns %v, not %v", got, ownedByTwo)
	}
	if got := two.rebalances(); got != rebalances {
		t.Fatalf("the other member saw %d rebalances, not %d", got, rebalances)
	}
	returned.close()
	two.close()
}

func adminTopics(t *testing.T, d driver) {
	name := freshName(t, "admin")
	d.createTopic(name, 2, map[string]string{"retention.ms": "3600000", "max.message.bytes": "2000000"})
	waitUntil(t, "the topic is there", func() bool { return d.partitionCount(name) == 2 })
	waitUntil(t, "the topic is listed", func() bool { return slices.Contains(d.topicNames(), name) })
	configs := d.topicConfigs(name)
	for key, want := range map[string]string{"retention.ms": "3600000", "max.message.bytes": "2000000", "cleanup.policy": "delete"} {
		if configs[key] != want {
			t.Fatalf("%s is %q, not %q", key, configs[key], want)
		}
	}
	d.addPartitions(name, 5)
	waitUntil(t, "the topic has grown", func() bool { return d.partitionCount(name) == 5 })
	d.deleteTopic(name)
	waitUntil(t, "the topic has gone", func() bool { return !slices.Contains(d.topicNames(), name) })
}

func adminConfigs(t *testing.T, d driver) {
	topic := newTopic(t, d, "configs", 1)
	before := d.topicConfigs(topic)["segment.bytes"]
	d.setConfig(topic, "segment.bytes", "20971520")
	waitUntil(t, "the config is set", func() bool { return d.topicConfigs(topic)["segment.bytes"] == "20971520" })
	d.unsetConfig(topic, "segment.bytes")
	waitUntil(t, "the config is the default again", func() bool { return d.topicConfigs(topic)["segment.bytes"] == before })
}

func idempotentOrder(t *testing.T, d driver) {
	topic := newTopic(t, d, "idempotent", 1)
	sent := numbered(0, 3000)
	expectOffsets(t, d.produce(topic, sent, "none", true), len(sent))
	r := d.reader(topic)
	defer r.close()
	expect(t, r.read(3000), 0, sent)
}
