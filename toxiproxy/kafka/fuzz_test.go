package kafka

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

func chunkOf(data []byte) *stream.StreamChunk {
	return &stream.StreamChunk{Data: data, Timestamp: time.Now()}
}

// passed is what a half lets through of bytes that come in chunks of these lengths, over and over, when the rule "fuzz" lets go.
func passed(h *half, data, lengths []byte, release string) []byte {
	for i := 0; len(data) > 0; i++ {
		n := len(data)
		if len(lengths) > 0 {
			n = min(int(lengths[i%len(lengths)])+1, n)
		}
		h.sort(chunkOf(data[:n:n]))
		data = data[n:]
	}
	if release != "" {
		allRules.patch(json.RawMessage(`{"fuzz": {"release": "` + release + `"}}`))
	}
	h.ended = true
	var out []byte
	for h.first < len(h.queue) {
		if h.settle() != nil {
			break
		}
		if h.first < len(h.queue) {
			out = append(out, h.queue[h.first].chunk.Data...)
			h.pop()
		}
	}
	return out
}

// Any bytes, in any chunks, come out as they went in, with rules and without.
func FuzzPassesAnything(f *testing.F) {
	frames := bytes.Join([][]byte{
		endTxnFrame(1, "a", "t"), produceFrame(2, 0, 300), transactionalFrame(addPartitionsToTxn, 4, 3, "b", "tt"), response(endTxn, 3, 1, 0),
	}, nil)
	f.Add(frames, []byte{0})
	f.Add(frames, []byte{1, 2, 3})
	f.Add(frames, []byte{})
	f.Add([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, []byte{4})
	f.Add([]byte{0, 0, 0, 9, 0, 26, 0, 3, 0, 0, 0, 1, 0xff, 0xff}, []byte{0})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{2})
	f.Fuzz(func(t *testing.T, data, lengths []byte) {
		for _, release := range []string{"", "deliver"} {
			c := newConnection(new(link))
			for _, h := range []*half{{connection: c, up: true}, {connection: c}} {
				testbed.Must(t, allRules.patch(json.RawMessage("null")))
				if release != "" {
					testbed.Must(t, allRules.patch(json.RawMessage(`{"fuzz": {"api": "EndTxn", "times": 0, "action": "hold"}, "fuzz2": {"api": "Produce", "times": 0, "action": "hold", "release": "deliver"}}`)))
				}
				if got := passed(h, data, lengths, release); !bytes.Equal(got, data) {
					t.Fatalf("%d bytes of %d came out, or others", len(got), len(data))
				}
			}
		}
		testbed.Must(t, allRules.patch(json.RawMessage("null")))
	})
}

// Frames in any chunks are counted the same, and a dropped one is the only one that is missing.
func FuzzDropsOnlyItsFrame(f *testing.F) {
	f.Add([]byte{0}, uint8(1))
	f.Add([]byte{6, 1}, uint8(2))
	f.Add([]byte{255, 3}, uint8(3))
	f.Fuzz(func(t *testing.T, lengths []byte, nth uint8) {
		frames := [][]byte{endTxnFrame(1, "a", "t"), produceFrame(2, 1, 300), endTxnFrame(3, "a", "t"), produceFrame(4, 1, 0), endTxnFrame(5, "b", "u")}
		n := int(nth%3) + 1
		rule, err := json.Marshal(map[string]any{"fuzz": map[string]any{"api": "EndTxn", "action": "hold", "nth": n}})
		testbed.Must(t, err)
		testbed.Must(t, allRules.patch(json.RawMessage("null")))
		testbed.Must(t, allRules.patch(rule))
		defer allRules.patch(json.RawMessage("null"))
		h := &half{connection: newConnection(new(link)), up: true}
		got := passed(h, bytes.Join(frames, nil), lengths, "drop")
		want := bytes.Join(append(append([][]byte{}, frames[:2*n-2]...), frames[2*n-1:]...), nil)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes came out, want %d", len(got), len(want))
		}
		if counted := h.link.counts[endTxn].requests.Load(); counted != 3 {
			t.Fatalf("%d were counted", counted)
		}
	})
}
