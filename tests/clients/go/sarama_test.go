package clients

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

func TestSarama(t *testing.T) { runSarama(t, sarama.DefaultVersion) }

func TestSaramaNewestVersion(t *testing.T) { runSarama(t, sarama.MaxVersion) }

func runSarama(t *testing.T, version sarama.KafkaVersion) {
	runContract(t, func(t *testing.T) driver {
		s := &saramaDriver{t: t, version: version}
		client, err := sarama.NewClient([]string{bootstrap(t)}, s.config())
		check(t, err)
		t.Cleanup(func() { _ = client.Close() })
		s.client = client
		s.admin, err = sarama.NewClusterAdminFromClient(client)
		check(t, err)
		return s
	})
}

type saramaDriver struct {
	t       *testing.T
	version sarama.KafkaVersion
	client  sarama.Client
	admin   sarama.ClusterAdmin
}

func (s *saramaDriver) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = s.version
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 30 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = 1_048_588
	return config
}

func (s *saramaDriver) createTopic(name string, partitions int32, configs map[string]string) {
	entries := map[string]*string{}
	for key, value := range configs {
		entries[key] = &value
	}
	check(s.t, s.admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: entries}, false))
}

func (s *saramaDriver) topicNames() []string {
	topics, err := s.admin.DescribeTopics(nil)
	check(s.t, err)
	var names []string
	for _, topic := range topics {
		names = append(names, topic.Name)
	}
	return names
}

func (s *saramaDriver) partitionCount(name string) int {
	topics, err := s.admin.DescribeTopics([]string{name})
	check(s.t, err)
	count := 0
	for _, partition := range topics[0].Partitions {
		if partition.Leader >= 0 {
			count++
		}
	}
	return count
}

func (s *saramaDriver) topicConfigs(name string) map[string]string {
	entries, err := s.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name})
	check(s.t, err)
	configs := map[string]string{}
	for _, entry := range entries {
		configs[entry.Name] = entry.Value
	}
	return configs
}

func (s *saramaDriver) alter(name, key string, entry sarama.IncrementalAlterConfigsEntry) {
	entries := map[string]sarama.IncrementalAlterConfigsEntry{key: entry}
	check(s.t, s.admin.IncrementalAlterConfig(sarama.TopicResource, name, entries, false))
}

func (s *saramaDriver) setConfig(name, key, value string) {
	s.alter(name, key, sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value})
}

func (s *saramaDriver) unsetConfig(name, key string) {
	s.alter(name, key, sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationDelete})
}

func (s *saramaDriver) addPartitions(name string, total int) {
	check(s.t, s.admin.CreatePartitions(name, int32(total), nil, false))
}

func (s *saramaDriver) deleteTopic(name string) { check(s.t, s.admin.DeleteTopic(name)) }

// bytesOrNull keeps null apart from empty: a nil ByteEncoder in the interface would be empty.
func bytesOrNull(b []byte) sarama.Encoder {
	if b == nil {
		return nil
	}
	return sarama.ByteEncoder(b)
}

func (s *saramaDriver) produce(topic string, messages []message, codec string, idempotent bool) []int64 {
	config := s.config()
	check(s.t, config.Producer.Compression.UnmarshalText([]byte(codec)))
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Producer.Idempotent = idempotent
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{bootstrap(s.t)}, config)
	check(s.t, err)
	batch := make([]*sarama.ProducerMessage, len(messages))
	for i, m := range messages {
		batch[i] = &sarama.ProducerMessage{Topic: topic, Key: bytesOrNull(m.key), Value: bytesOrNull(m.value)}
		if m.timeMs != 0 {
			batch[i].Timestamp = time.UnixMilli(m.timeMs)
		}
		for _, h := range m.headers {
			batch[i].Headers = append(batch[i].Headers, sarama.RecordHeader{Key: []byte(h.name), Value: h.value})
		}
	}
	check(s.t, producer.SendMessages(batch))
	check(s.t, producer.Close())
	offsets := make([]int64, len(batch))
	for i, m := range batch {
		offsets[i] = m.Offset
	}
	return offsets
}

func (s *saramaDriver) offsetAt(topic string, timeMs int64) int64 {
	offset, err := s.client.GetOffset(topic, 0, timeMs)
	check(s.t, err)
	return offset
}

func (s *saramaDriver) offsetRange(topic string) (int64, int64) {
	return s.offsetAt(topic, sarama.OffsetOldest), s.offsetAt(topic, sarama.OffsetNewest)
}

func fromSarama(m *sarama.ConsumerMessage) received {
	got := message{key: m.Key, value: m.Value, timeMs: m.Timestamp.UnixMilli()}
	for _, h := range m.Headers {
		got.headers = append(got.headers, header{string(h.Key), h.Value})
	}
	return received{m.Offset, got}
}

type saramaReader struct {
	s        *saramaDriver
	topic    string
	consumer sarama.Consumer
	at       sarama.PartitionConsumer
}

func (s *saramaDriver) reader(topic string) reader {
	consumer, err := sarama.NewConsumerFromClient(s.client)
	check(s.t, err)
	r := &saramaReader{s: s, topic: topic, consumer: consumer}
	r.seek(0)
	return r
}

func (r *saramaReader) read(count int) []received {
	return take(r.s.t, r.at.Messages(), count)
}

func take(t *testing.T, messages <-chan *sarama.ConsumerMessage, count int) []received {
	t.Helper()
	var found []received
	end := time.After(limit)
	for len(found) < count {
		select {
		case m := <-messages:
			found = append(found, fromSarama(m))
		case <-end:
			t.Fatalf("%d of %d messages came in %v", len(found), count, limit)
		}
	}
	return found
}

func (r *saramaReader) seek(offset int64) {
	if r.at != nil {
		check(r.s.t, r.at.Close())
	}
	at, err := r.consumer.ConsumePartition(r.topic, 0, offset)
	check(r.s.t, err)
	r.at = at
}

func (r *saramaReader) close() {
	check(r.s.t, r.at.Close())
	check(r.s.t, r.consumer.Close())
}

// saramaMember is a group member; sarama calls Setup, ConsumeClaim and Cleanup for each generation.
type saramaMember struct {
	s           *saramaDriver
	group       sarama.ConsumerGroup
	name, topic string
	messages    chan *sarama.ConsumerMessage
	stop        context.CancelFunc
	done        chan struct{}
	mutex       sync.Mutex
	session     sarama.ConsumerGroupSession
	owned       []int32
	generations int
}

func (s *saramaDriver) member(group, topic, instance string) member {
	config := s.config()
	config.Consumer.Group.InstanceId = instance
	joined, err := sarama.NewConsumerGroup([]string{bootstrap(s.t)}, group, config)
	check(s.t, err)
	ctx, stop := context.WithCancel(context.Background())
	m := &saramaMember{
		s: s, group: joined, name: group, topic: topic, stop: stop,
		messages: make(chan *sarama.ConsumerMessage), done: make(chan struct{}),
	}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := joined.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
				s.t.Logf("the member %s tries again after: %v", group, err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session, m.owned = session, slices.Sorted(slices.Values(session.Claims()[m.topic]))
	m.generations++
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session, m.owned = nil, nil
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		select {
		case m.messages <- message:
		case <-session.Context().Done():
			return nil
		}
	}
	return nil
}

func (m *saramaMember) assigned() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.owned)
}

func (m *saramaMember) rebalances() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.generations
}

func (m *saramaMember) read(count int) []received { return take(m.s.t, m.messages, count) }

func (m *saramaMember) commit(offset int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session.MarkOffset(m.topic, 0, offset, "")
	m.session.Commit()
}

func (m *saramaMember) committed() int64 {
	answer, err := m.s.admin.ListConsumerGroupOffsets(m.name, map[string][]int32{m.topic: {0}})
	check(m.s.t, err)
	return answer.GetBlock(m.topic, 0).Offset
}

func (m *saramaMember) close() {
	m.stop()
	<-m.done
	check(m.s.t, m.group.Close())
}
