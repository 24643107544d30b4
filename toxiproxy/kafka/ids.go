package kafka

import (
	"slices"
	"sync"
	"time"
)

const maxIDs = 256 // of one link; some clients take a new transactional id for every transaction

// transactionalIDs are those that the requests of a link have named, the one that was named last at the end.
type transactionalIDs struct {
	mu   sync.Mutex
	seen []shownID
}

// shownID is a transactional id, and when a request last named it.
type shownID struct {
	ID     string `json:"id"`
	SeenNS int64  `json:"seen_ns"`
}

// saw remembers the id of a request that begins, extends or ends a transaction. A Produce names it too, and comes after these.
func (t *transactionalIDs) saw(r *request) {
	if r.transactional == "" || !slices.Contains(naming, r.api) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = slices.DeleteFunc(t.seen, func(one shownID) bool { return one.ID == r.transactional })
	if len(t.seen) == maxIDs {
		t.seen = slices.Delete(t.seen, 0, 1)
	}
	t.seen = append(t.seen, shownID{r.transactional, time.Now().UnixNano()})
}

func (t *transactionalIDs) read() []shownID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]shownID{}, t.seen...) // never null
}

var naming = []int16{initProducerID, addPartitionsToTxn, addOffsetsToTxn, endTxn}
