package clients

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFranz(t *testing.T) {
	runContract(t, func(t *testing.T) driver {
		ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
		t.Cleanup(cancel)
		f := &franz{t: t, ctx: ctx}
		client := f.client()
		f.admin = kadm.NewClient(client)
		return f
	})
}

type franz struct {
	t     *testing.T
	ctx   context.Context
	admin *kadm.Client
}

func (f *franz) client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap(f.t)))...)
	check(f.t, err)
	f.t.Cleanup(client.Close)
	return client
}

func (f *franz) createTopic(name string, partitions int32, configs map[string]string) {
	values := map[string]*string{}
	for key, value := range configs {
		values[key] = &value
	}
	_, err := f.admin.CreateTopic(f.ctx, partitions, 1, values, name)
	check(f.t, err)
}

func (f *franz) topicNames() []string {
	topics, err := f.admin.ListTopics(f.ctx)
	check(f.t, err)
	return topics.Names()
}

func (f *franz) partitionCount(name string) int {
	topics, err := f.admin.ListTopics(f.ctx, name)
	check(f.t, err)
	count := 0
	for _, partition := range topics[name].Partitions {
		if partition.Err == nil && partition.Leader >= 0 {
			count++
		}
	}
	return count
}

func (f *franz) topicConfigs(name string) map[string]string {
	resources, err := f.admin.DescribeTopicConfigs(f.ctx, name)
	check(f.t, err)
	configs := map[string]string{}
	for _, config := range resources[0].Configs {
		configs[config.Key] = config.MaybeValue()
	}
	return configs
}

func (f *franz) alter(name string, config kadm.AlterConfig) {
	answers, err := f.admin.AlterTopicConfigs(f.ctx, []kadm.AlterConfig{config}, name)
	check(f.t, err)
	check(f.t, answers[0].Err)
}

func (f *franz) setConfig(name, key, value string) {
	f.alter(name, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
}

func (f *franz) unsetConfig(name, key string) {
	f.alter(name, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
}

func (f *franz) addPartitions(name string, total int) {
	answers, err := f.admin.UpdatePartitions(f.ctx, total, name)
	check(f.t, err)
	check(f.t, answers.Error())
}

func (f *franz) deleteTopic(name string) {
	_, err := f.admin.DeleteTopic(f.ctx, name)
	check(f.t, err)
}

func (f *franz) produce(topic string, messages []message, codec string, idempotent bool) []int64 {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(20 * time.Millisecond), kgo.ProducerBatchMaxBytes(1_048_588),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	client := f.client(options...)
	defer client.Close()
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Topic: topic, Key: m.key, Value: m.value}
		if m.timeMs != 0 {
			records[i].Timestamp = time.UnixMilli(m.timeMs)
		}
		for _, h := range m.headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
	}
	check(f.t, client.ProduceSync(f.ctx, records...).FirstErr())
	offsets := make([]int64, len(records))
	for i, record := range records {
		offsets[i] = record.Offset
	}
	return offsets
}

func (f *franz) offsetAt(topic string, timeMs int64) int64 {
	offsets, err := f.admin.ListOffsetsAfterMilli(f.ctx, timeMs, topic)
	check(f.t, err)
	found, _ := offsets.Lookup(topic, 0)
	check(f.t, found.Err)
	if found.Timestamp < 0 {
		return -1 // kadm gives the end where there is none
	}
	return found.Offset
}

func (f *franz) offsetRange(topic string) (int64, int64) {
	first, err := f.admin.ListStartOffsets(f.ctx, topic)
	check(f.t, err)
	end, err := f.admin.ListEndOffsets(f.ctx, topic)
	check(f.t, err)
	return first[topic][0].Offset, end[topic][0].Offset
}

func (f *franz) reader(topic string) reader {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	return &franzConsumer{f: f, topic: topic, Client: f.client(kgo.ConsumePartitions(from))}
}

func (f *franz) member(group, topic, instance string) member {
	c := &franzConsumer{f: f, group: group, topic: topic, owned: map[int32]bool{}}
	options := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.SessionTimeout(30 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(c.gained), kgo.OnPartitionsRevoked(c.lost), kgo.OnPartitionsLost(c.lost),
	}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	c.Client = f.client(options...)
	return c
}

type franzConsumer struct {
	*kgo.Client
	f            *franz
	group, topic string
	mutex        sync.Mutex
	owned        map[int32]bool
	count        int
}

func (c *franzConsumer) gained(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count++
	for _, partition := range partitions[c.topic] {
		c.owned[partition] = true
	}
}

func (c *franzConsumer) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, partition := range partitions[c.topic] {
		delete(c.owned, partition)
	}
}

func (c *franzConsumer) assigned() []int32 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Sorted(maps.Keys(c.owned))
}

func (c *franzConsumer) rebalances() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.count
}

func (c *franzConsumer) read(count int) []received {
	var found []received
	for len(found) < count {
		fetches := c.PollFetches(c.f.ctx)
		check(c.f.t, fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			m := message{key: record.Key, value: record.Value, timeMs: record.Timestamp.UnixMilli()}
			for _, h := range record.Headers {
				m.headers = append(m.headers, header{h.Key, h.Value})
			}
			found = append(found, received{record.Offset, m})
		})
	}
	return found
}

func (c *franzConsumer) seek(offset int64) {
	c.SetOffsets(map[string]map[int32]kgo.EpochOffset{c.topic: {0: {Epoch: -1, Offset: offset}}})
}

func (c *franzConsumer) commit(offset int64) {
	offsets := map[string]map[int32]kgo.EpochOffset{c.topic: {0: {Epoch: -1, Offset: offset}}}
	c.CommitOffsetsSync(c.f.ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		check(c.f.t, err)
	})
}

func (c *franzConsumer) committed() int64 {
	offsets, err := c.f.admin.FetchOffsets(c.f.ctx, c.group)
	check(c.f.t, err)
	found, _ := offsets.Lookup(c.topic, 0)
	return found.At
}

func (c *franzConsumer) close() { c.Close() }
