package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

// Both directions and all connections of a link are counted, while they are open.
func TestCountsLiveTraffic(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	for range 3 {
		connection := testbed.Dial(t, proxy)
		_, err := connection.Write([]byte("hello"))
		testbed.Must(t, err)
		_, err = io.ReadFull(connection, make([]byte, 5))
		testbed.Must(t, err)
	}
	want := testbed.Reading{Bytes: 15, Chunks: 3, ConnectionsOpened: 3, ConnectionsOpen: 3}
	for _, stream := range []string{"upstream", "downstream"} {
		if got := testbed.ReadMeter(t, proxy, stream); got != want {
			t.Errorf("%s: got %+v, want %+v", stream, got, want)
		}
	}
}

// Toxics that come and go behind the meter interrupt it; not a byte may be lost, doubled or moved.
func TestLosesNothingWhenInterrupted(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	connection := testbed.Dial(t, proxy)
	sent := make([]byte, 4<<20)
	rand.New(rand.NewSource(1)).Read(sent)
	var writer sync.WaitGroup
	writer.Add(1)
	go func() { defer writer.Done(); connection.Write(sent) }()
	stop := make(chan struct{})
	go disturb(t, proxy, stop)
	received := make([]byte, len(sent))
	_, err := io.ReadFull(connection, received)
	close(stop)
	testbed.Must(t, err)
	writer.Wait()
	if !bytes.Equal(sent, received) {
		t.Error("the bytes that came back are not those that were sent")
	}
	if got := testbed.ReadMeter(t, proxy, "upstream").Bytes; got != int64(len(sent)) {
		t.Errorf("counted %d bytes of %d", got, len(sent))
	}
}

func disturb(t *testing.T, proxy *toxiproxy.Proxy, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			testbed.AddToxic(t, proxy, `{"name":"late","type":"latency","stream":"upstream","attributes":{"latency":1}}`)
			proxy.Toxics.RemoveToxic(t.Context(), "late")
		}
	}
}

// A connection that its client closed is no longer open; the others are.
func TestCountsOpenConnections(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	first, _ := testbed.Dial(t, proxy), testbed.Dial(t, proxy)
	testbed.Eventually(t, "both connections to be counted", func() bool { return testbed.ReadMeter(t, proxy, "upstream").ConnectionsOpen == 2 })
	first.Close()
	testbed.Eventually(t, "one to end", func() bool { return testbed.ReadMeter(t, proxy, "upstream").ConnectionsOpen == 1 })
	if got := testbed.ReadMeter(t, proxy, "upstream").ConnectionsOpened; got != 2 {
		t.Errorf("%d connections were opened, want 2", got)
	}
}

// Many connections share one meter, and toxics come and go meanwhile: every byte is counted once, and only in its direction.
func TestCountsManyConnectionsAtOnce(t *testing.T) {
	const connections, size = 16, 64 << 10
	_, proxy := testbed.Proxied(t)
	stop := make(chan struct{})
	disturbed := make(chan struct{})
	go func() { defer close(disturbed); disturb(t, proxy, stop) }()
	var clients sync.WaitGroup
	for range connections {
		connection := testbed.Dial(t, proxy)
		clients.Add(2)
		go func() { defer clients.Done(); connection.Write(make([]byte, size)) }()
		go func() { defer clients.Done(); io.ReadFull(connection, make([]byte, size)) }()
	}
	clients.Wait()
	close(stop)
	<-disturbed
	for _, stream := range []string{"upstream", "downstream"} {
		got := testbed.ReadMeter(t, proxy, stream)
		if got.Bytes != connections*size || got.ConnectionsOpened != connections {
			t.Errorf("%s: got %+v, want %d bytes of %d connections", stream, got, connections*size, connections)
		}
	}
}

// The server of the link takes nothing, so chunks are stuck in the toxic: toxics can be added and removed all the same, at
// once, and what was stuck arrives when the server reads again.
func TestIsNoObstacleWhenTheReaderIsPaused(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
	_, proxy := testbed.Metered(t, upstream)
	connection := testbed.Dial(t, proxy)
	paused, err := upstream.Accept()
	testbed.Must(t, err)
	defer paused.Close()
	sent := testbed.Fill(t, connection)
	added := make(chan struct{})
	go func() {
		testbed.AddToxic(t, proxy, `{"name":"late","type":"latency","stream":"upstream","attributes":{"latency":1}}`)
		close(added)
	}()
	select {
	case <-added:
	case <-time.After(testbed.Deadline):
		t.Fatal("a toxic could not be added while the server did not read")
	}
	connection.Close()
	paused.SetDeadline(time.Now().Add(testbed.Deadline))
	received, err := io.ReadAll(paused)
	testbed.Must(t, err)
	if !bytes.Equal(received, sent) {
		t.Errorf("%d bytes arrived of %d, or others", len(received), len(sent))
	}
}

// Toxics that are removed, the kafka toxic among them, take no byte with them.
func TestIsRemovedWithoutLoss(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	connection := testbed.Dial(t, proxy)
	sent := make([]byte, 2<<20)
	rand.New(rand.NewSource(3)).Read(sent)
	go connection.Write(sent)
	testbed.Eventually(t, "bytes to flow", func() bool { return testbed.ReadMeter(t, proxy, "upstream").Bytes > 0 })
	testbed.Must(t, proxy.Toxics.RemoveToxic(t.Context(), "kafka_upstream"))
	received := make([]byte, len(sent))
	_, err := io.ReadFull(connection, received)
	testbed.Must(t, err)
	if !bytes.Equal(sent, received) {
		t.Error("the bytes that came back are not those that were sent")
	}
}

// The counters are read over the ordinary API, as the attributes of the toxic.
func TestIsReadOverTheApi(t *testing.T) {
	server, proxy := testbed.Proxied(t)
	connection := testbed.Dial(t, proxy)
	_, err := connection.Write([]byte("abc"))
	testbed.Must(t, err)
	_, err = io.ReadFull(connection, make([]byte, 3))
	testbed.Must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
	go http.Serve(listener, server.Routes())
	defer listener.Close()
	response, err := http.Get(fmt.Sprintf("http://%s/proxies/link/toxics/kafka_upstream", listener.Addr()))
	testbed.Must(t, err)
	defer response.Body.Close()
	var answer struct {
		Type       string          `json:"type"`
		Attributes testbed.Reading `json:"attributes"`
	}
	testbed.Must(t, json.NewDecoder(response.Body).Decode(&answer))
	if want := (testbed.Reading{Bytes: 3, Chunks: 1, ConnectionsOpened: 1, ConnectionsOpen: 1}); answer.Type != "kafka" || answer.Attributes != want {
		t.Errorf("got %+v, want a kafka toxic with %+v", answer, want)
	}
}

// A closed connection leaves no goroutine behind.
func TestLeavesNothingRunning(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	testbed.Dial(t, proxy).Close()
	testbed.Eventually(t, "the first connection to end", func() bool { return testbed.ReadMeter(t, proxy, "upstream").ConnectionsOpened == 1 })
	before := runtime.NumGoroutine()
	for range 20 {
		connection := testbed.Dial(t, proxy)
		connection.Write([]byte("x"))
		io.ReadFull(connection, make([]byte, 1))
		connection.Close()
	}
	testbed.Eventually(t, "their goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
}
