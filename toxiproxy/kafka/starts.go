package kafka

import (
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	maxStarts      = 1000    // of one link
	maxProduced    = 2000    // of one link
	maxOffsetFetch = 1 << 20 // a longer answer to an OffsetFetch is not read
)

// starts are where the readers of a link have begun: the answers to OffsetFetch, the last one at the end. In a log a position is only
// an end; where the reader of a transaction began is told here alone.
type starts struct {
	mu        sync.Mutex
	seen      []shownStart
	unfenced  []shownUnfenced
	produced  []producedAt
	forgotten map[string]int64 // which of these -> up to when something may be missing, in Unix nanoseconds
}

// producedAt is a Produce in a transaction: when rows were written is not what their timestamps say, which the program chooses.
type producedAt struct {
	id     string
	sentMS int64
}

// shownStart is a committed position that a reader was given. Times are in Unix nanoseconds: the broker looked it up between them.
type shownStart struct {
	Group      string `json:"group"`
	Topic      string `json:"topic"`    // empty where the answer has the id only, from version 10 on
	TopicID    string `json:"topic_id"` // 32 hexadecimal digits, or empty
	Partition  int32  `json:"partition"`
	Position   int64  `json:"position"`   // -1: none
	Generation int32  `json:"generation"` // of the group, -1 where the connection has joined none
	ClientID   string `json:"client_id"`
	AskedNS    int64  `json:"asked_ns"`
	AnsweredNS int64  `json:"answered_ns"`
}

// shownUnfenced is a TxnOffsetCommit that names no generation of the group: no coordinator can refuse it because its sender was
// excluded (KIP-447).
type shownUnfenced struct {
	Group      string `json:"group"`
	ProducerID int64  `json:"producer_id"`
	SentNS     int64  `json:"sent_ns"`
}

// place is a partition of which a group's position is asked for.
type place struct {
	group, topic, id string
	partition        int32
}

// reading is what a connection has asked for since its client has joined a group. Who asks again without joining again is no new
// reader: some applications want to know how far they are.
type reading struct {
	generation int32
	asked      map[place]bool
}

// joined is told of an answer to a SyncGroup.
func (c *connection) joined(r *request) {
	c.reading = reading{generation: r.generation}
}

// began remembers what an answer to an OffsetFetch says of partitions that were not asked for before.
func (c *connection) began(copied *copiedAnswer) {
	r := copied.request
	found, ok := parseOffsetFetch(copied.frame, r.version)
	if !ok {
		return
	}
	if c.reading.asked == nil {
		c.reading.asked = make(map[place]bool)
	}
	for _, one := range found {
		if r.version < groupsInAnswer {
			one.group = r.group
		}
		if one.code != 0 || c.reading.asked[one.place] {
			continue
		}
		c.reading.asked[one.place] = true
		c.link.starts.keep(shownStart{
			one.group, one.topic, one.id, one.partition, one.position, c.reading.generation, r.client,
			r.arrived.UnixNano(), copied.arrived.UnixNano(),
		})
	}
}

func (s *starts) keep(one shownStart) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == maxStarts {
		s.forget("starts", s.seen[0].AnsweredNS)
		s.seen = slices.Delete(s.seen, 0, 1)
	}
	s.seen = append(s.seen, one)
}

// sends remembers a TxnOffsetCommit without a generation, and when a Produce of a transaction was sent.
func (s *starts) sends(r *request) {
	switch {
	case r.api == txnOffsetCommit && r.generation < 0:
		s.sendsUnfenced(shownUnfenced{r.group, r.producer, r.arrived.UnixNano()})
	case r.api == produce && r.transactional != "":
		s.produces(producedAt{r.transactional, r.arrived.UnixMilli()})
	}
}

func (s *starts) sendsUnfenced(one shownUnfenced) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unfenced) == maxStarts {
		s.forget("unfenced", s.unfenced[0].SentNS)
		s.unfenced = slices.Delete(s.unfenced, 0, 1)
	}
	s.unfenced = append(s.unfenced, one)
}

// produces forgets a tenth at once: these are many, and come on the way of the rows.
func (s *starts) produces(one producedAt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.produced) - 1; last >= 0 && s.produced[last] == one {
		return
	}
	if len(s.produced) == maxProduced {
		s.forget("produced", s.produced[maxProduced/10-1].sentMS*int64(time.Millisecond))
		s.produced = slices.Delete(s.produced, 0, maxProduced/10)
	}
	s.produced = append(s.produced, one)
}

func (s *starts) forget(what string, until int64) {
	if s.forgotten == nil {
		s.forgotten = make(map[string]int64)
	}
	s.forgotten[what] = until
}

// shownReaders is a copy of what a link has seen; its lists are never null.
type shownReaders struct {
	Starts    []shownStart       `json:"starts"`
	Unfenced  []shownUnfenced    `json:"unfenced_commits"`
	Produced  map[string][]int64 `json:"produced_ms"` // by transactional id
	Forgotten map[string]int64   `json:"forgotten_until_ns"`
}

func (s *starts) read() shownReaders {
	s.mu.Lock()
	defer s.mu.Unlock()
	produced := make(map[string][]int64)
	for _, one := range s.produced {
		produced[one.id] = append(produced[one.id], one.sentMS)
	}
	return shownReaders{append([]shownStart{}, s.seen...), append([]shownUnfenced{}, s.unfenced...), produced, maps.Clone(s.forgotten)}
}

const (
	groupsInAnswer = 8  // from this version on an answer has several groups, and names them
	idsInAnswer    = 10 // and their topics by their ids
)

// fetchedPosition is one of the positions in an answer.
type fetchedPosition struct {
	place
	position int64
	code     int16
}

// parseOffsetFetch reads a whole answer; ok is false when it is not one.
func parseOffsetFetch(frame []byte, version int16) (found []fetchedPosition, ok bool) {
	r := reader{data: frame, at: lengthPrefix + 4, total: len(frame)}
	flexible := isFlexible(offsetFetch, version)
	if flexible {
		r.tags()
	}
	if version >= 3 {
		r.int32() // the throttle time
	}
	if version < groupsInAnswer {
		found = readPositions(&r, "", version, flexible)
		if version >= 2 && r.int16() != 0 {
			found = nil
		}
		if flexible {
			r.tags()
		}
		return found, r.ok()
	}
	for left := r.uvarint() - 1; left > 0 && r.ok(); left-- {
		group := string(r.compact())
		of := readPositions(&r, group, version, flexible)
		if r.int16() == 0 {
			found = append(found, of...)
		}
		r.tags()
	}
	r.tags()
	return found, r.ok()
}

func readPositions(r *reader, group string, version int16, flexible bool) (found []fetchedPosition) {
	for topics := r.length(flexible); topics > 0 && r.ok(); topics-- {
		at := place{group: group}
		if version >= idsInAnswer {
			at.id = hex.EncodeToString(r.take(16))
		} else {
			at.topic = string(r.text(flexible))
		}
		for left := r.length(flexible); left > 0 && r.ok(); left-- {
			at.partition = r.int32()
			position := r.int64()
			if version >= 5 {
				r.int32() // the leader's epoch
			}
			r.text(flexible) // metadata
			found = append(found, fetchedPosition{at, position, r.int16()})
			if flexible {
				r.tags()
			}
		}
		if flexible {
			r.tags()
		}
	}
	return found
}

// copiedAnswer is an answer of a broker that is copied while it passes: to a Metadata request, or to an OffsetFetch.
type copiedAnswer struct {
	request request
	arrived time.Time
	frame   []byte
}
