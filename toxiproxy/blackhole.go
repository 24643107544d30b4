package main

import (
	"encoding/json"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Blackhole swallows what enters it and leaves the connection open, as the stock `timeout` does with 0, and counts what it has
// swallowed. A meter before it cannot tell: a request that is swallowed between two calls of the API, one that adds the toxic and
// one that reads the meter, looks as if it had passed, and a client that waits for the answer to it sends no other.
type Blackhole struct {
	swallowed atomic.Int64
}

type blackholeAttributes struct {
	Swallowed int64 `json:"swallowed"`
}

// Pipe takes chunks and gives nothing back.
func (b *Blackhole) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			b.swallowed.Add(int64(len(chunk.Data)))
		}
	}
}

// Cleanup ends the connection: a gap in its bytes would be worse.
func (b *Blackhole) Cleanup(stub *toxics.ToxicStub) { stub.Close() }

// MarshalJSON shows how many bytes were swallowed so far, on all connections together.
func (b *Blackhole) MarshalJSON() ([]byte, error) {
	return json.Marshal(blackholeAttributes{b.swallowed.Load()})
}

// UnmarshalJSON takes no attributes: there is nothing to set.
func (b *Blackhole) UnmarshalJSON([]byte) error { return nil }
