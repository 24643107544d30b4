// Package kafka has the toxic that sees the frames of Kafka's protocol on a link, and the rules about them.
package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Toxic sees the frames of Kafka's protocol in one direction of a link: it counts them, and a rule can hold the nth of
// them, and then deliver or drop it or close its connection. It is also the link's meter.
//
//	client ──▶ noop ──▶ kafka ──▶ (toxics added later) ──▶ broker
//	                      │ requests: api, version, correlation id, client id, transactional id
//	                      ▼
//	           connection: requests without an answer          allRules: rules and interceptions of all links
//	                      ▲
//	                      │ responses: correlation id
//	client ◀── (…) ◀── kafka ◀── noop ◀── broker
//
// A link has one in both directions from before its first connection. The server makes the upstream half of a connection right
// before its downstream half (proxy.go), which is how the halves find each other.
//
// Frames are never gathered: what is known of one is its beginning, and the rest passes as it comes.
//
// On a link that is raw something else is spoken, HTTP say: it is metered, and nothing in it is taken for a frame.
type Toxic struct {
	link   *link // nil until constructed
	stream string
	meter  meter
}

// shownToxic is what the API shows: the meter of this direction, the counters of the link in both directions, and the rules and
// interceptions of all links.
type shownToxic struct {
	meterReading
	Link      string                 `json:"link"`
	Stream    string                 `json:"stream"`
	Counts    map[string]shownCounts `json:"counts"`
	Unparsed  shownUnparsed          `json:"unparsed"`
	Oversized int64                  `json:"oversized_frames"`
	IDs       []shownID              `json:"transactional_ids"`
	shownReaders
	Rules         map[string]shownRule `json:"rules"`
	Interceptions []shownInterception  `json:"interceptions"`
	Forgotten     int64                `json:"interceptions_forgotten"`
}

const (
	up   = "upstream"
	down = "downstream"
)

// links are the links by name, with what they have of the two toxics.
var links = struct {
	sync.Mutex
	byName map[string]*link
	has    map[string]bool // name + stream
}{byName: make(map[string]*link), has: make(map[string]bool)}

// linkOf is the link of a new toxic: its partner's, or a new one. Two proxies may be on one link: they have a *link each, as the
// toxics of a proxy are made one after the other.
func linkOf(name, stream string) *link {
	links.Lock()
	defer links.Unlock()
	if links.byName[name] == nil || links.has[name+" "+stream] {
		links.byName[name] = &link{name: name}
		links.has[name+" "+up], links.has[name+" "+down] = false, false
	}
	links.has[name+" "+stream] = true
	return links.byName[name]
}

// NewState makes one half of a connection.
func (k *Toxic) NewState() interface{} {
	h := k.newHalf()
	h.meter = &k.meter
	k.meter.opened.Add(1)
	if k.link != nil && k.link.isRaw {
		h.isRaw()
	}
	return h
}

func (k *Toxic) newHalf() *half {
	if k.link == nil { // constructed without attributes
		c := newConnection(new(link))
		c.isRaw()
		return &half{connection: c, up: true}
	}
	k.link.mu.Lock()
	defer k.link.mu.Unlock()
	if k.stream == up {
		k.link.opening = newConnection(k.link)
		return &half{connection: k.link.opening, up: true}
	}
	c := k.link.opening
	k.link.opening = nil
	if c == nil { // older than the upstream toxic: there is nothing to pair its responses with
		c = newConnection(k.link)
		c.isRaw()
	}
	return &half{connection: c, replies: c.replied}
}

// GetBufferSize is in chunks: with some room, the reader before it need not wait for it at every chunk, which benchmarks/link.py sees.
func (k *Toxic) GetBufferSize() int { return 16 }

// Pipe passes on what comes, but for what a rule says. It heeds an interrupt whatever it waits for, and keeps what it holds.
func (k *Toxic) Pipe(stub *toxics.ToxicStub) {
	h := stub.State.(*half)
	for h.step(stub) {
	}
}

// Cleanup passes on what is held when the toxic itself is taken away.
func (k *Toxic) Cleanup(stub *toxics.ToxicStub) {
	stub.State.(*half).cleanup(stub)
}

// MarshalJSON is the read-back channel.
func (k *Toxic) MarshalJSON() ([]byte, error) {
	if k.link == nil {
		return []byte("{}"), nil
	}
	rules, interceptions, forgotten := allRules.read()
	return json.Marshal(shownToxic{
		meterReading:  k.meter.read(),
		Link:          k.link.name,
		Stream:        k.stream,
		Counts:        k.link.read(),
		Unparsed:      shownUnparsed{k.link.raw.Load(), k.link.rawBytes.Load()},
		Oversized:     k.link.oversized.Load(),
		IDs:           k.link.ids.read(),
		shownReaders:  k.link.starts.read(),
		Rules:         rules,
		Interceptions: interceptions,
		Forgotten:     forgotten,
	})
}

// UnmarshalJSON constructs the toxic, from its link and stream, or changes the rules; what is only shown is ignored.
//
// The server answers 400 with the error, and then nothing was changed.
func (k *Toxic) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	shown := []string{
		"link", "stream", "raw", "rules", "counts", "unparsed", "oversized_frames", "interceptions", "interceptions_forgotten",
		"transactional_ids", "starts", "unfenced_commits", "produced_ms", "forgotten_until_ns", "bytes", "chunks", "connections_opened", "connections_open",
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(shown, field) {
			return fmt.Errorf("%s: a kafka toxic has no such attribute", field)
		}
	}
	name, stream, raw, err := k.identity(data)
	if err != nil {
		return err
	}
	if rules, there := fields["rules"]; there {
		if err := allRules.patch(rules); err != nil {
			return err
		}
	}
	if k.link == nil {
		k.link, k.stream = linkOf(name, stream), stream
		k.link.isRaw = raw
	}
	return nil
}

// identity is the link, the stream and whether it is raw, which a toxic has from its construction and keeps.
func (k *Toxic) identity(data []byte) (name, stream string, raw bool, err error) {
	given := struct {
		Link, Stream *string
		Raw          *bool
	}{}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&given); err != nil {
		return "", "", false, err
	}
	if k.link != nil {
		isOther := (given.Link != nil && *given.Link != k.link.name) || (given.Stream != nil && *given.Stream != k.stream)
		if isOther || (given.Raw != nil && *given.Raw != k.link.isRaw) {
			return "", "", false, errors.New("link, stream, raw: cannot be changed")
		}
		return k.link.name, k.stream, k.link.isRaw, nil
	}
	if given.Link == nil || *given.Link == "" {
		return "", "", false, errors.New("link: is missing")
	}
	if given.Stream == nil || (*given.Stream != up && *given.Stream != down) {
		return "", "", false, errors.New("stream: is upstream or downstream")
	}
	return *given.Link, *given.Stream, given.Raw != nil && *given.Raw, nil
}
