package kafka

import (
	"sync"
	"sync/atomic"
)

// link is what the two toxics of a link share: its counters, the connection whose second half is about to be made, and the last
// answer of a broker to a Metadata request, the transactional ids, and where its readers began.
type link struct {
	name        string
	isRaw       bool // something else than Kafka is spoken on it
	counts      [len(apis)]apiCounts
	raw         atomic.Int64 // connections that do not talk Kafka
	rawBytes    atomic.Int64
	oversized   atomic.Int64
	connections atomic.Int64
	metadata    atomic.Pointer[copiedAnswer]
	ids         transactionalIDs
	starts      starts

	mu      sync.Mutex
	opening *connection
}

// apiCounts are the counters of one API on one link.
type apiCounts struct {
	requests, responses, bytes atomic.Int64
}

// shownCounts is what the toxic shows of one API: the bytes are those of both directions.
type shownCounts struct {
	Requests  int64 `json:"requests"`
	Responses int64 `json:"responses"`
	Bytes     int64 `json:"bytes"`
}

// shownUnparsed is what did not talk Kafka.
type shownUnparsed struct {
	Connections int64 `json:"connections"`
	Bytes       int64 `json:"bytes"`
}

func (l *link) read() map[string]shownCounts {
	read := make(map[string]shownCounts)
	for number := range l.counts {
		c := &l.counts[number]
		counts := shownCounts{Responses: c.responses.Load(), Requests: c.requests.Load(), Bytes: c.bytes.Load()}
		if counts.Requests > 0 {
			read[apis[number].name] = counts
		}
	}
	return read
}
