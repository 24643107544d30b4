package main

import (
	"encoding/json"
	"errors"
	"math/rand"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Delay delivers every chunk later by latency ± jitter, in milliseconds, as the stock `latency` does, and in the same order.
//
// The stock one blocks on its output without heeding an interrupt. When it is removed while its receiver has died or takes
// nothing, the removal waits, with the lock that the end of the dead connection needs, and the API of the whole server waits
// with it, for ever. This one keeps what it delays in its state and heeds an interrupt whatever it does.
type Delay struct {
	latency, jitter atomic.Int64
}

const (
	dayMs         = 24 * 60 * 60 * 1000
	cleanupWithin = 5 * time.Second // as the stock server, which gives up after the same time

	delayedBytes = 32 << 20         // on one connection; then no more is taken, as with a full TCP window
	noProgress   = 2 * time.Second  // when it is removed: a receiver that takes nothing for so long is dead, or paused
	lastFlush    = 30 * time.Second // for a receiver that takes nothing, once the sender has gone
)

// delayed is one direction of one connection.
type delayed struct {
	queue    []dueChunk
	size     int
	ended    bool
	giveUpAt time.Time
}

type dueChunk struct {
	chunk *stream.StreamChunk
	due   time.Time
}

type delayAttributes struct {
	Latency *int64 `json:"latency"`
	Jitter  *int64 `json:"jitter"`
}

// NewState is called by the server once for each connection that the toxic is put on.
func (d *Delay) NewState() interface{} { return new(delayed) }

// Pipe takes chunks and gives back those that are due.
func (d *Delay) Pipe(stub *toxics.ToxicStub) {
	state := stub.State.(*delayed)
	for state.step(d, stub) {
	}
}

// Cleanup delivers what is kept, at once and within a time.
func (d *Delay) Cleanup(stub *toxics.ToxicStub) {
	state := stub.State.(*delayed)
	until := time.Now().Add(cleanupWithin)
	for _, next := range state.queue {
		if stub.WriteOutput(next.chunk, min(time.Until(until), noProgress)) != nil {
			stub.Close() // the connection ends: a gap in its bytes would be worse
			if !state.ended {
				go drain(stub.Input)
			}
			break
		}
	}
	state.queue = nil
	if state.ended {
		stub.Close()
	}
}

// step does the next thing; false: the Pipe is over.
func (s *delayed) step(d *Delay, stub *toxics.ToxicStub) bool {
	if s.ended && len(s.queue) == 0 {
		stub.Close()
		return false
	}
	output, next, due := s.front(stub)
	giveUp := s.lastFlush()
	defer stop(due, giveUp)
	select {
	case <-stub.Interrupt:
		return false
	case chunk := <-s.input(stub):
		s.take(chunk, d.delay())
	case output <- next:
		s.size -= len(next.Data)
		s.queue, s.giveUpAt = s.queue[1:], time.Time{}
	case <-at(due):
	case <-at(giveUp):
		stub.Close()
		return false
	}
	return true
}

// front is where the first chunk goes, if it is due, or else the timer until it is.
func (s *delayed) front(stub *toxics.ToxicStub) (chan<- *stream.StreamChunk, *stream.StreamChunk, *time.Timer) {
	if len(s.queue) == 0 {
		return nil, nil, nil
	}
	next := s.queue[0]
	if wait := time.Until(next.due); wait > 0 {
		return nil, nil, time.NewTimer(wait)
	}
	return stub.Output, next.chunk, nil
}

// lastFlush is a timer when the sender has gone and the receiver takes nothing. The server's writer ends with its socket's first
// error and takes nothing any more: a dead receiver looks like a slow one.
func (s *delayed) lastFlush() *time.Timer {
	if !s.ended || time.Now().Before(s.queue[0].due) {
		return nil
	}
	if s.giveUpAt.IsZero() {
		s.giveUpAt = time.Now().Add(lastFlush)
	}
	return time.NewTimer(time.Until(s.giveUpAt))
}

func (s *delayed) input(stub *toxics.ToxicStub) <-chan *stream.StreamChunk {
	if s.ended || s.size >= delayedBytes {
		return nil
	}
	return stub.Input
}

func (s *delayed) take(chunk *stream.StreamChunk, delay time.Duration) {
	if chunk == nil {
		s.ended = true
		return
	}
	due := chunk.Timestamp.Add(delay)
	chunk.Timestamp = due // for a second toxic of this kind behind this one
	s.size += len(chunk.Data)
	s.queue = append(s.queue, dueChunk{chunk, due})
}

// delay is drawn anew for every chunk; jitter does not change their order.
func (d *Delay) delay() time.Duration {
	ms := d.latency.Load()
	if jitter := d.jitter.Load(); jitter > 0 {
		ms += rand.Int63n(2*jitter) - jitter
	}
	return time.Duration(max(ms, 0)) * time.Millisecond
}

// MarshalJSON shows the attributes that were set.
func (d *Delay) MarshalJSON() ([]byte, error) {
	latency, jitter := d.latency.Load(), d.jitter.Load()
	return json.Marshal(delayAttributes{&latency, &jitter})
}

// UnmarshalJSON sets the attributes that are given. The server may do so while connections are delayed.
func (d *Delay) UnmarshalJSON(data []byte) error {
	latency, jitter := d.latency.Load(), d.jitter.Load()
	if err := json.Unmarshal(data, &delayAttributes{&latency, &jitter}); err != nil {
		return err
	}
	if latency < 0 || jitter < 0 || latency > dayMs || jitter > dayMs {
		return errors.New("latency, jitter: are 0 to 86400000, in milliseconds")
	}
	d.latency.Store(latency)
	d.jitter.Store(jitter)
	return nil
}

func drain(input <-chan *stream.StreamChunk) {
	for range input {
	}
}

func at(timer *time.Timer) <-chan time.Time {
	if timer == nil {
		return nil
	}
	return timer.C
}

func stop(timers ...*time.Timer) {
	for _, timer := range timers {
		if timer != nil {
			timer.Stop()
		}
	}
}
