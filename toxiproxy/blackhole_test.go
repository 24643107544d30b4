package main

import (
	"encoding/json"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

func swallowed(t *testing.T, proxy *toxiproxy.Proxy) int64 {
	t.Helper()
	shown, err := json.Marshal(proxy.Toxics.GetToxic("chaos").Toxic)
	testbed.Must(t, err)
	var attributes blackholeAttributes
	testbed.Must(t, json.Unmarshal(shown, &attributes))
	return attributes.Swallowed
}

// What is swallowed is counted on every connection, what passed before is not, and the client is not told.
func TestABlackholeCountsWhatItSwallows(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	connections := []net.Conn{testbed.Dial(t, proxy), testbed.Dial(t, proxy)}
	for _, connection := range connections {
		_, err := connection.Write([]byte("hello"))
		testbed.Must(t, err)
		_, err = io.ReadFull(connection, make([]byte, 5))
		testbed.Must(t, err)
	}
	testbed.AddToxic(t, proxy, `{"name":"chaos","type":"blackhole","stream":"upstream","attributes":{}}`)
	if got := swallowed(t, proxy); got != 0 {
		t.Errorf("%d bytes swallowed before anything was sent", got)
	}
	for _, connection := range connections {
		_, err := connection.Write([]byte("into the dark"))
		testbed.Must(t, err)
	}
	testbed.Eventually(t, "both to be swallowed", func() bool { return swallowed(t, proxy) == 26 })
	testbed.Must(t, connections[0].SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	if _, err := connections[0].Read(make([]byte, 1)); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("the client was told: %v", err)
	}
}

// Whatever is under way when it comes was either answered or counted: no request is lost unseen.
func TestNothingIsSwallowedUncounted(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	const clients = 20
	var sending sync.WaitGroup
	unanswered := make(chan int64, clients)
	for range clients {
		connection := testbed.Dial(t, proxy)
		testbed.Must(t, connection.SetDeadline(time.Now().Add(time.Second)))
		sending.Add(1)
		go func() {
			defer sending.Done()
			one := make([]byte, 1)
			for {
				if _, err := connection.Write(one); err != nil {
					return
				}
				if _, err := io.ReadFull(connection, one); err != nil {
					unanswered <- 1
					return
				}
			}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	testbed.AddToxic(t, proxy, `{"name":"chaos","type":"blackhole","stream":"upstream","attributes":{}}`)
	sending.Wait()
	if got, want := swallowed(t, proxy), int64(len(unanswered)); got != want || want == 0 {
		t.Errorf("%d bytes counted, %d requests without an answer", got, want)
	}
}

// Connections that it was put on end when it goes, for bytes are missing; new ones are as before.
func TestARemovedBlackholeEndsItsConnections(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	before := testbed.Dial(t, proxy)
	testbed.AddToxic(t, proxy, `{"name":"chaos","type":"blackhole","stream":"upstream","attributes":{}}`)
	_, err := before.Write([]byte("lost"))
	testbed.Must(t, err)
	testbed.Eventually(t, "it to be swallowed", func() bool { return swallowed(t, proxy) == 4 })
	<-remove(t, proxy, "chaos")
	if _, err := io.ReadAll(before); err != nil {
		t.Errorf("the old connection did not end: %v", err)
	}
	after := testbed.Dial(t, proxy)
	_, err = after.Write([]byte("found"))
	testbed.Must(t, err)
	_, err = io.ReadFull(after, make([]byte, 5))
	testbed.Must(t, err)
}

// What a blackhole behind the meter swallows has entered the link.
func TestCountsWhatIsWithheld(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	connection := testbed.Dial(t, proxy)
	testbed.AddToxic(t, proxy, `{"name":"chaos","type":"blackhole","stream":"upstream","attributes":{}}`)
	_, err := connection.Write([]byte("into the dark"))
	testbed.Must(t, err)
	testbed.Eventually(t, "the withheld bytes to be counted", func() bool { return testbed.ReadMeter(t, proxy, "upstream").Bytes == 13 })
	if got := testbed.ReadMeter(t, proxy, "downstream").Bytes; got != 0 {
		t.Errorf("%d bytes came back through a blackhole", got)
	}
}
