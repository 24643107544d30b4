package kafka

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

// A held request does not reach the broker, and all that its client sent after it waits behind it; other connections go on.
func TestHoldsARequestUntilReleased(t *testing.T) {
	for _, release := range []string{"deliver", "drop", "close"} {
		t.Run(release, func(t *testing.T) {
			bed := newFixture(t, "held")
			bed.arm("h", `{"api": "EndTxn", "action": "hold"}`)
			c, other := bed.dial("held"), bed.dial("held")
			c.send(t, transactionalFrame(addOffsetsToTxn, 3, 1, "a", "t"), endTxnFrame(2, "a", "t"), produceFrame(3, 1, 100))
			if got := c.answer(t); got != 1 {
				t.Errorf("%d was answered first", got)
			}
			bed.interception(1, "held")
			c.isSilent(t)
			other.send(t, endTxnFrame(9, "b", "t"))
			if got := other.answer(t); got != 9 {
				t.Errorf("%d was answered on the other connection", got)
			}
			bed.arm("h", fmt.Sprintf(`{"release": %q}`, release))
			switch release {
			case "deliver":
				if first, second := c.answer(t), c.answer(t); first != 2 || second != 3 {
					t.Errorf("%d and %d were answered", first, second)
				}
				bed.interception(1, "delivered")
			case "drop":
				if got := c.answer(t); got != 3 {
					t.Errorf("%d was answered", got)
				}
				bed.interception(1, "dropped")
			case "close":
				c.ends(t)
				bed.interception(1, "closed")
			}
		})
	}
}

// A held response does not reach the client either, though the broker has done what was asked.
func TestHoldsAResponseUntilReleased(t *testing.T) {
	for _, release := range []string{"deliver", "drop", "close"} {
		t.Run(release, func(t *testing.T) {
			bed := newFixture(t, "held")
			bed.arm("h", `{"api": "EndTxn", "at": "response", "action": "hold"}`)
			c := bed.dial("held")
			c.send(t, endTxnFrame(2, "a", "t"), produceFrame(3, 1, 100))
			hit := bed.interception(1, "held")
			if hit.ErrorCode == nil || hit.AnsweredNs == 0 || hit.TransactionalID != "t" || hit.ClientID != "a" {
				t.Errorf("got %+v", hit)
			}
			c.isSilent(t)
			testbed.Eventually(t, "the broker to have both", func() bool { return len(bed.brokers["held"].frames()) == 2 })
			bed.arm("h", fmt.Sprintf(`{"release": %q}`, release))
			switch release {
			case "deliver":
				if first, second := c.answer(t), c.answer(t); first != 2 || second != 3 {
					t.Errorf("%d and %d were answered", first, second)
				}
			case "drop":
				if got := c.answer(t); got != 3 {
					t.Errorf("%d was answered", got)
				}
			case "close":
				c.ends(t)
				testbed.Eventually(t, "the broker's side to end", func() bool { return bed.brokers["held"].hasEnded() == 1 })
			}
		})
	}
}

// The response to the nth request: an answer to what was sent before the rule was armed is none of them.
func TestAResponseCountsWithItsRequest(t *testing.T) {
	bed := newFixture(t, "held")
	bed.arm("before", `{"api": "EndTxn", "action": "hold"}`)
	c := bed.dial("held")
	c.send(t, endTxnFrame(1, "a", "t"))
	bed.interception(1, "held")
	bed.arm("first", `{"api": "EndTxn", "at": "response", "action": "hold"}`)
	bed.arm("before", `{"release": "deliver"}`)
	if got := c.answer(t); got != 1 {
		t.Errorf("%d was answered", got)
	}
	c.send(t, endTxnFrame(2, "a", "t"))
	if hit := bed.interception(2, "held"); hit.CorrelationID != 2 || hit.N != 1 {
		t.Errorf("got %+v", hit)
	}
	bed.arm("first", `{"release": "deliver"}`)
	if got := c.answer(t); got != 2 {
		t.Errorf("%d was answered", got)
	}
}

// What is dropped is one frame; what is around it is whole.
func TestDropsOneFrame(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		t.Run(at, func(t *testing.T) {
			bed := newFixture(t, "drop")
			bed.arm("d", fmt.Sprintf(`{"api": 0, "at": %q, "nth": 2, "action": "hold"}`, at))
			c := bed.dial("drop")
			c.send(t, produceFrame(1, 1, 200_000), produceFrame(2, 1, 200_000), produceFrame(3, 1, 10))
			bed.interception(1, "held")
			bed.arm("d", `{"release": "drop"}`)
			if first, second := c.answer(t), c.answer(t); first != 1 || second != 3 {
				t.Errorf("%d and %d were answered", first, second)
			}
			arrived := map[string]int{"request": 2, "response": 3}[at]
			if got := len(bed.brokers["drop"].frames()); got != arrived {
				t.Errorf("%d requests arrived, want %d", got, arrived)
			}
			if hit := bed.interception(1, "dropped"); hit.API != "Produce" || hit.N != 2 || (hit.AnsweredNs != 0) != (at == "response") {
				t.Errorf("got %+v", hit)
			}
		})
	}
}

// The connection ends on both sides, and the frame does not arrive.
func TestClosesTheConnection(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		t.Run(at, func(t *testing.T) {
			bed := newFixture(t, "close")
			bed.arm("c", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold"}`, at))
			c := bed.dial("close")
			c.send(t, endTxnFrame(1, "a", "t"))
			bed.interception(1, "held")
			bed.arm("c", `{"release": "close"}`)
			c.ends(t)
			testbed.Eventually(t, "the broker's side to end", func() bool { return bed.brokers["close"].hasEnded() == 1 })
			arrived := map[string]int{"request": 0, "response": 1}[at]
			if got := len(bed.brokers["close"].frames()); got != arrived {
				t.Errorf("%d requests arrived, want %d", got, arrived)
			}
			bed.interception(1, "closed")
		})
	}
}

// A held request dies with its client, and the interception says when that went.
func TestHeldFrameDiesWithItsClient(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		t.Run(at, func(t *testing.T) {
			bed := newFixture(t, "dies")
			bed.arm("h", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold"}`, at))
			c := bed.dial("dies")
			c.send(t, endTxnFrame(1, "a", "t"))
			bed.interception(1, "held")
			c.Close()
			if hit := bed.interception(1, "client gone"); hit.ClientGoneNs < hit.InterceptedNs || hit.ReleasedNs < hit.InterceptedNs {
				t.Errorf("got %+v", hit)
			}
			testbed.Eventually(t, "the broker's side to end", func() bool { return bed.brokers["dies"].hasEnded() == 1 })
			arrived := map[string]int{"request": 0, "response": 1}[at]
			if got := len(bed.brokers["dies"].frames()); got != arrived {
				t.Errorf("%d requests arrived, want %d", got, arrived)
			}
		})
	}
}

// A late request arrives although its client has gone, with what that sent behind it, and the broker's answer is seen.
func TestDeliversLate(t *testing.T) {
	bed := newFixture(t, "late")
	bed.brokers["late"].code = 90
	bed.arm("l", `{"api": "EndTxn", "action": "late"}`)
	c := bed.dial("late")
	c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 300_000))
	bed.interception(1, "held")
	c.Close()
	testbed.Eventually(t, "the client to be gone", func() bool { return bed.interception(1, "held").ClientGoneNs > 0 })
	if got := bed.brokers["late"].hasEnded(); got != 0 {
		t.Error("the broker's side has ended")
	}
	bed.arm("l", `{"release": "deliver"}`)
	bed.interception(1, "delivered")
	testbed.Eventually(t, "the broker to have both", func() bool { return len(bed.brokers["late"].frames()) == 2 })
	testbed.Eventually(t, "the answer", func() bool { return bed.interception(1, "delivered").AnsweredNs > 0 })
	if hit := bed.interception(1, "delivered"); hit.ErrorCode == nil || *hit.ErrorCode != 90 || hit.AnsweredNs < hit.ReleasedNs {
		t.Errorf("got %+v", hit)
	}
	testbed.Eventually(t, "the broker's side to end", func() bool { return bed.brokers["late"].hasEnded() == 1 })
}

// The answer to a late request is seen, though answers to others come before it, which the dead client cannot take.
func TestLateAnswerIsSeenBehindOthers(t *testing.T) {
	const others = 10
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
	defer listener.Close()
	bed := newFixture(t)
	bed.add(testbed.NewServer(), "behind", listener.Addr().String())
	bed.armDirectly(`{"l": {"api": "EndTxn", "action": "late"}}`)
	c := bed.dialOnly("behind")
	server, err := listener.Accept()
	testbed.Must(t, err)
	defer server.Close()
	for i := range int32(others) {
		c.send(t, produceFrame(i, 1, 10))
		_, err := readFrame(server)
		testbed.Must(t, err)
	}
	c.send(t, endTxnFrame(others, "a", "t"))
	read := func() shownInterception {
		_, interceptions, _ := allRules.read()
		return append(interceptions, shownInterception{})[0]
	}
	testbed.Eventually(t, "the interception", func() bool { return read().Outcome == "held" })
	testbed.Die(t, c.Conn)
	testbed.Eventually(t, "the client to be gone", func() bool { return read().ClientGoneNs > 0 })
	for i := range int32(others) {
		server.Write(response(produce, 9, i, 0))
		time.Sleep(10 * time.Millisecond) // each is a chunk of its own, and the first provokes the reset
	}
	bed.armDirectly(`{"l": {"release": "deliver"}}`)
	server.SetDeadline(time.Now().Add(testbed.Deadline))
	_, err = readFrame(server)
	testbed.Must(t, err)
	server.Write(response(endTxn, 3, others, 90))
	testbed.Eventually(t, "the answer", func() bool { return read().AnsweredNs > 0 })
	if took := time.Duration(read().AnsweredNs - read().ReleasedNs); took > lastWordsTime/2 {
		t.Errorf("it was seen after %v", took)
	}
}

// The broker's death ends what is held for it.
func TestHeldRequestDiesWithItsBroker(t *testing.T) {
	for _, action := range []string{"hold", "late"} {
		t.Run(action, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			testbed.Must(t, err)
			defer listener.Close()
			bed := newFixture(t)
			bed.add(testbed.NewServer(), "dead", listener.Addr().String())
			bed.armDirectly(fmt.Sprintf(`{"h": {"api": "EndTxn", "action": %q}}`, action))
			c := bed.dialOnly("dead")
			c.send(t, endTxnFrame(1, "a", "t"))
			server, err := listener.Accept()
			testbed.Must(t, err)
			testbed.Eventually(t, "the interception", func() bool { _, interceptions, _ := allRules.read(); return len(interceptions) == 1 })
			server.Close()
			c.ends(t)
			testbed.Eventually(t, "the end", func() bool { _, interceptions, _ := allRules.read(); return interceptions[0].Outcome == "closed" })
		})
	}
}

// After max_hold_ms the frame is delivered, and the interception says that it was not released.
func TestHoldsNoLongerThanItMay(t *testing.T) {
	for _, action := range []string{"hold", "late"} {
		bed := newFixture(t, "max")
		bed.arm(action, fmt.Sprintf(`{"api": "EndTxn", "action": %q, "max_hold_ms": 150}`, action))
		c := bed.dial("max")
		c.send(t, endTxnFrame(1, "a", "t"))
		if got := c.answer(t); got != 1 {
			t.Errorf("%d was answered", got)
		}
		if hit := bed.interception(1, "max_hold"); time.Duration(hit.ReleasedNs-hit.InterceptedNs) < 150*time.Millisecond {
			t.Errorf("got %+v", hit)
		}
		testbed.Must(t, allRules.patch(json.RawMessage("null")))
		allRules.interceptions = nil
	}
}

// A hold with times=0 parks every connection, one release frees them all, and what comes later passes.
func TestOneReleaseFreesAll(t *testing.T) {
	bed := newFixture(t, "one", "two")
	bed.arm("all", `{"api": "EndTxn", "times": 0, "action": "hold"}`)
	clients := []*client{bed.dial("one"), bed.dial("two"), bed.dial("two")}
	for _, c := range clients {
		c.send(t, endTxnFrame(1, "a", "t"))
	}
	bed.interception(3, "held")
	bed.arm("all", `{"release": "deliver"}`)
	for _, c := range clients {
		c.answer(t)
		c.send(t, endTxnFrame(2, "a", "t"))
		c.answer(t)
	}
	if got := bed.read("one"); len(got.Interceptions) != 3 || got.Rules["all"].Matched != 6 {
		t.Errorf("%d interceptions, %d matched", len(got.Interceptions), got.Rules["all"].Matched)
	}
}
