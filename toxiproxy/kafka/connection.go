package kafka

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const maxUnanswered = 4096 // requests of one connection; Kafka's clients have 5 under way, librdkafka's may have more

// connection is what its two halves share.
type connection struct {
	link       *link
	number     int64
	raw        atomic.Bool   // does not talk Kafka
	deaf       atomic.Bool   // the client has gone, but what it sent is still to be delivered: answers are read, and go nowhere
	clientGone chan struct{} // closed when the client's bytes have ended
	brokerGone chan struct{}
	cut        chan struct{} // closed when a rule ends the connection
	answered   chan struct{} // receives when a request that a rule has stopped is answered
	replied    chan struct{} // receives when there is a reply to give
	owed       atomic.Int32  // replies that are not given yet
	cutting    sync.Once

	mu         sync.Mutex
	unanswered []request // in the order they were sent, from first on
	first      int

	reading reading // of the half that sees the answers
}

// request is one that was seen and has no answer yet.
type request struct {
	api, version          int16
	correlation           int32
	client, transactional string
	group                 string // of an OffsetFetch or a TxnOffsetCommit
	generation            int32  // of a SyncGroup or a TxnOffsetCommit
	producer              int64  // of a TxnOffsetCommit
	arrived               time.Time
	interceptions         []*interception
	reply                 *reply // nil as long as it is the broker who will answer
}

func newConnection(l *link) *connection {
	return &connection{
		link:       l,
		number:     l.connections.Add(1),
		clientGone: make(chan struct{}),
		brokerGone: make(chan struct{}),
		cut:        make(chan struct{}),
		answered:   make(chan struct{}, 1),
		replied:    make(chan struct{}, 1),
		reading:    reading{generation: -1},
	}
}

// isRaw gives up on the connection: all that follows passes untouched.
func (c *connection) isRaw() {
	if !c.raw.Swap(true) {
		c.link.raw.Add(1)
		c.loseReplies(outcomeDropped) // there are no frames any more to put them between
	}
}

func (c *connection) end() {
	c.cutting.Do(func() { close(c.cut) })
}

// sent remembers a request until it is answered. Too many of them: the oldest is forgotten.
func (c *connection) sent(r request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first > len(c.unanswered)/2 && len(c.unanswered) == cap(c.unanswered) {
		c.unanswered = c.unanswered[:copy(c.unanswered, c.unanswered[c.first:])]
		c.first = 0
	}
	if len(c.unanswered)-c.first == maxUnanswered {
		c.loseReply(&c.unanswered[c.first], outcomeDropped)
		c.first++
	}
	c.unanswered = append(c.unanswered, r)
}

// answers is the request that a response belongs to. A broker answers in order, so older ones will have no answer.
func (c *connection) answers(correlation int32) (request, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := c.first; i < len(c.unanswered); i++ {
		if c.unanswered[i].correlation != correlation {
			continue
		}
		for skipped := c.first; skipped < i; skipped++ {
			c.loseReply(&c.unanswered[skipped], outcomeDropped)
		}
		found := c.unanswered[i]
		c.takenTo(i + 1)
		return found, true
	}
	return request{}, false
}

// takenTo forgets the requests before an index.
func (c *connection) takenTo(first int) {
	if c.first = first; c.first == len(c.unanswered) {
		c.unanswered, c.first = c.unanswered[:0], 0
	}
}

// forgets a request that the broker will not see: those behind it wait no longer for its answer.
func (c *connection) forgets(correlation int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := c.first; i < len(c.unanswered); i++ {
		if c.unanswered[i].correlation == correlation {
			c.unanswered = slices.Delete(c.unanswered, i, i+1)
			return
		}
	}
}

// awaits is whether a request has no answer yet.
func (c *connection) awaits(correlation int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.unanswered[c.first:] {
		if r.correlation == correlation {
			return true
		}
	}
	return false
}

// frame is what an interception shows of the request, or of its answer.
func (c *connection) frame(r *request, at string) shownInterception {
	return shownInterception{
		Link:            c.link.name,
		Connection:      c.number,
		API:             apis[r.api].name,
		Version:         r.version,
		CorrelationID:   r.correlation,
		ClientID:        r.client,
		TransactionalID: r.transactional,
		At:              at,
	}
}
