package kafka

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

const (
	parkedBytes   = 32 << 20         // behind a held frame, no more is taken from the sender: as with a full TCP window
	headWithin    = time.Second      // a frame whose beginning does not come passes, and no rule is asked
	answerWithin  = 10 * time.Second // for a request that was delivered late, before its connection closes
	cleanupWithin = 5 * time.Second  // as the stock server, which gives up after the same time
	lastWordsTime = cleanupWithin    // for what is on its way to a peer that has gone
)

// half is one direction of one connection: the sender's bytes that were taken and not passed on yet, and the frame under way.
//
// Only its own Pipe touches it; an interrupt hands it to the next one, or to Cleanup.
type half struct {
	*connection
	up      bool
	meter   *meter
	replies <-chan struct{} // the connection's `replied`; nil upstream

	queue    []entry
	first    int
	size     int // bytes in the queue
	frame    framer
	ended    bool // of the sender's bytes
	giveUpAt time.Time
	late     []int32 // correlation ids of what was delivered late
	lateTill time.Time
}

// entry is a chunk, or a part of one that has all its bytes in the same frame, when that frame has a gate.
type entry struct {
	chunk *stream.StreamChunk
	gate  *gate
}

// step does the next thing; false: the Pipe is over.
func (h *half) step(stub *toxics.ToxicStub) bool {
	if !h.up && h.owed.Load() > 0 {
		h.giveReplies()
	}
	g := h.settle()
	switch {
	case g != nil && g.state == gateCuts:
		h.connection.end()
		return h.close(stub, outcomeClosed)
	case g != nil && h.ended && h.up && !g.survives():
		return h.close(stub, outcomeClientGone)
	case g != nil:
		return h.wait(stub, g)
	case h.first < len(h.queue):
		return h.write(stub)
	case h.ended && h.lingers():
		return h.linger(stub)
	case h.ended:
		return h.close(stub, outcomeClosed)
	}
	select { // the way of nearly every chunk
	case <-stub.Interrupt:
		return false
	case chunk := <-stub.Input:
		h.receive(chunk)
		return true
	case <-h.replies:
		return true
	}
}

// settle drops what is to be dropped from the front of the queue, and returns the gate that bars its way then, if one does.
func (h *half) settle() *gate {
	for h.first < len(h.queue) {
		g := h.queue[h.first].gate
		if g == nil {
			if h.up || !h.deaf.Load() {
				return nil
			}
			h.pop()
			continue
		}
		switch g.judge(h, time.Now()) {
		case gateWaits, gateUndecided, gateCuts:
			return g
		case gateOpen:
			if h.up || !h.deaf.Load() {
				return nil
			}
			h.pop()
		case gateDrops:
			h.pop()
		}
	}
	return nil
}

func (h *half) pop() {
	h.size -= len(h.queue[h.first].chunk.Data)
	h.queue[h.first] = entry{}
	if h.first++; h.first == len(h.queue) {
		h.queue, h.first = h.queue[:0], 0
	}
}

func (h *half) push(chunk *stream.StreamChunk, g *gate) {
	h.size += len(chunk.Data)
	h.queue = append(h.queue, entry{chunk, g})
}

// receive takes what the sender sent, or its end.
func (h *half) receive(chunk *stream.StreamChunk) {
	h.meter.took(chunk)
	if chunk != nil {
		h.sort(chunk)
		return
	}
	h.senderGone()
	if !h.up {
		return
	}
	for _, t := range h.waiting() {
		allRules.clientGone(t)
	}
}

func (h *half) senderGone() {
	h.ended = true
	if h.up {
		close(h.clientGone)
	} else {
		close(h.brokerGone)
	}
}

// receiverGone is closed when the peer that the bytes go to has ended its own.
func (h *half) receiverGone() chan struct{} {
	if h.up {
		return h.brokerGone
	}
	return h.clientGone
}

// write passes on the front of the queue.
func (h *half) write(stub *toxics.ToxicStub) bool {
	chunk := h.queue[h.first].chunk
	select {
	case stub.Output <- chunk:
		h.pop()
		return true
	default:
	}
	gone, giveUp, stop := h.lastWords()
	defer stop()
	select {
	case <-stub.Interrupt:
		return false
	case stub.Output <- chunk:
		h.pop()
	case <-gone:
		h.giveUpAt = time.Now().Add(lastWordsTime)
	case <-giveUp:
		return h.close(stub, outcomeClosed)
	case <-h.cut:
		return h.close(stub, outcomeClosed)
	}
	return true
}

// lastWords is what a write that is blocked heeds of its receiver. The server's writer ends with its socket's first error and then
// takes nothing any more, and does not say so.
func (h *half) lastWords() (gone <-chan struct{}, giveUp <-chan time.Time, stop func()) {
	if h.giveUpAt.IsZero() {
		return h.receiverGone(), nil, func() {}
	}
	timer := time.NewTimer(time.Until(h.giveUpAt))
	return nil, timer.C, func() { timer.Stop() }
}

// wait is until the gate may have opened. What comes meanwhile is kept behind it.
func (h *half) wait(stub *toxics.ToxicStub, g *gate) bool {
	changed, until := g.waitsFor()
	if state := g.judge(h, time.Now()); state != gateWaits && state != gateUndecided {
		return true // released before `changed` was looked up
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	var input <-chan *stream.StreamChunk
	if !h.ended && (h.size < parkedBytes || g.gathers()) {
		input = stub.Input
	}
	select {
	case <-stub.Interrupt:
		return false
	case chunk := <-input:
		if chunk == nil && h.up && g.survives() {
			h.deaf.Store(true) // first, so that the other half knows it when it sees that the client has gone
		}
		h.receive(chunk)
	case <-changed:
	case <-timer.C:
	case <-h.cut:
		return h.close(stub, outcomeClosed)
	case <-h.receiverGone():
		if h.up {
			return h.close(stub, outcomeClosed)
		}
		return h.close(stub, outcomeClientGone)
	}
	return true
}

// lingers is whether the broker has yet to answer what was delivered late: it would not if its connection ended now.
func (h *half) lingers() bool {
	for len(h.late) > 0 && !h.awaits(h.late[0]) {
		h.late = h.late[1:]
	}
	return len(h.late) > 0 && time.Now().Before(h.lateTill)
}

func (h *half) linger(stub *toxics.ToxicStub) bool {
	timer := time.NewTimer(time.Until(h.lateTill))
	defer timer.Stop()
	select {
	case <-stub.Interrupt:
		return false
	case <-h.answered:
	case <-timer.C:
	case <-h.cut:
		return h.close(stub, outcomeClosed)
	case <-h.brokerGone:
		return h.close(stub, outcomeClosed)
	}
	return true
}

// close ends this direction. What was kept is lost. What the sender still sends is taken until it ends, or else the server's
// reader would wait forever.
func (h *half) close(stub *toxics.ToxicStub, outcome string) bool {
	for _, t := range h.waiting() {
		allRules.settle(t, outcome)
	}
	h.loseReplies(outcome)
	h.queue, h.first, h.size = nil, 0, 0
	stub.Close()
	h.drain(stub)
	return false
}

func (h *half) drain(stub *toxics.ToxicStub) {
	for !h.ended {
		chunk := <-stub.Input
		if h.meter.took(chunk); chunk == nil {
			h.senderGone()
		}
	}
}

// waiting are the interceptions in the queue that are not settled.
func (h *half) waiting() (waiting []*interception) {
	var last *gate
	for _, e := range h.queue[h.first:] {
		if e.gate != nil && e.gate != last {
			last = e.gate
			waiting = append(waiting, e.gate.interceptions...)
		}
	}
	return waiting
}

// cleanup delivers what is kept, within a time; what must not be delivered ends the connection.
func (h *half) cleanup(stub *toxics.ToxicStub) {
	until := time.Now().Add(cleanupWithin)
	for h.first < len(h.queue) {
		e := h.queue[h.first]
		if e.gate != nil {
			e.gate.free(h)
		}
		switch {
		case e.gate != nil && e.gate.state == gateDrops:
			h.pop()
		case e.gate != nil && e.gate.state == gateCuts, stub.WriteOutput(e.chunk, time.Until(until)) != nil:
			h.abandon(stub)
			return
		default:
			h.pop()
		}
	}
	owing := h.stopPairing() // first, so that no reply is kept after this
	if h.ended || h.frame.swallows() || owing {
		h.abandon(stub)
	}
}

// abandon is close, for one who cannot wait until the sender ends.
func (h *half) abandon(stub *toxics.ToxicStub) {
	for _, t := range h.waiting() {
		allRules.settle(t, outcomeClosed)
	}
	h.loseReplies(outcomeClosed)
	h.queue, h.first = nil, 0
	stub.Close()
	go h.drain(stub)
}
