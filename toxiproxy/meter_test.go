package main

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
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const deadline = 10 * time.Second

// proxied starts an echo server and a proxy before it that has a kafka toxic in both directions, all over real TCP.
func proxied(t *testing.T) (*toxiproxy.ApiServer, *toxiproxy.Proxy) {
	t.Helper()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go echo(upstream)
	return metered(t, upstream)
}

// metered puts a proxy with kafka toxics before a server; what the tests of this file send through it is not Kafka's protocol.
func metered(t *testing.T, upstream net.Listener) (*toxiproxy.ApiServer, *toxiproxy.Proxy) {
	t.Helper()
	registerToxics()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "link", "127.0.0.1:0", upstream.Addr().String())
	must(t, server.Collection.Add(proxy, true))
	addKafka(t, proxy, "link", "upstream")
	addKafka(t, proxy, "link", "downstream")
	t.Cleanup(func() { proxy.Stop(); upstream.Close() })
	return server, proxy
}

func echo(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() { io.Copy(connection, connection); connection.Close() }()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func addToxic(t *testing.T, proxy *toxiproxy.Proxy, body string) {
	t.Helper()
	_, err := proxy.Toxics.AddToxicJson(bytes.NewBufferString(body))
	must(t, err)
}

func addKafka(t *testing.T, proxy *toxiproxy.Proxy, link, stream string) {
	t.Helper()
	addToxic(t, proxy, fmt.Sprintf(`{"name":"kafka_%s","type":"kafka","stream":%q,"attributes":{"link":%q,"stream":%q}}`, stream, stream, link, stream))
}

func dial(t *testing.T, proxy *toxiproxy.Proxy) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", proxy.Listen)
	must(t, err)
	connection.SetDeadline(time.Now().Add(deadline))
	t.Cleanup(func() { connection.Close() })
	return connection
}

func reading(proxy *toxiproxy.Proxy, stream string) Reading {
	return proxy.Toxics.GetToxic("kafka_" + stream).Toxic.(*Kafka).meter.read()
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("waited %v for %s", deadline, what)
}

// Both directions and all connections of a link are counted, while they are open.
func TestCountsLiveTraffic(t *testing.T) {
	_, proxy := proxied(t)
	for range 3 {
		connection := dial(t, proxy)
		_, err := connection.Write([]byte("hello"))
		must(t, err)
		_, err = io.ReadFull(connection, make([]byte, 5))
		must(t, err)
	}
	want := Reading{Bytes: 15, Chunks: 3, ConnectionsOpened: 3, ConnectionsOpen: 3}
	for _, stream := range []string{"upstream", "downstream"} {
		if got := reading(proxy, stream); got != want {
			t.Errorf("%s: got %+v, want %+v", stream, got, want)
		}
	}
}

// What a blackhole behind the meter swallows has entered the link.
func TestCountsWhatIsWithheld(t *testing.T) {
	_, proxy := proxied(t)
	connection := dial(t, proxy)
	addToxic(t, proxy, `{"name":"chaos","type":"blackhole","stream":"upstream","attributes":{}}`)
	_, err := connection.Write([]byte("into the dark"))
	must(t, err)
	eventually(t, "the withheld bytes to be counted", func() bool { return reading(proxy, "upstream").Bytes == 13 })
	if got := reading(proxy, "downstream").Bytes; got != 0 {
		t.Errorf("%d bytes came back through a blackhole", got)
	}
}

// Toxics that come and go behind the meter interrupt it; not a byte may be lost, doubled or moved.
func TestLosesNothingWhenInterrupted(t *testing.T) {
	_, proxy := proxied(t)
	connection := dial(t, proxy)
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
	must(t, err)
	writer.Wait()
	if !bytes.Equal(sent, received) {
		t.Error("the bytes that came back are not those that were sent")
	}
	if got := reading(proxy, "upstream").Bytes; got != int64(len(sent)) {
		t.Errorf("counted %d bytes of %d", got, len(sent))
	}
}

func disturb(t *testing.T, proxy *toxiproxy.Proxy, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			addToxic(t, proxy, `{"name":"late","type":"latency","stream":"upstream","attributes":{"latency":1}}`)
			proxy.Toxics.RemoveToxic(t.Context(), "late")
		}
	}
}

// A connection that its client closed is no longer open; the others are.
func TestCountsOpenConnections(t *testing.T) {
	_, proxy := proxied(t)
	first, _ := dial(t, proxy), dial(t, proxy)
	eventually(t, "both connections to be counted", func() bool { return reading(proxy, "upstream").ConnectionsOpen == 2 })
	first.Close()
	eventually(t, "one to end", func() bool { return reading(proxy, "upstream").ConnectionsOpen == 1 })
	if got := reading(proxy, "upstream").ConnectionsOpened; got != 2 {
		t.Errorf("%d connections were opened, want 2", got)
	}
}

// Many connections share one meter, and toxics come and go meanwhile: every byte is counted once, and only in its direction.
func TestCountsManyConnectionsAtOnce(t *testing.T) {
	const connections, size = 16, 64 << 10
	_, proxy := proxied(t)
	stop := make(chan struct{})
	disturbed := make(chan struct{})
	go func() { defer close(disturbed); disturb(t, proxy, stop) }()
	var clients sync.WaitGroup
	for range connections {
		connection := dial(t, proxy)
		clients.Add(2)
		go func() { defer clients.Done(); connection.Write(make([]byte, size)) }()
		go func() { defer clients.Done(); io.ReadFull(connection, make([]byte, size)) }()
	}
	clients.Wait()
	close(stop)
	<-disturbed
	for _, stream := range []string{"upstream", "downstream"} {
		got := reading(proxy, stream)
		if got.Bytes != connections*size || got.ConnectionsOpened != connections {
			t.Errorf("%s: got %+v, want %d bytes of %d connections", stream, got, connections*size, connections)
		}
	}
}

// The server of the link takes nothing, so chunks are stuck in the toxic: toxics can be added and removed all the same, at
// once, and what was stuck arrives when the server reads again.
func TestIsNoObstacleWhenTheReaderIsPaused(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, proxy := metered(t, upstream)
	connection := dial(t, proxy)
	paused, err := upstream.Accept()
	must(t, err)
	defer paused.Close()
	sent := fill(t, connection)
	added := make(chan struct{})
	go func() {
		addToxic(t, proxy, `{"name":"late","type":"latency","stream":"upstream","attributes":{"latency":1}}`)
		close(added)
	}()
	select {
	case <-added:
	case <-time.After(deadline):
		t.Fatal("a toxic could not be added while the server did not read")
	}
	connection.Close()
	paused.SetDeadline(time.Now().Add(deadline))
	received, err := io.ReadAll(paused)
	must(t, err)
	if !bytes.Equal(received, sent) {
		t.Errorf("%d bytes arrived of %d, or others", len(received), len(sent))
	}
}

// fill writes until the link takes no more, and returns what was written.
func fill(t *testing.T, connection net.Conn) []byte {
	t.Helper()
	chunk := make([]byte, 64<<10)
	source := rand.New(rand.NewSource(2))
	var sent []byte
	for {
		source.Read(chunk)
		connection.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := connection.Write(chunk)
		sent = append(sent, chunk[:n]...)
		if err != nil {
			return sent
		}
	}
}

// Toxics that are removed, the kafka toxic among them, take no byte with them.
func TestIsRemovedWithoutLoss(t *testing.T) {
	_, proxy := proxied(t)
	connection := dial(t, proxy)
	sent := make([]byte, 2<<20)
	rand.New(rand.NewSource(3)).Read(sent)
	go connection.Write(sent)
	eventually(t, "bytes to flow", func() bool { return reading(proxy, "upstream").Bytes > 0 })
	must(t, proxy.Toxics.RemoveToxic(t.Context(), "kafka_upstream"))
	received := make([]byte, len(sent))
	_, err := io.ReadFull(connection, received)
	must(t, err)
	if !bytes.Equal(sent, received) {
		t.Error("the bytes that came back are not those that were sent")
	}
}

// The counters are read over the ordinary API, as the attributes of the toxic.
func TestIsReadOverTheApi(t *testing.T) {
	server, proxy := proxied(t)
	connection := dial(t, proxy)
	_, err := connection.Write([]byte("abc"))
	must(t, err)
	_, err = io.ReadFull(connection, make([]byte, 3))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go http.Serve(listener, server.Routes())
	defer listener.Close()
	response, err := http.Get(fmt.Sprintf("http://%s/proxies/link/toxics/kafka_upstream", listener.Addr()))
	must(t, err)
	defer response.Body.Close()
	var answer struct {
		Type       string  `json:"type"`
		Attributes Reading `json:"attributes"`
	}
	must(t, json.NewDecoder(response.Body).Decode(&answer))
	if want := (Reading{Bytes: 3, Chunks: 1, ConnectionsOpened: 1, ConnectionsOpen: 1}); answer.Type != "kafka" || answer.Attributes != want {
		t.Errorf("got %+v, want a kafka toxic with %+v", answer, want)
	}
}

// A closed connection leaves no goroutine behind.
func TestLeavesNothingRunning(t *testing.T) {
	_, proxy := proxied(t)
	dial(t, proxy).Close()
	eventually(t, "the first connection to end", func() bool { return reading(proxy, "upstream").ConnectionsOpened == 1 })
	before := runtime.NumGoroutine()
	for range 20 {
		connection := dial(t, proxy)
		connection.Write([]byte("x"))
		io.ReadFull(connection, make([]byte, 1))
		connection.Close()
	}
	eventually(t, "their goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// The API is never offered to other machines by accident.
func TestLoopbackOnly(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "127.77.0.1": true, "::1": true, "localhost": true, "0.0.0.0": false, "10.0.0.1": false, "": false} {
		if got := isLoopback(host); got != want {
			t.Errorf("isLoopback(%q) is %v", host, got)
		}
	}
}
