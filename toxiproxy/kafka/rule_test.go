package kafka

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A rule counts over all its links together, from its arming, and not what passes on other links.
func TestCountsOverLinks(t *testing.T) {
	bed := newFixture(t, "one", "two", "three")
	one, two, three := bed.dial("one"), bed.dial("two"), bed.dial("three")
	one.send(t, endTxnFrame(0, "a", "t")) // before the arming
	one.answer(t)
	bed.arm("c", `{"links": ["one", "two"], "api": "EndTxn", "nth": 3, "times": 2, "action": "hold", "max_hold_ms": 1}`)
	for i, c := range []*client{one, three, two, three, one, two, one} {
		c.send(t, endTxnFrame(int32(i), "a", "t"))
		c.answer(t)
	}
	interceptions := bed.read("three").Interceptions
	if len(interceptions) != 2 || interceptions[0].N != 3 || interceptions[0].Link != "one" || interceptions[1].N != 4 || interceptions[1].Link != "two" {
		t.Errorf("got %+v", interceptions)
	}
	if got := bed.read("one").Rules["c"].Matched; got != 5 {
		t.Errorf("%d matched", got)
	}
	if got := bed.read("three").Counts["EndTxn"].Requests; got != 2 {
		t.Errorf("%d requests on the third link", got)
	}
}

// Patterns choose among clients and transactions.
func TestPatternsChoose(t *testing.T) {
	bed := newFixture(t, "ids")
	bed.arm("c", `{"api": "EndTxn", "times": 0, "client_id": "spark-*", "transactional_id": "sq[ua]*", "action": "hold", "max_hold_ms": 1}`)
	c := bed.dial("ids")
	for i, ids := range [][2]string{{"spark-1", "square"}, {"loader", "square"}, {"spark-2", "other"}, {"spark-3", "sq"}, {"spark-4", "squ"}} {
		c.send(t, endTxnFrame(int32(i), ids[0], ids[1]))
		c.answer(t)
	}
	var ids []int32
	for _, hit := range bed.read("ids").Interceptions {
		ids = append(ids, hit.CorrelationID)
	}
	if !slices.Equal(ids, []int32{0, 4}) {
		t.Errorf("stopped %v", ids)
	}
}

// Two rules on one frame act one after the other, in the order of their names.
func TestRulesActInTurn(t *testing.T) {
	bed := newFixture(t, "turn")
	bed.arm("a", `{"api": "EndTxn", "action": "hold"}`)
	bed.arm("b", `{"api": "EndTxn", "action": "hold"}`)
	c := bed.dial("turn")
	c.send(t, endTxnFrame(1, "a", "t"))
	bed.interception(2, "held")
	c.isSilent(t)
	bed.arm("a", `{"release": "deliver"}`)
	bed.interception(1, "delivered")
	c.isSilent(t)
	bed.arm("b", `{"release": "close"}`)
	c.ends(t)
	bed.interception(1, "delivered")
	bed.interception(2, "closed")
}

// A wrong rule is refused with 400 and the name of its field, and none of the rules with it is armed.
func TestRefusesWrongRules(t *testing.T) {
	bed := newFixture(t, "wrong")
	bed.arm("old", `{"api": "EndTxn", "action": "hold", "nth": 7}`)
	for rule, field := range map[string]string{
		`{"action": "hold"}`:                                                 "rules.r.api: ",
		`{"api": "Comit", "action": "hold"}`:                                 "rules.r.api: ",
		`{"api": 2000, "action": "hold"}`:                                    "rules.r.api: ",
		`{"api": -1, "action": "hold"}`:                                      "rules.r.api: ",
		`{"api": "EndTxn"}`:                                                  "rules.r.action: ",
		`{"api": "EndTxn", "action": "explode"}`:                             "rules.r.action: ",
		`{"api": "EndTxn", "action": "hold", "nth": 0}`:                      "rules.r.nth: ",
		`{"api": "EndTxn", "action": "hold", "nth": "1"}`:                    "rules.r.nth: ",
		`{"api": "EndTxn", "action": "hold", "times": -1}`:                   "rules.r.times: ",
		`{"api": "EndTxn", "action": "hold", "at": "both"}`:                  "rules.r.at: ",
		`{"api": "EndTxn", "action": "hold", "links": []}`:                   "rules.r.links: ",
		`{"api": "EndTxn", "action": "hold", "links": "a"}`:                  "rules.r.links: ",
		`{"api": "EndTxn", "action": "count"}`:                               "rules.r.action: ",
		`{"api": "EndTxn", "action": "drop"}`:                                "rules.r.action: ",
		`{"api": "EndTxn", "action": "close"}`:                               "rules.r.action: ",
		`{"api": "EndTxn", "action": "delay"}`:                               "rules.r.action: ",
		`{"api": "EndTxn", "action": "hold", "delay_ms": 5}`:                 "rules.r.delay_ms: ",
		`{"api": "EndTxn", "action": "hold", "max_hold_ms": 0}`:              "rules.r.max_hold_ms: ",
		`{"api": "EndTxn", "action": "hold", "release": "now"}`:              "rules.r.release: ",
		`{"api": "EndTxn", "action": "hold", "client_id": "["}`:              "rules.r.client_id: ",
		`{"api": "EndTxn", "action": "hold", "transactional_id": "[a"}`:      "rules.r.transactional_id: ",
		`{"api": "EndTxn", "action": "hold", "transactionalid": "misspelt"}`: "rules.r.transactionalid: ",
		`"hold"`: "rules.r: ",
	} {
		status, answer := bed.post("wrong", fmt.Sprintf(`{"rules": {"a": {"api": "EndTxn", "action": "hold"}, "r": %s, "old": null}}`, rule))
		if status != http.StatusBadRequest || !strings.Contains(answer, field) {
			t.Errorf("%s: %d %s", rule, status, answer)
		}
	}
	for _, attributes := range []string{`{"rule": {}}`, `{"link": "other"}`, `{"rules": []}`} {
		if status, answer := bed.post("wrong", attributes); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", attributes, status, answer)
		}
	}
	if rules := bed.read("wrong").Rules; len(rules) != 1 || rules["old"].Nth != 7 {
		t.Errorf("got %+v", rules)
	}
}

// A partial rule changes what it names, null sets a field to its default, and what was counted stays.
func TestMergesRules(t *testing.T) {
	bed := newFixture(t, "merge")
	bed.arm("r", `{"api": "EndTxn", "action": "hold", "max_hold_ms": 1, "nth": 2, "links": ["merge"], "client_id": "a"}`)
	c := bed.dial("merge")
	c.send(t, endTxnFrame(1, "a", "t"))
	c.answer(t)
	bed.arm("r", `{"client_id": null, "links": null, "times": 0}`)
	got := bed.read("merge").Rules["r"]
	want := shownRule{ruleSpec{API: endTxn, At: "request", Nth: 2, Times: 0, Action: "hold", MaxHoldMs: 1}, 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.send(t, endTxnFrame(2, "b", "t"))
	c.answer(t)
	if hit := bed.interception(1, "max_hold"); hit.CorrelationID != 2 || hit.N != 2 {
		t.Errorf("got %+v", hit)
	}
	if status, answer := bed.post("merge", `{"rules": null}`); status != http.StatusOK || len(bed.read("merge").Rules) != 0 {
		t.Errorf("%d %s", status, answer)
	}
}

// The oldest interceptions are forgotten, and counted.
func TestForgetsOldTrips(t *testing.T) {
	bed := newFixture(t, "forget")
	bed.arm("c", `{"api": "EndTxn", "times": 0, "action": "hold", "max_hold_ms": 1}`)
	c := bed.dial("forget")
	for i := range int32(interceptionsKept + 5) {
		c.send(t, endTxnFrame(i, "a", "t"))
		c.answer(t)
	}
	if got := bed.read("forget"); len(got.Interceptions) != interceptionsKept || got.Forgotten != 5 || got.Interceptions[0].N != 6 {
		t.Errorf("%d interceptions, %d forgotten", len(got.Interceptions), got.Forgotten)
	}
}
