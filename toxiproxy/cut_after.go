package main

import (
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// CutAfter closes a connection once so many bytes have passed it, as the stock `limit_data` does, and counts those that it has
// closed. A meter cannot tell: it counts the bytes of all connections together, and a connection may end for many reasons.
type CutAfter struct {
	bytes, cut atomic.Int64
}

// passing is one direction of one connection.
type passing struct {
	bytes int64               // that have passed
	next  *stream.StreamChunk // that is to pass, if there is one
}

type cutAfterAttributes struct {
	Bytes int64 `json:"bytes"`
	Cut   int64 `json:"cut"`
}

// NewState is called by the server once for each connection that the toxic is put on.
func (c *CutAfter) NewState() interface{} { return new(passing) }

// Pipe passes chunks on until the limit is reached, in the middle of a chunk most likely.
func (c *CutAfter) Pipe(stub *toxics.ToxicStub) {
	state := stub.State.(*passing)
	for state.step(c, stub) {
	}
}

// step does the next thing; false: the Pipe is over.
func (p *passing) step(c *CutAfter, stub *toxics.ToxicStub) bool {
	if p.next == nil {
		select {
		case <-stub.Interrupt:
			return false
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return false
			}
			left := max(c.bytes.Load()-p.bytes, 0)
			p.next = &stream.StreamChunk{Data: chunk.Data[:min(left, int64(len(chunk.Data)))], Timestamp: chunk.Timestamp}
		}
	}
	select {
	case <-stub.Interrupt: // also while the receiver takes nothing, as delay.go says of the stock toxics
		return false
	case stub.Output <- p.next:
	}
	p.bytes += int64(len(p.next.Data))
	p.next = nil
	if p.bytes < c.bytes.Load() {
		return true
	}
	c.cut.Add(1)
	stub.Close()
	return false
}

// Cleanup ends a connection on which something is kept, or was cut off: a gap in its bytes would be worse.
func (c *CutAfter) Cleanup(stub *toxics.ToxicStub) {
	if stub.State.(*passing).next != nil {
		stub.Close()
	}
}

// MarshalJSON shows the limit, and how many connections have reached it so far.
func (c *CutAfter) MarshalJSON() ([]byte, error) {
	return json.Marshal(cutAfterAttributes{c.bytes.Load(), c.cut.Load()})
}

// UnmarshalJSON sets the limit; the count is only shown.
func (c *CutAfter) UnmarshalJSON(data []byte) error {
	var given cutAfterAttributes
	if err := json.Unmarshal(data, &given); err != nil {
		return err
	}
	if given.Bytes < 1 {
		return errors.New("bytes: is 1 or more")
	}
	c.bytes.Store(given.Bytes)
	return nil
}
