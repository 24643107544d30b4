package kafka

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// framer is where the frame under way has got to.
type framer struct {
	head   []byte // its beginning, when that came in pieces
	need   int    // the head is worth another look when it has so many bytes
	left   int    // bytes to come, once the head is known
	gate   *gate
	leaked bool // some of it has passed already: no rule is asked

	paired bool // with the request that it answers, though more of its beginning is wanted
	answer request
	copied *copiedAnswer // that passes

	client, transactional string // of the frame before: they are nearly always the same
}

// found is what the beginning of a frame tells.
type found struct {
	total         int
	need          int // more of the beginning, before anything else is known
	ok            bool
	correlation   int32
	interceptions []*interception // what stands before it
}

// isBetween is whether no frame is under way.
func (f *framer) isBetween() bool { return f.left == 0 && len(f.head) == 0 }

// passes is said when a frame whose beginning has not come is let go.
func (f *framer) passes() { f.leaked = true }

// swallows is whether the rest of a dropped frame is still to come.
func (f *framer) swallows() bool {
	return f.gate != nil && f.gate.state == gateDrops && f.left > 0
}

// sort puts a chunk into the queue: whole, or in parts where a frame in it has a gate.
func (h *half) sort(chunk *stream.StreamChunk) {
	s := sorting{half: h, chunk: chunk}
	for s.at < len(chunk.Data) && !h.raw.Load() {
		if h.frame.left == 0 && !s.begin() {
			continue
		}
		s.pass()
	}
	if rest := len(chunk.Data) - s.at; rest > 0 {
		h.link.rawBytes.Add(int64(rest))
	}
	s.queue(len(chunk.Data))
}

// sorting is a chunk that is being looked through.
type sorting struct {
	*half
	chunk *stream.StreamChunk
	from  int // queued up to here
	at    int // looked at up to here
}

// begin looks at the beginning of a frame, and is true when that was enough.
func (s *sorting) begin() bool {
	if !s.up && s.owed.Load() > 0 && s.frame.isBetween() {
		s.queue(s.at)
		s.giveReplies()
	}
	f, data := &s.frame, s.chunk.Data[s.at:]
	whole := len(f.head) == 0 // it begins in this chunk
	if !whole {
		n := min(f.need-len(f.head), len(data))
		f.head = append(f.head, data[:n]...)
		s.at += n
		if len(f.head) < f.need {
			return false
		}
		data = f.head
	}
	seen := s.look(data, s.chunk.Timestamp)
	switch {
	case !seen.ok:
		s.giveUp()
		return false
	case seen.need > 0 && whole:
		s.undecided()
		fallthrough
	case seen.need > 0:
		f.need = seen.need
		return false
	}
	s.decide(seen)
	f.left = seen.total - len(f.head)
	if f.copied != nil {
		f.copied.frame = append(f.copied.frame, f.head...)
	}
	f.head, f.leaked, f.paired = f.head[:0], false, false
	return true
}

// giveUp is for bytes that are not a frame.
func (s *sorting) giveUp() {
	f := &s.frame
	s.link.rawBytes.Add(int64(len(f.head)))
	f.head = nil
	if f.gate != nil {
		f.gate.state = gateWaits // for no interceptions
	}
	s.isRaw()
}

// undecided keeps a frame that has only begun to come, if there are rules that might be about it.
func (s *sorting) undecided() {
	f := &s.frame
	if allRules.table.Load() == nil {
		f.leaked = true
	} else {
		s.queue(s.at)
		f.gate = &gate{since: time.Now()}
	}
	f.head = append(f.head, s.chunk.Data[s.at:]...)
	s.at = len(s.chunk.Data)
}

// decide puts the interceptions before the frame.
func (s *sorting) decide(seen found) {
	f := &s.frame
	if f.gate == nil {
		if len(seen.interceptions) == 0 {
			return
		}
		s.queue(s.at)
		f.gate = new(gate)
	}
	if f.gate.state == gateUndecided {
		f.gate.state, f.gate.interceptions, f.gate.correlation = gateWaits, seen.interceptions, seen.correlation
	}
}

// pass goes on to the end of the frame, or of the chunk.
func (s *sorting) pass() {
	f := &s.frame
	n := min(f.left, len(s.chunk.Data)-s.at)
	if f.copied != nil {
		f.copied.frame = append(f.copied.frame, s.chunk.Data[s.at:s.at+n]...)
		if n == f.left {
			s.copied(f.copied)
			f.copied = nil
		}
	}
	s.at, f.left = s.at+n, f.left-n
	if f.left == 0 && f.gate != nil {
		s.queue(s.at)
		f.gate = nil
	}
}

// copied is told of an answer that was copied and is whole now.
func (s *sorting) copied(answer *copiedAnswer) {
	if answer.request.api == metadata {
		s.link.metadata.Store(answer)
	} else {
		s.began(answer)
	}
}

func (s *sorting) queue(to int) {
	switch {
	case to == s.from:
		return
	case s.from == 0 && to == len(s.chunk.Data):
		s.push(s.chunk, s.frame.gate)
	default:
		s.push(&stream.StreamChunk{Data: s.chunk.Data[s.from:to], Timestamp: s.chunk.Timestamp}, s.frame.gate)
	}
	s.from = to
}

// look is what the beginning of a frame tells, once there is enough of it: then it is counted, and the rules are asked.
func (h *half) look(data []byte, arrived time.Time) found {
	if h.up {
		return h.request(data, arrived)
	}
	return h.response(data)
}

func (h *half) request(data []byte, arrived time.Time) found {
	header, total, need, ok := parseRequest(data)
	seen := found{total: total, need: need, ok: ok, correlation: header.correlation}
	if !ok || need > 0 {
		return seen
	}
	if total > maxFrame+lengthPrefix {
		h.link.oversized.Add(1)
		return seen
	}
	counts := &h.link.counts[header.api]
	counts.requests.Add(1)
	counts.bytes.Add(int64(total))
	r := request{
		api:           header.api,
		version:       header.version,
		correlation:   header.correlation,
		client:        same(&h.frame.client, header.client),
		transactional: same(&h.frame.transactional, header.transactional),
		arrived:       arrived,
		group:         string(header.group),
		generation:    header.generation,
		producer:      header.producer,
	}
	h.link.ids.saw(&r)
	h.link.starts.sends(&r)
	if rules := allRules.table.Load(); rules != nil && len(rules.requests[r.api]) > 0 && !h.frame.leaked {
		r.interceptions = allRules.intercept(rules.requests[r.api], h.connection.frame(&r, atRequest), r.arrived, h.answerable(&header))
		seen.interceptions = r.interceptions
	}
	if !header.silent {
		h.sent(r)
	}
	return seen
}

// same is the text as a string, which is made only when the text is not the one before.
func same(before *string, text []byte) string {
	if *before != string(text) {
		*before = string(text)
	}
	return *before
}

func (h *half) response(data []byte) found {
	correlation, total, need, ok := parseResponse(data)
	seen := found{total: total, need: need, ok: ok, correlation: correlation}
	if !ok || need > 0 {
		return seen
	}
	r := h.frame.answer
	if !h.frame.paired {
		known := false
		if r, known = h.answers(correlation); !known {
			h.link.rawBytes.Add(int64(total))
			return seen
		}
	}
	code, need, known := errorOf(data, r.api, r.version)
	if need > 0 {
		seen.need, h.frame.paired, h.frame.answer = need, true, r
		return seen
	}
	if total > maxFrame+lengthPrefix {
		h.link.oversized.Add(1)
		return seen
	}
	counts := &h.link.counts[r.api]
	counts.responses.Add(1)
	counts.bytes.Add(int64(total))
	switch {
	case r.api == metadata && total <= maxMetadata, r.api == offsetFetch && total <= maxOffsetFetch:
		h.frame.copied = &copiedAnswer{request: r, arrived: time.Now()}
	case r.api == syncGroup:
		h.joined(&r)
	}
	interceptions := r.interceptions
	if rules := allRules.table.Load(); rules != nil && len(rules.responses[r.api]) > 0 && !h.frame.leaked {
		seen.interceptions = allRules.intercept(rules.responses[r.api], h.connection.frame(&r, atResponse), r.arrived, false)
		interceptions = append(interceptions, seen.interceptions...)
	}
	h.answer(interceptions, code, known)
	return seen
}

// answer is told to the interceptions of the request, and to its half, which may be waiting to close.
func (h *half) answer(interceptions []*interception, code int16, known bool) {
	if len(interceptions) == 0 {
		return
	}
	allRules.answered(interceptions, code, known)
	select {
	case h.answered <- struct{}{}:
	default:
	}
}
