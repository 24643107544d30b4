package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const tripsKept = 1000

// book has the rules and the trips of all links: a rule may count over many of them. There is one in the process.
//
// Links look rules up without a lock. The lock is for changes, trips and reading back, none of which is frequent.
type book struct {
	table atomic.Pointer[table] // nil when there are no rules

	mu        sync.Mutex
	rules     map[string]*rule
	trips     []*trip
	forgotten int64
}

// table is a copy of the rules, in the order of their names, by what they are about.
type table struct {
	requests, responses [len(apis)][]*rule
}

// Trip is one frame that a rule hit. Times are in Unix nanoseconds, 0 for what has not happened.
type Trip struct {
	Rule            string `json:"rule"`
	N               int64  `json:"n"`
	Link            string `json:"link"`
	Connection      int64  `json:"connection"`
	API             string `json:"api"`
	Version         int16  `json:"version"`
	CorrelationID   int32  `json:"correlation_id"`
	ClientID        string `json:"client_id"`
	TransactionalID string `json:"transactional_id"`
	At              string `json:"at"`
	Action          string `json:"action"`
	TrippedNs       int64  `json:"tripped_ns"`
	ReleasedNs      int64  `json:"released_ns"` // when the outcome was settled, whichever
	Outcome         string `json:"outcome"`
	ClientGoneNs    int64  `json:"client_gone_ns"` // while the frame was held
	AnsweredNs      int64  `json:"answered_ns"`    // when the broker's answer entered the link
	ErrorCode       *int16 `json:"error_code"`     // of that answer
}

// What became of a frame.
const (
	outcomeHeld       = "held" // not settled yet
	outcomeDelivered  = "delivered"
	outcomeDropped    = "dropped"
	outcomeClosed     = "closed"
	outcomeClientGone = "client gone"
	outcomeMaxHold    = "max_hold" // delivered, because it was held for so long
)

// trip is a Trip that goes on; shown is the book's to change.
type trip struct {
	rule    *rule
	action  string
	tripped time.Time
	shown   Trip
}

var theBook = newBook()

func newBook() *book {
	return &book{rules: make(map[string]*rule)}
}

// patch changes the rules as a merge patch says, all of them or none. What a removed rule holds is delivered.
func (b *book) patch(patch json.RawMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := make(map[string]json.RawMessage)
	if isNull(patch) {
		for id := range b.rules {
			changes[id] = patch
		}
	} else if json.Unmarshal(patch, &changes) != nil {
		return errors.New("rules: is an object of rules by their names, or null")
	}
	specs := make(map[string]Spec)
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		if isNull(changes[id]) {
			continue
		}
		spec, err := patched(b.spec(id), changes[id])
		if err != nil {
			return fmt.Errorf("rules.%s%w", id, err)
		}
		specs[id] = spec
	}
	b.apply(changes, specs)
	return nil
}

func (b *book) spec(id string) *Spec {
	if r := b.rules[id]; r != nil {
		return &r.now.Load().Spec
	}
	return nil
}

func (b *book) apply(changes map[string]json.RawMessage, specs map[string]Spec) {
	for id := range changes {
		spec, stays := specs[id]
		old := b.rules[id]
		switch {
		case !stays:
			delete(b.rules, id)
		case old == nil:
			b.rules[id] = newRule(id, spec)
		}
		if old == nil {
			continue
		}
		if !stays {
			spec = old.now.Load().Spec
			if spec.Release == releaseNot { // what was to be dropped or closed still is
				spec.Release = releaseDeliver
			}
		}
		old.change(spec)
	}
	b.index()
}

// index makes the table anew.
func (b *book) index() {
	if len(b.rules) == 0 {
		b.table.Store(nil)
		return
	}
	made := new(table)
	for _, id := range slices.Sorted(maps.Keys(b.rules)) {
		r := b.rules[id]
		spec := r.now.Load()
		of := &made.requests[spec.API]
		if spec.At == atResponse {
			of = &made.responses[spec.API]
		}
		*of = append(*of, r)
	}
	b.table.Store(made)
}

// tripped is what the rules that are asked say to a frame: the trips that make it wait or end, in the order of their rules.
// The others are recorded and done with. sent is when the request came.
func (b *book) tripped(rules []*rule, frame Trip, sent time.Time) (acting, all []*trip) {
	for _, r := range rules {
		n, action := r.hits(frame.Link, frame.ClientID, frame.TransactionalID, sent)
		if action == "" {
			continue
		}
		t := &trip{rule: r, action: action, tripped: time.Now(), shown: frame}
		t.shown.Rule, t.shown.N, t.shown.Action, t.shown.TrippedNs = r.id, n, t.action, t.tripped.UnixNano()
		t.shown.Outcome = outcomeHeld
		if t.action == actionCount {
			t.shown.Outcome, t.shown.ReleasedNs = outcomeDelivered, t.shown.TrippedNs
		} else {
			acting = append(acting, t)
		}
		all = append(all, t)
		b.keep(t)
	}
	return acting, all
}

func (b *book) keep(t *trip) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.trips) == tripsKept {
		b.trips = append(b.trips[:0], b.trips[1:]...)
		b.forgotten++
	}
	b.trips = append(b.trips, t)
}

// settle says what became of the frame.
func (b *book) settle(t *trip, outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.shown.Outcome, t.shown.ReleasedNs = outcome, time.Now().UnixNano()
	if outcome == outcomeClientGone && t.shown.ClientGoneNs == 0 {
		t.shown.ClientGoneNs = t.shown.ReleasedNs
	}
}

func (b *book) clientGone(t *trip) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.shown.ClientGoneNs = time.Now().UnixNano()
}

func (b *book) answered(trips []*trip, code int16, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range trips {
		t.shown.AnsweredNs = time.Now().UnixNano()
		if known {
			t.shown.ErrorCode = &code
		}
	}
}

// read is a copy of the book.
func (b *book) read() (rules map[string]Rule, trips []Trip, forgotten int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rules = make(map[string]Rule, len(b.rules))
	for id, r := range b.rules {
		rules[id] = Rule{r.now.Load().Spec, r.matched.Load()}
	}
	trips = make([]Trip, len(b.trips))
	for i, t := range b.trips {
		trips[i] = t.shown
	}
	return rules, trips, b.forgotten
}
