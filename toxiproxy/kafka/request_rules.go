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

const interceptionsKept = 1000

// requestRules has the rules and the interceptions of all links: a rule may count over many of them. There is one in the process.
//
// Links look rules up without a lock. The lock is for changes, interceptions and reading back, none of which is frequent.
type requestRules struct {
	table atomic.Pointer[table] // nil when there are no rules

	mu            sync.Mutex
	rules         map[string]*rule
	interceptions []*interception
	forgotten     int64
}

// table is a copy of the rules, in the order of their names, by the messages that they are about.
type table struct {
	requests, responses [len(apis)][]*rule
}

// shownInterception is one frame that a rule has stopped. Times are in Unix nanoseconds, 0 for what has not happened.
type shownInterception struct {
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
	InterceptedNs   int64  `json:"intercepted_ns"`
	ReleasedNs      int64  `json:"released_ns"` // when the outcome was settled, whichever it is
	Outcome         string `json:"outcome"`
	ClientGoneNs    int64  `json:"client_gone_ns"` // while the frame was held
	AnsweredNs      int64  `json:"answered_ns"`    // when the answer entered the link, the broker's or the proxy's
	ErrorCode       *int16 `json:"error_code"`     // of that answer
}

// The outcome of an interception: what became of the frame.
const (
	outcomeHeld       = "held" // not settled yet
	outcomeDelivered  = "delivered"
	outcomeDropped    = "dropped"
	outcomeClosed     = "closed"
	outcomeClientGone = "client gone"
	outcomeMaxHold    = "max_hold" // delivered, because it was held for max_hold_ms

	outcomeAnswered     = "answered"     // by the proxy, in the broker's place
	outcomeUnanswerable = "unanswerable" // delivered, because no answer could be made to what it says
)

// interception is one that goes on; `shown` is changed under the lock of requestRules only.
type interception struct {
	rule   *rule
	action string
	code   int16 // of an answer
	since  time.Time
	shown  shownInterception
}

var allRules = newRequestRules()

func newRequestRules() *requestRules {
	return &requestRules{rules: make(map[string]*rule)}
}

// patch changes the rules as a merge patch says, all of them or none. What a removed rule holds is delivered.
func (a *requestRules) patch(patch json.RawMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	changes := make(map[string]json.RawMessage)
	if isNull(patch) {
		for id := range a.rules {
			changes[id] = patch
		}
	} else if json.Unmarshal(patch, &changes) != nil {
		return errors.New("rules: is an object of rules by their names, or null")
	}
	specs := make(map[string]ruleSpec)
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		if isNull(changes[id]) {
			continue
		}
		spec, err := patched(a.spec(id), changes[id])
		if err != nil {
			return fmt.Errorf("rules.%s%w", id, err)
		}
		specs[id] = spec
	}
	a.apply(changes, specs)
	return nil
}

func (a *requestRules) spec(id string) *ruleSpec {
	if r := a.rules[id]; r != nil {
		return &r.now.Load().ruleSpec
	}
	return nil
}

func (a *requestRules) apply(changes map[string]json.RawMessage, specs map[string]ruleSpec) {
	for id := range changes {
		spec, stays := specs[id]
		old := a.rules[id]
		switch {
		case !stays:
			delete(a.rules, id)
		case old == nil:
			a.rules[id] = newRule(id, spec)
		}
		if old == nil {
			continue
		}
		if !stays {
			spec = old.now.Load().ruleSpec
			if spec.Release == releaseNot { // what was to be dropped or closed still is
				spec.Release = releaseDeliver
			}
		}
		old.change(spec)
	}
	a.index()
}

// index makes the table anew.
func (a *requestRules) index() {
	if len(a.rules) == 0 {
		a.table.Store(nil)
		return
	}
	made := new(table)
	for _, id := range slices.Sorted(maps.Keys(a.rules)) {
		r := a.rules[id]
		spec := r.now.Load()
		of := &made.requests[spec.API]
		if spec.At == atResponse {
			of = &made.responses[spec.API]
		}
		*of = append(*of, r)
	}
	a.table.Store(made)
}

// intercept asks rules about a frame. The interceptions are in the order of their rules. sent is when the request came; answerable
// is whether rules count it that answer.
func (a *requestRules) intercept(rules []*rule, frame shownInterception, sent time.Time, answerable bool) (interceptions []*interception) {
	for _, r := range rules {
		spec := r.now.Load()
		if spec.Action == actionAnswer && !answerable {
			continue
		}
		n, hit := r.hits(&spec.ruleSpec, frame.Link, frame.ClientID, frame.TransactionalID, sent)
		if !hit {
			continue
		}
		i := &interception{rule: r, action: spec.Action, since: time.Now(), shown: frame}
		if spec.ErrorCode != nil {
			i.code = *spec.ErrorCode
		}
		i.shown.Rule, i.shown.N, i.shown.Action = r.id, n, i.action
		i.shown.InterceptedNs, i.shown.Outcome = i.since.UnixNano(), outcomeHeld
		interceptions = append(interceptions, i)
		a.keep(i)
	}
	return interceptions
}

func (a *requestRules) keep(i *interception) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.interceptions) == interceptionsKept {
		a.interceptions = append(a.interceptions[:0], a.interceptions[1:]...)
		a.forgotten++
	}
	a.interceptions = append(a.interceptions, i)
}

// settle records what became of the frame.
func (a *requestRules) settle(i *interception, outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i.shown.Outcome, i.shown.ReleasedNs = outcome, time.Now().UnixNano()
	if outcome == outcomeClientGone && i.shown.ClientGoneNs == 0 {
		i.shown.ClientGoneNs = i.shown.ReleasedNs
	}
}

func (a *requestRules) clientGone(i *interception) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i.shown.ClientGoneNs = time.Now().UnixNano()
}

func (a *requestRules) answered(interceptions []*interception, code int16, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range interceptions {
		i.shown.AnsweredNs = time.Now().UnixNano()
		if known {
			i.shown.ErrorCode = &code
		}
	}
}

// read is a copy of the rules and the interceptions.
func (a *requestRules) read() (rules map[string]shownRule, interceptions []shownInterception, forgotten int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rules = make(map[string]shownRule, len(a.rules))
	for id, r := range a.rules {
		rules[id] = shownRule{r.now.Load().ruleSpec, r.matched.Load()}
	}
	interceptions = make([]shownInterception, len(a.interceptions))
	for n, i := range a.interceptions {
		interceptions[n] = i.shown
	}
	return rules, interceptions, a.forgotten
}
