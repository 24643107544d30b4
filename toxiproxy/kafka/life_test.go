package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

// Rules can be changed, and toxics added and removed, while frames are held; the API answers and the frames stay held.
func TestIsUpdatedWhileItHolds(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		bed := newFixture(t, "update")
		bed.arm("h", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold"}`, at))
		c := bed.dial("update")
		c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 50_000))
		bed.interception(1, "held")
		for i := range 20 {
			bed.arm("other", fmt.Sprintf(`{"api": "Fetch", "action": "hold", "nth": %d}`, i+1))
			testbed.AddToxic(t, bed.proxies["update"], `{"name":"late","type":"passing","stream":"upstream","attributes":{}}`)
			testbed.Must(t, bed.proxies["update"].Toxics.RemoveToxic(t.Context(), "late"))
			testbed.AddToxic(t, bed.proxies["update"], `{"name":"later","type":"passing","stream":"downstream","attributes":{}}`)
			testbed.Must(t, bed.proxies["update"].Toxics.RemoveToxic(t.Context(), "later"))
		}
		c.isSilent(t)
		bed.arm("h", `{"release": "deliver"}`)
		if first, second := c.answer(t), c.answer(t); first != 1 || second != 2 {
			t.Errorf("%d and %d were answered", first, second)
		}
		testbed.Must(t, allRules.patch(json.RawMessage("null")))
		allRules.interceptions = nil
	}
}

// The rule that holds, or the toxic, is removed: what was held is delivered, and the connection goes on.
func TestIsRemovedWhileItHolds(t *testing.T) {
	for _, removed := range []string{"rule", "upstream", "downstream"} {
		t.Run(removed, func(t *testing.T) {
			bed := newFixture(t, "remove")
			at := map[string]string{"rule": "request", "upstream": "request", "downstream": "response"}[removed]
			bed.arm("h", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold"}`, at))
			c := bed.dial("remove")
			c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 50_000))
			bed.interception(1, "held")
			if removed == "rule" {
				bed.arm("h", "null")
			} else {
				testbed.Must(t, bed.proxies["remove"].Toxics.RemoveToxic(t.Context(), "kafka_"+removed))
			}
			c.send(t, produceFrame(3, 1, 50_000))
			for want := range int32(3) {
				if got := c.answer(t); got != want+1 {
					t.Errorf("%d was answered, want %d", got, want+1)
				}
			}
			if _, interceptions, _ := allRules.read(); interceptions[0].Outcome != "delivered" {
				t.Errorf("got %+v", interceptions[0])
			}
		})
	}
}

// The broker takes nothing, so a chunk is stuck in the toxic: rules change and toxics come and go all the same.
func TestKafkaIsNoObstacleWhenTheReaderIsPaused(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
	defer upstream.Close()
	bed := newFixture(t)
	bed.add(testbed.NewServer(), "paused", upstream.Addr().String())
	c := bed.dialOnly("paused")
	server, err := upstream.Accept()
	testbed.Must(t, err)
	defer server.Close()
	c.send(t, []byte("x"))
	_, err = io.ReadFull(server, make([]byte, 1)) // the toxic runs; see dial
	testbed.Must(t, err)
	sent := testbed.Fill(t, c.Conn)
	changed := make(chan error)
	go func() {
		_, err := bed.proxies["paused"].Toxics.UpdateToxicJson("kafka_upstream", strings.NewReader(`{"attributes": {"rules": {"r": {"api": "EndTxn", "action": "hold"}}}}`))
		testbed.AddToxic(t, bed.proxies["paused"], `{"name":"slow","type":"passing","stream":"upstream","attributes":{}}`)
		changed <- err
	}()
	select {
	case err := <-changed:
		testbed.Must(t, err)
	case <-time.After(testbed.Deadline):
		t.Fatal("the API waits for the broker")
	}
	c.Close()
	server.SetDeadline(time.Now().Add(testbed.Deadline))
	received, err := io.ReadAll(server)
	testbed.Must(t, err)
	if !bytes.Equal(received, sent) {
		t.Errorf("%d bytes arrived of %d, or others", len(received), len(sent))
	}
}

// Clients die while their frames are held and released, and toxics come and go: the API answers every time.
func TestApiAnswersUnderDyingClients(t *testing.T) {
	bed := newFixture(t, "dying")
	for i := range 30 {
		at := []string{"request", "response"}[i%2]
		bed.arm("h", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold", "times": 0}`, at))
		var clients []*client
		for range 4 {
			c := bed.dial("dying")
			c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 100_000))
			clients = append(clients, c)
		}
		dead := make(chan struct{})
		go func() {
			defer close(dead)
			for _, c := range clients {
				testbed.Die(t, c.Conn)
			}
		}()
		bed.arm("h", `{"release": "deliver"}`)
		testbed.AddToxic(t, bed.proxies["dying"], `{"name":"slow","type":"passing","stream":"upstream","attributes":{}}`)
		<-dead
		bed.arm("h", "null")
		testbed.Must(t, bed.proxies["dying"].Toxics.RemoveToxic(t.Context(), "slow"))
	}
}

// Whatever ends a connection, none of its goroutines stays.
func TestKafkaLeavesNothingRunning(t *testing.T) {
	bed := newFixture(t, "leak")
	c := bed.dial("leak")
	c.send(t, endTxnFrame(1, "a", "t"))
	c.answer(t)
	c.Close()
	testbed.Eventually(t, "the first to end", func() bool { return bed.brokers["leak"].hasEnded() == 1 })
	before := runtime.NumGoroutine()
	for _, at := range []string{"request", "response"} {
		for _, way := range [][2]string{{"hold", ""}, {"late", ""}, {"hold", "deliver"}, {"hold", "drop"}, {"late", "drop"}, {"hold", "close"}} {
			bed.armDirectly(fmt.Sprintf(`{"r": {"api": "EndTxn", "at": %q, "action": %q, "times": 0, "max_hold_ms": 300}}`, at, way[0]))
			for n := range 5 {
				c := bed.dial("leak")
				go c.Write(bytes.Join([][]byte{endTxnFrame(1, "a", "t"), produceFrame(2, 1, 1_000_000)}, nil))
				c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				c.Read(make([]byte, 1))
				if n == 4 {
					bed.armDirectly(fmt.Sprintf(`{"r": {"release": %q}}`, way[1]))
				}
				c.Close()
			}
			bed.armDirectly(`{"r": null}`)
		}
	}
	bed.armDirectly(`{"r": {"api": "EndTxn", "action": "answer", "error_code": 29, "times": 0}}`)
	for n := range 5 {
		c := bed.dial("leak")
		go c.Write(bytes.Join([][]byte{produceFrame(1, 1, 1_000_000), endTxnFrame(2, "a", "t"), endTxnFrame(3, "a", "t")[:20]}, nil))
		c.SetReadDeadline(time.Now().Add(time.Duration(n) * 5 * time.Millisecond))
		c.Read(make([]byte, 1))
		c.Close()
	}
	testbed.Eventually(t, "their goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
}
