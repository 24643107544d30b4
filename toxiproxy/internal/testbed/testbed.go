// Package testbed has what the tests of the server's toxics share: a proxy with its servers and clients over real TCP.
//
// The toxics themselves are registered by the tests, as only they know all of them.
package testbed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Deadline is how long anything may take that a test waits for.
const Deadline = 10 * time.Second

// Reading is what the meter of a kafka toxic shows.
type Reading struct {
	Bytes             int64 `json:"bytes"`
	Chunks            int64 `json:"chunks"`
	ConnectionsOpened int64 `json:"connections_opened"`
	ConnectionsOpen   int64 `json:"connections_open"`
}

// NewServer is a Toxiproxy server that logs nothing.
func NewServer() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
}

// Proxied starts an echo server and a proxy before it that has a kafka toxic in both directions.
func Proxied(t *testing.T) (*toxiproxy.ApiServer, *toxiproxy.Proxy) {
	t.Helper()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	go Echo(upstream)
	return Metered(t, upstream)
}

// Metered puts a proxy with kafka toxics before a server.
func Metered(t *testing.T, upstream net.Listener) (*toxiproxy.ApiServer, *toxiproxy.Proxy) {
	t.Helper()
	server := NewServer()
	proxy := toxiproxy.NewProxy(server, "link", "127.0.0.1:0", upstream.Addr().String())
	Must(t, server.Collection.Add(proxy, true))
	AddKafka(t, proxy, "link", "upstream")
	AddKafka(t, proxy, "link", "downstream")
	t.Cleanup(func() { proxy.Stop(); upstream.Close() })
	return server, proxy
}

// Echo sends back to every client what it sends, until the listener is closed.
func Echo(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() { io.Copy(connection, connection); connection.Close() }()
	}
}

// Must ends the test when there is an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits for a condition.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(Deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("waited %v for %s", Deadline, what)
}

// AddToxic adds a toxic as the API would.
func AddToxic(t *testing.T, proxy *toxiproxy.Proxy, body string) {
	t.Helper()
	_, err := proxy.Toxics.AddToxicJson(bytes.NewBufferString(body))
	Must(t, err)
}

// AddKafka adds the kafka toxic of one direction.
func AddKafka(t *testing.T, proxy *toxiproxy.Proxy, link, stream string) {
	t.Helper()
	AddToxic(t, proxy, fmt.Sprintf(`{"name":"kafka_%s","type":"kafka","stream":%q,"attributes":{"link":%q,"stream":%q}}`, stream, stream, link, stream))
}

// ReadMeter is the meter of one direction.
func ReadMeter(t *testing.T, proxy *toxiproxy.Proxy, stream string) (read Reading) {
	t.Helper()
	shown, err := json.Marshal(proxy.Toxics.GetToxic("kafka_" + stream).Toxic)
	Must(t, err)
	Must(t, json.Unmarshal(shown, &read))
	return read
}

// Dial connects to a proxy; the connection ends with the test.
func Dial(t *testing.T, proxy *toxiproxy.Proxy) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", proxy.Listen)
	Must(t, err)
	connection.SetDeadline(time.Now().Add(Deadline))
	t.Cleanup(func() { connection.Close() })
	return connection
}

// Die ends a connection with a reset, as a killed process that had not read everything does.
func Die(t *testing.T, client net.Conn) {
	t.Helper()
	Must(t, client.(*net.TCPConn).SetLinger(0))
	client.Close()
}

// Fill writes until the link takes no more, and returns what was written.
func Fill(t *testing.T, connection net.Conn) []byte {
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
