package kafka

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// link is what the two toxics of a link share: its counters, and the connection whose second half is about to be made.
type link struct {
	name        string
	counts      [len(apis)]apiCounts
	raw         atomic.Int64 // connections that do not talk Kafka
	rawBytes    atomic.Int64
	oversized   atomic.Int64
	connections atomic.Int64

	mu      sync.Mutex
	opening *connection
}

// apiCounts are the counters of one API on one link.
type apiCounts struct {
	requests, responses, bytes atomic.Int64
	latency                    atomic.Pointer[histogram]
}

// Counts is what is shown of one API: both directions, and how long the answers took.
type Counts struct {
	Requests  int64   `json:"requests"`
	Responses int64   `json:"responses"`
	Bytes     int64   `json:"bytes"`
	Latency   Latency `json:"latency_ms"`
}

// Latency is in milliseconds. The percentiles are right to 3 %.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Unparsed is what did not talk Kafka.
type Unparsed struct {
	Connections int64 `json:"connections"`
	Bytes       int64 `json:"bytes"`
}

func (c *apiCounts) took(latency time.Duration) {
	h := c.latency.Load()
	if h == nil {
		c.latency.CompareAndSwap(nil, new(histogram))
		h = c.latency.Load()
	}
	h.add(latency)
}

func (l *link) read() map[string]Counts {
	read := make(map[string]Counts)
	for number := range l.counts {
		c := &l.counts[number]
		counts := Counts{Responses: c.responses.Load(), Requests: c.requests.Load(), Bytes: c.bytes.Load()}
		if counts.Requests == 0 {
			continue
		}
		if h := c.latency.Load(); h != nil {
			counts.Latency = h.read()
		}
		read[apis[number].name] = counts
	}
	return read
}

const (
	fine    = 5                       // bits: each doubling is divided into 32
	buckets = (40 - fine) * 1 << fine // up to 2^39 µs, six days
)

// histogram counts durations by the microsecond, ever more coarsely.
type histogram struct {
	count, sum, max atomic.Int64 // of microseconds
	buckets         [buckets]atomic.Int64
}

func (h *histogram) add(latency time.Duration) {
	us := max(latency.Microseconds(), 0)
	h.buckets[bucketOf(us)].Add(1)
	h.sum.Add(us)
	for old := h.max.Load(); us > old && !h.max.CompareAndSwap(old, us); old = h.max.Load() {
	}
	h.count.Add(1)
}

// bucketOf has 64 buckets of 1 µs, 32 of 2 µs, 32 of 4 µs …
func bucketOf(us int64) int {
	coarse := max(bits.Len64(uint64(us))-fine-1, 0)
	return min(coarse<<fine+int(us>>coarse), buckets-1)
}

// middleOf is the middle of a bucket, in microseconds.
func middleOf(bucket int) float64 {
	coarse := max(bucket>>fine-1, 0)
	return (float64(bucket-coarse<<fine) + 0.5) * float64(int64(1)<<coarse)
}

func (h *histogram) read() Latency {
	count, sum, top := h.count.Load(), h.sum.Load(), float64(h.max.Load())
	if count == 0 {
		return Latency{}
	}
	const usPerMs = 1000
	return Latency{
		Mean: float64(sum) / float64(count) / usPerMs,
		P50:  min(h.quantile(0.5, count), top) / usPerMs,
		P99:  min(h.quantile(0.99, count), top) / usPerMs,
		Max:  top / usPerMs,
	}
}

func (h *histogram) quantile(q float64, count int64) float64 {
	rank := int64(math.Ceil(q * float64(count)))
	for bucket := range h.buckets {
		if rank -= h.buckets[bucket].Load(); rank <= 0 {
			return middleOf(bucket)
		}
	}
	return math.Inf(1)
}
