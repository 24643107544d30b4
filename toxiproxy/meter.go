package main

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Meter counts what enters one direction of a link, while it happens. The stock server adds up a connection's bytes when
// the connection ends (link.go), which for Kafka is minutes after a fault.
//
//	client ──▶ noop ──▶ meter ──▶ (toxics added later) ──▶ broker
//	                      │
//	                      └ GET /proxies/{proxy}/toxics/{toxic}  →  attributes: bytes, chunks, connections_opened, connections_open
//
// It is the first toxic of its direction, so it counts what a toxic behind it swallows: bytes that entered while a `timeout`
// was in force were withheld. One Meter serves all connections of its direction, hence the atomic counters.
type Meter struct {
	bytes  atomic.Int64
	chunks atomic.Int64
	opened atomic.Int64
	ended  atomic.Int64
}

// Reading is what a meter shows.
type Reading struct {
	Bytes             int64 `json:"bytes"`
	Chunks            int64 `json:"chunks"`
	ConnectionsOpened int64 `json:"connections_opened"`
	ConnectionsOpen   int64 `json:"connections_open"`
}

// held is one connection's state: the chunk that was counted and could not be passed on yet.
type held struct {
	chunk *stream.StreamChunk
}

const cleanupWithin = 5 * time.Second

// NewState is called by the server once for each connection that the toxic is put on.
func (m *Meter) NewState() interface{} {
	m.opened.Add(1)
	return new(held)
}

// Pipe passes every chunk on, untouched. Interrupted while the next toxic takes nothing, it keeps the chunk for the next
// Pipe: otherwise adding a toxic to a link whose reader is paused would wait until the reader goes on.
func (m *Meter) Pipe(stub *toxics.ToxicStub) {
	state := stub.State.(*held)
	for {
		if !state.flush(stub) {
			return
		}
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				m.ended.Add(1)
				stub.Close()
				return
			}
			m.bytes.Add(int64(len(chunk.Data)))
			m.chunks.Add(1)
			state.chunk = chunk
		}
	}
}

// Cleanup passes on what is still held when the meter itself is taken away.
func (m *Meter) Cleanup(stub *toxics.ToxicStub) {
	if state := stub.State.(*held); state.chunk != nil {
		_ = stub.WriteOutput(state.chunk, cleanupWithin) // the stock server gives up after the same time
	}
}

// flush is false when it was interrupted.
func (h *held) flush(stub *toxics.ToxicStub) bool {
	if h.chunk == nil {
		return true
	}
	select {
	case <-stub.Interrupt:
		return false
	case stub.Output <- h.chunk:
		h.chunk = nil
		return true
	}
}

// Reading is the count so far. A connection is open until its sender's close has come through: one that a removed `timeout`
// cut while a chunk was under way stays counted, because the stock server ends it without telling the toxics before it.
func (m *Meter) Reading() Reading {
	ended, opened := m.ended.Load(), m.opened.Load() // in this order, or a connection that opens and ends between would count -1
	return Reading{
		Bytes:             m.bytes.Load(),
		Chunks:            m.chunks.Load(),
		ConnectionsOpened: opened,
		ConnectionsOpen:   opened - ended,
	}
}

// MarshalJSON makes the stock API show the counters as the toxic's attributes.
func (m *Meter) MarshalJSON() ([]byte, error) {
	return json.Marshal(m.Reading())
}

// UnmarshalJSON takes no attributes: counters are not set from outside.
func (m *Meter) UnmarshalJSON([]byte) error {
	return nil
}
