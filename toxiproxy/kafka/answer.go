package kafka

import (
	"encoding/binary"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The action `answer`: the proxy answers a request with one of Kafka's error codes, and the broker never sees the request.
//
//	client ──R──▶ kafka ─ ─ ✗    broker     R is gathered, read, and taken out of the stream
//	                │
//	                ▼ reply
//	            connection: requests without an answer: P, R, …
//	                │ when R is the first of them
//	                ▼
//	client ◀─R'──P'── kafka ◀──P'── broker  the reply goes in between two frames
//
// Kafka's clients demand answers in the order of their requests, so the reply waits until the broker has answered all that the
// connection sent before R. What the client sent after R cannot be answered earlier, as it passes the gate of R only when the
// reply is there.

// maxMetadata is the longest answer to a Metadata request that is read for its brokers.
const maxMetadata = 4 << 20

// reply is the answer to one request, with what waits for its being given.
type reply struct {
	frame         []byte
	code          int16
	interceptions []*interception
}

// answerer makes the answer to a request of one API. It is nil when the request names nothing that an error could be about.
type answerer func(request kmsg.Request, code int16, l *link) kmsg.Response

// answerers are by the numbers of their APIs. Each sets every error code that a client looks at.
var answerers = map[apiNumber]answerer{
	produce:            answerProduce,
	fetch:              answerFetch,
	metadata:           answerMetadata,
	findCoordinator:    answerFindCoordinator,
	heartbeat:          answerHeartbeat,
	initProducerID:     answerInitProducerID,
	addPartitionsToTxn: answerAddPartitionsToTxn,
	addOffsetsToTxn:    answerAddOffsetsToTxn,
	endTxn:             answerEndTxn,
	txnOffsetCommit:    answerTxnOffsetCommit,
}

// answerable is whether rules with this action count a request. These pass uncounted, as the client would not see an error:
//
//   - Produce with acks=0, which has no answer;
//   - Metadata that names no topics, because it asks for all of them or for the brokers alone: errors are about topics;
//   - Metadata while the brokers are unknown, because no answer of a broker has been seen on the link; see answerMetadata.
func (h *half) answerable(head *header) bool {
	return !head.silent && !head.nameless && (head.api != metadata || h.link.brokers() != nil)
}

// answerFrame answers the frame of a gate, which has come whole, and is what becomes of it then.
func (h *half) answerFrame(g *gate) string {
	var frame []byte
	for _, e := range h.queue[h.first:] {
		if e.gate != g {
			break
		}
		frame = append(frame, e.chunk.Data...)
	}
	code := g.interceptions[0].code
	made := h.link.answerTo(frame, code)
	if made == nil || !h.keepReply(g.correlation, &reply{made, code, g.interceptions}) {
		return outcomeUnanswerable
	}
	return outcomeAnswered
}

// answerTo is the answer to a request, nil when there is none: the request cannot be read, is of a version that is not known here,
// or names nothing.
//
// A request that no client would send, garbled where it counts its tagged fields, may take kmsg half a minute to refuse.
func (l *link) answerTo(frame []byte, code int16) []byte {
	r := reader{data: frame, at: lengthPrefix, total: len(frame)}
	head := readHeader(&r)
	answerer := answerers[apiNumber(head.api)]
	if !r.ok() || answerer == nil {
		return nil
	}
	request := kmsg.RequestForKey(head.api)
	request.SetVersion(head.version)
	if head.version > request.MaxVersion() || request.ReadFrom(frame[r.at:]) != nil {
		return nil
	}
	response := answerer(request, code, l)
	if response == nil {
		return nil
	}
	response.SetVersion(head.version)
	made := binary.BigEndian.AppendUint32(make([]byte, lengthPrefix), uint32(head.correlation))
	if response.IsFlexible() {
		made = append(made, 0) // no tagged fields in the header
	}
	made = response.AppendTo(made)
	binary.BigEndian.PutUint32(made, uint32(len(made)-lengthPrefix))
	return made
}

// keepReply keeps the answer to a request until the downstream half can give it; that one may not have been made yet. It is false
// when the answer never could be given, because the halves are no longer paired.
func (c *connection) keepReply(correlation int32, made *reply) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raw.Load() {
		return false
	}
	for i := c.first; i < len(c.unanswered); i++ {
		if r := &c.unanswered[i]; r.correlation == correlation && r.reply == nil {
			r.reply = made
			c.owed.Add(1)
			select {
			case c.replied <- struct{}{}:
			default:
			}
			return true
		}
	}
	return false
}

// stopPairing is for a connection that loses one of its toxics; it is true when there are replies that can no longer be given.
func (c *connection) stopPairing() (owing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Store(true)
	return c.owed.Load() > 0
}

// nextReply takes the first request without an answer, if its reply is there.
func (c *connection) nextReply() (next request, there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == len(c.unanswered) || c.unanswered[c.first].reply == nil {
		return request{}, false
	}
	next = c.unanswered[c.first]
	c.takenTo(c.first + 1)
	c.owed.Add(-1)
	return next, true
}

// loseReplies settles the replies that can no longer be given.
func (c *connection) loseReplies(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := c.first; i < len(c.unanswered); i++ {
		c.loseReply(&c.unanswered[i], outcome)
	}
}

func (c *connection) loseReply(r *request, outcome string) {
	if r.reply == nil {
		return
	}
	for _, i := range r.reply.interceptions {
		allRules.settle(i, outcome)
	}
	r.reply = nil
	c.owed.Add(-1)
}

// giveReplies puts the replies whose turn has come behind what the broker has answered so far, but never inside of a frame.
func (h *half) giveReplies() {
	for h.frame.isBetween() {
		r, there := h.nextReply()
		if !there {
			return
		}
		h.push(&stream.StreamChunk{Data: r.reply.frame, Timestamp: time.Now()}, nil)
		h.answer(r.interceptions, r.reply.code, true)
		for _, i := range r.reply.interceptions {
			allRules.settle(i, outcomeAnswered)
		}
	}
}

// brokers is the last answer that a broker gave to a Metadata request on this link, nil when there is none that names brokers.
func (l *link) brokers() *kmsg.MetadataResponse {
	copied, answer := l.metadata.Load(), kmsg.NewPtrMetadataResponse()
	if copied == nil {
		return nil
	}
	answer.SetVersion(copied.request.version)
	r := reader{data: copied.frame, at: lengthPrefix, total: len(copied.frame)}
	r.int32() // the correlation id
	if answer.IsFlexible() {
		r.tags()
	}
	if !r.ok() || copied.request.version > answer.MaxVersion() || answer.ReadFrom(copied.frame[r.at:]) != nil || len(answer.Brokers) == 0 {
		return nil
	}
	return answer
}

func answerProduce(request kmsg.Request, code int16, _ *link) kmsg.Response {
	answer := kmsg.NewPtrProduceResponse()
	for _, topic := range request.(*kmsg.ProduceRequest).Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode, p.BaseOffset = partition.Partition, code, -1
			t.Partitions = append(t.Partitions, p)
		}
		answer.Topics = append(answer.Topics, t)
	}
	if len(answer.Topics) == 0 {
		return nil
	}
	return answer
}

// answerFetch says the error of every partition that is named. A client with a fetch session (KIP-227) names those only that have
// changed since its last request. When there are none, the error can stand only at the top, from version 7 on, where sessions
// begin. The session id of the answer is 0, which tells the client that the broker has closed the session: the broker does not
// know of this request, and would refuse the next epoch of the session.
func answerFetch(request kmsg.Request, code int16, _ *link) kmsg.Response {
	const sessions = 7
	asked, answer := request.(*kmsg.FetchRequest), kmsg.NewPtrFetchResponse()
	if len(asked.Topics) == 0 {
		if asked.Version < sessions {
			return nil
		}
		answer.ErrorCode = code
		return answer
	}
	for _, topic := range asked.Topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode, p.HighWatermark = partition.Partition, code, -1
			p.RecordBatches = []byte{} // librdkafka cannot read null
			t.Partitions = append(t.Partitions, p)
		}
		answer.Topics = append(answer.Topics, t)
	}
	return answer
}

// answerMetadata says the error of every topic that is named. The brokers are those of the last answer that a broker gave on this
// link: Java's client (NetworkClient) and librdkafka (rd_kafka_parse_Metadata) throw away an answer without brokers, the errors of
// its topics included. One that has gone since then does no harm, as a broker's own answer may be as old.
func answerMetadata(request kmsg.Request, code int16, l *link) kmsg.Response {
	const rebootstrapRequired = 129 // is about the client itself (KIP-1102), so that it is read at the top alone
	asked, seen := request.(*kmsg.MetadataRequest), l.brokers()
	if len(asked.Topics) == 0 || seen == nil {
		return nil
	}
	answer := kmsg.NewPtrMetadataResponse()
	answer.Brokers, answer.ClusterID, answer.ControllerID = seen.Brokers, seen.ClusterID, seen.ControllerID
	for _, topic := range asked.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = topic.Topic, topic.TopicID, code
		answer.Topics = append(answer.Topics, t)
	}
	if code == rebootstrapRequired {
		answer.ErrorCode = code
	}
	return answer
}

// answerFindCoordinator names no coordinator in the way of a broker that has none: -1, and no address.
func answerFindCoordinator(request kmsg.Request, code int16, _ *link) kmsg.Response {
	const batches = 4 // many keys in one request
	asked, answer := request.(*kmsg.FindCoordinatorRequest), kmsg.NewPtrFindCoordinatorResponse()
	answer.ErrorCode, answer.NodeID, answer.Port = code, -1, -1
	for _, key := range asked.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode, c.NodeID, c.Port = key, code, -1, -1
		answer.Coordinators = append(answer.Coordinators, c)
	}
	if asked.Version >= batches && len(answer.Coordinators) == 0 {
		return nil
	}
	return answer
}

func answerHeartbeat(_ kmsg.Request, code int16, _ *link) kmsg.Response {
	answer := kmsg.NewPtrHeartbeatResponse()
	answer.ErrorCode = code
	return answer
}

func answerInitProducerID(_ kmsg.Request, code int16, _ *link) kmsg.Response {
	answer := kmsg.NewPtrInitProducerIDResponse()
	answer.ErrorCode, answer.ProducerEpoch = code, -1
	return answer
}

func answerEndTxn(_ kmsg.Request, code int16, _ *link) kmsg.Response {
	answer := kmsg.NewPtrEndTxnResponse()
	answer.ErrorCode = code
	return answer
}

// answerAddPartitionsToTxn says the error of every partition, and at the top too in the form in which brokers ask for many
// transactions at once, from version 4 on.
func answerAddPartitionsToTxn(request kmsg.Request, code int16, _ *link) kmsg.Response {
	asked, answer := request.(*kmsg.AddPartitionsToTxnRequest), kmsg.NewPtrAddPartitionsToTxnResponse()
	answer.ErrorCode = code
	for _, topic := range asked.Topics {
		t := kmsg.NewAddPartitionsToTxnResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			p.Partition, p.ErrorCode = partition, code
			t.Partitions = append(t.Partitions, p)
		}
		answer.Topics = append(answer.Topics, t)
	}
	for _, transaction := range asked.Transactions {
		one := kmsg.NewAddPartitionsToTxnResponseTransaction()
		one.TransactionalID = transaction.TransactionalID
		for _, topic := range transaction.Topics {
			t := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
			t.Topic = topic.Topic
			for _, partition := range topic.Partitions {
				p := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
				p.Partition, p.ErrorCode = partition, code
				t.Partitions = append(t.Partitions, p)
			}
			one.Topics = append(one.Topics, t)
		}
		answer.Transactions = append(answer.Transactions, one)
	}
	if len(answer.Topics)+len(answer.Transactions) == 0 {
		return nil
	}
	return answer
}

func answerAddOffsetsToTxn(_ kmsg.Request, code int16, _ *link) kmsg.Response {
	answer := kmsg.NewPtrAddOffsetsToTxnResponse()
	answer.ErrorCode = code
	return answer
}

func answerTxnOffsetCommit(request kmsg.Request, code int16, _ *link) kmsg.Response {
	answer := kmsg.NewPtrTxnOffsetCommitResponse()
	for _, topic := range request.(*kmsg.TxnOffsetCommitRequest).Topics {
		t := kmsg.NewTxnOffsetCommitResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, code
			t.Partitions = append(t.Partitions, p)
		}
		answer.Topics = append(answer.Topics, t)
	}
	if len(answer.Topics) == 0 {
		return nil
	}
	return answer
}
