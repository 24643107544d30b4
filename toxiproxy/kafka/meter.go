package kafka

import (
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// meter counts what enters one direction of a link, while it happens. The stock server adds up a connection's bytes when the
// connection ends (link.go), which for Kafka is minutes after a fault.
//
// It belongs to the first toxic of its direction, so it also counts what a toxic behind that one swallows. One meter serves all connections of its direction, hence the atomic counters.
type meter struct {
	bytes  atomic.Int64
	chunks atomic.Int64
	opened atomic.Int64
	ended  atomic.Int64
}

// meterReading is what a meter shows.
type meterReading struct {
	Bytes             int64 `json:"bytes"`
	Chunks            int64 `json:"chunks"`
	ConnectionsOpened int64 `json:"connections_opened"`
	ConnectionsOpen   int64 `json:"connections_open"`
}

// took counts a chunk; nil is the end of a connection.
func (m *meter) took(chunk *stream.StreamChunk) {
	if chunk == nil {
		m.ended.Add(1)
		return
	}
	m.bytes.Add(int64(len(chunk.Data)))
	m.chunks.Add(1)
}

// read is the count so far. A connection is open until its sender's close has come through: one that a removed `blackhole` cut
// while a chunk was under way stays counted, because the stock server ends it without telling the toxics before it.
func (m *meter) read() meterReading {
	ended, opened := m.ended.Load(), m.opened.Load() // in this order, or a connection that opens and ends between would count -1
	return meterReading{
		Bytes:             m.bytes.Load(),
		Chunks:            m.chunks.Load(),
		ConnectionsOpened: opened,
		ConnectionsOpen:   opened - ended,
	}
}
