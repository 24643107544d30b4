package kafka

import (
	"encoding/binary"
	"unicode/utf8"
)

const (
	maxFrame     = 100 << 20 // socket.request.max.bytes, the broker's default
	maxVersion   = 63        // far above that of any API; what claims more is not a header
	lengthPrefix = 4
	minRequest   = 8 // api, version, correlation id; only ControlledShutdown 0 has no more
	tlsHandshake = 0x1603
)

// header is the beginning of a request, as far as it is looked into.
type header struct {
	api, version  int16
	correlation   int32
	client        []byte
	transactional []byte
	silent        bool   // a Produce with acks=0: no response will come
	nameless      bool   // a Metadata that names no topics
	group         []byte // of an OffsetFetch, a SyncGroup or a TxnOffsetCommit, where it is at the beginning
	generation    int32  // of a SyncGroup or a TxnOffsetCommit; -1 where that has none
	producer      int64  // of a TxnOffsetCommit
}

// reader walks over the beginning of a frame. What is asked of it beyond the bytes that are there, but within the frame, makes
// it short; what is beyond the frame, or cannot be, makes it bad.
type reader struct {
	data  []byte
	at    int
	total int // the whole frame, its length prefix included
	need  int // how many bytes must be there for another try; 0: enough were
	bad   bool
}

func (r *reader) take(n int) []byte {
	switch {
	case r.bad || r.need > 0:
	case n < 0 || n > r.total-r.at:
		r.bad = true
	case r.at+n > len(r.data):
		r.need = r.at + n
	default:
		r.at += n
		return r.data[r.at-n : r.at]
	}
	return nil
}

func (r *reader) ok() bool { return !r.bad && r.need == 0 }

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// uvarint reads an unsigned varint of at most five bytes.
func (r *reader) uvarint() int {
	value := 0
	for shift := 0; shift < 35; shift += 7 {
		b := r.take(1)
		if b == nil {
			return 0
		}
		value |= int(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return value
		}
	}
	r.bad = true
	return 0
}

// nullable reads a string whose length is an int16, -1 for null.
func (r *reader) nullable() []byte {
	n := int(r.int16())
	if n < -1 {
		r.bad = true
	}
	return r.take(max(n, 0))
}

// compact reads a string whose length is a varint, one too high, 0 for null.
func (r *reader) compact() []byte {
	return r.take(max(r.uvarint()-1, 0))
}

func (r *reader) text(flexible bool) []byte {
	if flexible {
		return r.compact()
	}
	return r.nullable()
}

// length is how many elements an array has; null has none.
func (r *reader) length(flexible bool) int {
	if flexible {
		return r.uvarint() - 1
	}
	return int(r.int32())
}

// tags skips the tagged fields of a flexible header.
func (r *reader) tags() {
	for left := r.uvarint(); left > 0 && r.ok(); left-- {
		r.uvarint()
		r.take(r.uvarint())
	}
}

// frameSize is the whole length of the frame that begins with these four bytes, and whether it can be one.
func frameSize(data []byte, least int) (int, bool) {
	size := int(int32(binary.BigEndian.Uint32(data)))
	return size + lengthPrefix, size >= least
}

// parseRequest reads the beginning of a request.
//
// need is how many bytes of the frame it wants to see before it is asked again, 0 when it is done. ok is false when this is not
// Kafka. A body that breaks off or has an odd string leaves the transactional id empty: the header was one, and it is the broker
// who judges bodies.
func parseRequest(data []byte) (parsed header, total, need int, ok bool) {
	if len(data) < lengthPrefix {
		return parsed, 0, lengthPrefix, true
	}
	total, ok = frameSize(data, minRequest)
	if !ok || (total > maxFrame && binary.BigEndian.Uint16(data) == tlsHandshake) {
		return parsed, total, 0, false
	}
	r := reader{data: data, at: lengthPrefix, total: total}
	parsed = readHeader(&r)
	if r.bad {
		return parsed, total, 0, false
	}
	if r.need == 0 {
		readBody(&r, &parsed)
	}
	return parsed, total, r.need, true
}

func readHeader(r *reader) (parsed header) {
	parsed.api, parsed.version = r.int16(), r.int16()
	if parsed.api < 0 || int(parsed.api) >= len(apis) || parsed.version < 0 || parsed.version > maxVersion {
		r.bad = true
		return parsed
	}
	parsed.correlation = r.int32()
	if parsed.api == controlledShutdown && parsed.version == 0 {
		return parsed
	}
	parsed.client = r.nullable()
	if !utf8.Valid(parsed.client) {
		r.bad = true
	}
	if isFlexible(parsed.api, parsed.version) {
		r.tags()
	}
	return parsed
}

func readBody(r *reader, parsed *header) {
	flexible := isFlexible(parsed.api, parsed.version)
	switch parsed.api {
	case produce:
		if parsed.version >= 3 {
			parsed.transactional = r.text(flexible)
		}
		parsed.silent = r.int16() == 0 && r.ok()
	case initProducerID, addOffsetsToTxn, endTxn:
		parsed.transactional = r.text(flexible)
	case txnOffsetCommit:
		parsed.transactional = r.text(flexible)
		readSender(r, parsed, flexible)
	case addPartitionsToTxn:
		if parsed.version >= 4 && r.uvarint() < 2 { // brokers batch: an array of transactions, its length one too high
			return
		}
		parsed.transactional = r.text(flexible)
	case offsetFetch:
		if parsed.version < groupsInAnswer {
			parsed.group = r.text(flexible)
		}
	case syncGroup:
		parsed.group, parsed.generation = r.text(flexible), r.int32()
	case metadata:
		parsed.nameless = !namesTopics(r, flexible)
	case findCoordinator:
		parsed.transactional = coordinatorKey(r, parsed.version, flexible)
	}
	if r.bad || !utf8.Valid(parsed.transactional) {
		parsed.transactional = nil
	}
}

// readSender reads who sends the positions of a TxnOffsetCommit. What breaks off there is taken for one that has a generation.
func readSender(r *reader, parsed *header, flexible bool) {
	rest := *r
	parsed.group, parsed.producer = rest.text(flexible), rest.int64()
	rest.int16() // the epoch
	if parsed.generation = -1; parsed.version >= 3 {
		parsed.generation = rest.int32()
	}
	if rest.bad {
		parsed.generation = 0
	}
	r.need = rest.need
}

// namesTopics is whether the array of a Metadata has elements; null is all topics, and so was an empty array in version 0.
func namesTopics(r *reader, flexible bool) bool {
	if flexible {
		return r.uvarint() > 1
	}
	return r.int32() > 0
}

// coordinatorKey is the key that a FindCoordinator asks for, if it is a transactional id; the first of them from version 4 on.
func coordinatorKey(r *reader, version int16, flexible bool) []byte {
	const ofTransactions = 1
	if version == 0 {
		return nil
	}
	var key []byte
	if version < 4 {
		key = r.text(flexible)
	}
	if r.int8() != ofTransactions {
		return nil
	}
	if version >= 4 && r.uvarint() >= 2 {
		key = r.compact()
	}
	return key
}

// parseResponse reads the correlation id of a response; see parseRequest.
func parseResponse(data []byte) (correlation int32, total, need int, ok bool) {
	if len(data) < lengthPrefix {
		return 0, 0, lengthPrefix, true
	}
	total, ok = frameSize(data, 4)
	if !ok {
		return 0, total, 0, false
	}
	r := reader{data: data, at: lengthPrefix, total: total}
	correlation = r.int32()
	return correlation, total, r.need, true
}

// errorOf reads the error code of a response where it stands at its beginning, behind the throttle time.
//
// known is false for other APIs, and for a response that is shorter or whose header has tagged fields.
func errorOf(data []byte, number, version int16) (code int16, need int, known bool) {
	switch number {
	case initProducerID, addOffsetsToTxn, endTxn:
	default:
		return 0, 0, false
	}
	total, _ := frameSize(data, 4)
	r := reader{data: data, at: lengthPrefix + 4, total: total}
	if isFlexible(number, version) {
		r.tags()
	}
	r.int32()
	code = r.int16()
	return code, r.need, r.ok()
}
