package main

import (
	"encoding/json"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Meter counts what enters one direction of a link, while it happens. The stock server adds up a connection's bytes when
// the connection ends (link.go), which for Kafka is minutes after a fault.
//
//	client ──▶ noop ──▶ meter ──▶ (toxics added later) ──▶ broker
//	                      │
//	                      └ GET /proxies/{proxy}/toxics/{toxic}  →  attributes: bytes, connections_opened
//
// It is the first toxic of its direction, so it counts what a toxic behind it swallows: bytes that entered while a `timeout`
// was in force were withheld.
type Meter struct {
	bytes       atomic.Int64
	connections atomic.Int64
}

// Reading is what a meter shows.
type Reading struct {
	Bytes             int64 `json:"bytes"`
	ConnectionsOpened int64 `json:"connections_opened"`
}

// NewState is called by the server once for each connection that the toxic is put on.
func (m *Meter) NewState() interface{} {
	m.connections.Add(1)
	return nil
}

// Pipe passes every chunk on, untouched; a chunk that was taken is never given up, interrupted or not.
func (m *Meter) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			m.bytes.Add(int64(len(chunk.Data)))
			stub.Output <- chunk
		}
	}
}

// Reading is the count so far.
func (m *Meter) Reading() Reading {
	return Reading{Bytes: m.bytes.Load(), ConnectionsOpened: m.connections.Load()}
}

// MarshalJSON makes the stock API show the counters as the toxic's attributes.
func (m *Meter) MarshalJSON() ([]byte, error) {
	return json.Marshal(m.Reading())
}

// UnmarshalJSON takes no attributes: counters are not set from outside.
func (m *Meter) UnmarshalJSON([]byte) error {
	return nil
}
