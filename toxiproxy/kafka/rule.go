package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// What a rule does to the frame that it stops.
const (
	actionHold   = "hold"   // parked with all that is behind it, until released; it dies with its client
	actionLate   = "late"   // held, but delivered although its sender has gone
	actionAnswer = "answer" // answered with an error code in the broker's place; see answer.go
)

const dayMs = 24 * 60 * 60 * 1000

const (
	atRequest  = "request"
	atResponse = "response"
)

// What is done with the frames that a rule holds.
const (
	releaseNot     = ""
	releaseDeliver = "deliver"
	releaseDrop    = "drop"
	releaseClose   = "close"
)

// ruleSpec is a rule as it is declared. An empty pattern fits anything; without links it is about all of them.
type ruleSpec struct {
	Links           []string  `json:"links"`
	API             apiNumber `json:"api"`
	At              string    `json:"at"`
	Nth             int64     `json:"nth"`
	Times           int64     `json:"times"` // 0: all from the nth on
	ClientID        string    `json:"client_id"`
	TransactionalID string    `json:"transactional_id"`
	Action          string    `json:"action"`
	MaxHoldMs       int64     `json:"max_hold_ms"`
	Release         string    `json:"release"`
	ErrorCode       *int16    `json:"error_code"` // of an answer
}

// shownRule is a rule as it is shown.
type shownRule struct {
	ruleSpec
	Matched int64 `json:"matched"`
}

// rule is a rule in force. What it counts stays when it is changed.
type rule struct {
	id      string
	armed   time.Time
	matched atomic.Int64
	now     atomic.Pointer[version]
}

// version is a rule between two changes. A frame that waits for a release waits for the end of the version.
type version struct {
	ruleSpec
	ended chan struct{}
}

func newRule(id string, spec ruleSpec) *rule {
	r := &rule{id: id, armed: time.Now()}
	r.now.Store(&version{spec, make(chan struct{})})
	return r
}

func (r *rule) change(spec ruleSpec) {
	old := r.now.Swap(&version{spec, make(chan struct{})})
	close(old.ended)
}

// hits counts a frame that the rule is about, and is whether it is the rule's turn. A response counts when its request came after
// the arming, so that "the response to the nth request" is what it says; a rule for all of them has no first one.
func (r *rule) hits(spec *ruleSpec, link, client, transactional string, sent time.Time) (n int64, hit bool) {
	if !spec.about(link, client, transactional) || (sent.Before(r.armed) && !spec.all()) {
		return 0, false
	}
	n = r.matched.Add(1)
	due := n >= spec.Nth && (spec.Times == 0 || n-spec.Nth < spec.Times)
	return n, due && spec.Release == releaseNot
}

func (s *ruleSpec) all() bool {
	return s.Nth == 1 && s.Times == 0
}

func (s *ruleSpec) about(link, client, transactional string) bool {
	return (s.Links == nil || slices.Contains(s.Links, link)) && like(s.ClientID, client) && like(s.TransactionalID, transactional)
}

func like(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	matched, _ := path.Match(pattern, text) // the pattern was tried when the rule was armed
	return matched
}

// patched is what a merge patch (RFC 7396) makes of a rule; old is nil for a new one.
func patched(old *ruleSpec, patch json.RawMessage) (ruleSpec, error) {
	fields, err := fieldsOf(old)
	if err != nil {
		return ruleSpec{}, err
	}
	changes := make(map[string]json.RawMessage)
	if err := json.Unmarshal(patch, &changes); err != nil {
		return ruleSpec{}, errors.New(": a rule is an object, or null")
	}
	for field, value := range changes {
		if isNull(value) {
			delete(fields, field)
		} else {
			fields[field] = value
		}
	}
	return specOf(fields)
}

func isNull(value json.RawMessage) bool {
	return bytes.Equal(bytes.TrimSpace(value), []byte("null"))
}

func fieldsOf(old *ruleSpec) (map[string]json.RawMessage, error) {
	fields := make(map[string]json.RawMessage)
	if old == nil {
		return fields, nil
	}
	data, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	return fields, json.Unmarshal(data, &fields)
}

// specOf reads a rule's fields; those that are not there have their defaults.
func specOf(fields map[string]json.RawMessage) (ruleSpec, error) {
	spec := ruleSpec{API: -1, At: atRequest, Nth: 1, Times: 1, MaxHoldMs: 60000}
	var matched int64 // is shown, and not set
	places := map[string]any{
		"links": &spec.Links, "api": &spec.API, "at": &spec.At, "nth": &spec.Nth, "times": &spec.Times,
		"client_id": &spec.ClientID, "transactional_id": &spec.TransactionalID, "action": &spec.Action,
		"max_hold_ms": &spec.MaxHoldMs, "release": &spec.Release, "error_code": &spec.ErrorCode,
		"matched": &matched,
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		place, known := places[field]
		if !known {
			return ruleSpec{}, fmt.Errorf(".%s: a rule has no such field", field)
		}
		if err := json.Unmarshal(fields[field], place); err != nil {
			return ruleSpec{}, fmt.Errorf(".%s: %w", field, err)
		}
	}
	return spec, spec.check()
}

// check says what is wrong, beginning with the field.
func (s *ruleSpec) check() error {
	answers := s.Action == actionAnswer
	wrongs := []struct {
		field, what string
		wrong       bool
	}{
		{"api", "is missing", s.API < 0},
		{"links", "is empty; leave it out for all links", s.Links != nil && len(s.Links) == 0},
		{"at", "is request or response", !slices.Contains([]string{atRequest, atResponse}, s.At)},
		{"nth", "is 1 or more", s.Nth < 1},
		{"times", "is 0 or more; 0 is all", s.Times < 0},
		{"action", "is hold, late or answer", !slices.Contains([]string{actionHold, actionLate, actionAnswer}, s.Action)},
		{"max_hold_ms", "is 1 to 86400000", s.MaxHoldMs < 1 || s.MaxHoldMs > dayMs},
		{"release", `is "", deliver, drop or close`, !slices.Contains([]string{releaseNot, releaseDeliver, releaseDrop, releaseClose}, s.Release)},
		{"api", "has no answer; the action answer is for " + answerableNames(), answers && answerers[s.API] == nil},
		{"at", "is request for the action answer: the broker never sees what is answered", answers && s.At != atRequest},
		{"release", "is for frames that are held, not for the action answer", answers && s.Release != releaseNot},
		{"error_code", "is missing; the action answer needs one", answers && s.ErrorCode == nil},
		{"error_code", "is for the action answer only", !answers && s.ErrorCode != nil},
		{"error_code", "is -1, or 1 or more; 0 would be success", s.ErrorCode != nil && (*s.ErrorCode == 0 || *s.ErrorCode < -1)},
		{"client_id", "is not a pattern of path.Match", !isPattern(s.ClientID)},
		{"transactional_id", "is not a pattern of path.Match", !isPattern(s.TransactionalID)},
	}
	for _, w := range wrongs {
		if w.wrong {
			return fmt.Errorf(".%s: %s", w.field, w.what)
		}
	}
	return nil
}

// answerableNames are the APIs that can be answered, in the order of their numbers.
func answerableNames() string {
	var names []string
	for _, number := range slices.Sorted(maps.Keys(answerers)) {
		names = append(names, apis[number].name)
	}
	return strings.Join(names, ", ")
}

func isPattern(text string) bool {
	_, err := path.Match(text, "")
	return err == nil
}
