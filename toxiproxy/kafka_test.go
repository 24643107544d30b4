package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// testbed is a Toxiproxy with links to a broker each, and its API over HTTP.
type testbed struct {
	t       *testing.T
	api     string
	proxies map[string]*toxiproxy.Proxy
	brokers map[string]*broker
}

// broker answers every request but a Produce with acks=0, and keeps what it was sent.
type broker struct {
	listener net.Listener
	code     int16

	mu    sync.Mutex
	got   [][]byte
	ended int // connections whose client's side ended
}

func newTestbed(t *testing.T, names ...string) *testbed {
	t.Helper()
	registerToxics()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	api := httptest.NewServer(server.Routes())
	bed := &testbed{t, api.URL, make(map[string]*toxiproxy.Proxy), make(map[string]*broker)}
	t.Cleanup(func() {
		must(t, theBook.patch(json.RawMessage("null")))
		theBook.mu.Lock()
		defer theBook.mu.Unlock()
		theBook.trips, theBook.forgotten = nil, 0
		api.Close()
	})
	for _, name := range names {
		bed.brokers[name] = startBroker(t)
		bed.add(server, name, bed.brokers[name].listener.Addr().String())
	}
	return bed
}

func (b *testbed) add(server *toxiproxy.ApiServer, name, upstream string) {
	b.t.Helper()
	proxy := toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)
	must(b.t, server.Collection.Add(proxy, true))
	for _, stream := range []string{"upstream", "downstream"} {
		addToxic(b.t, proxy, fmt.Sprintf(`{"name":"meter_%s","type":"meter","stream":%q}`, stream, stream))
		addToxic(b.t, proxy, fmt.Sprintf(`{"name":"kafka_%s","type":"kafka","stream":%q,"attributes":{"link":%q,"stream":%q}}`, stream, stream, name, stream))
	}
	b.proxies[name] = proxy
	b.t.Cleanup(proxy.Stop)
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	b := &broker{listener: listener}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go b.serve(connection)
		}
	}()
	return b
}

func (b *broker) serve(connection net.Conn) {
	defer connection.Close()
	for {
		frame, err := readFrame(connection)
		b.mu.Lock()
		if err != nil {
			b.ended++
			b.mu.Unlock()
			return
		}
		parsed, _, _, ok := parseRequest(frame)
		if parsed.api != apiVersions {
			b.got = append(b.got, frame)
		}
		b.mu.Unlock()
		if ok && !parsed.silent {
			connection.Write(response(parsed.api, parsed.version, parsed.correlation, b.code))
		}
	}
}

func (b *broker) frames() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

func (b *broker) hasEnded() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

func readFrame(from io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	_, err := io.ReadFull(from, frame[4:])
	return frame, err
}

func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func text(to []byte, s string, compact bool) []byte {
	if compact {
		to = binary.AppendUvarint(to, uint64(len(s)+1))
	} else {
		to = binary.BigEndian.AppendUint16(to, uint16(len(s)))
	}
	return append(to, s...)
}

// request is a frame of an API whose body begins with the transactional id, or of another with any body.
func requestFrame(number, version int16, correlation int32, client string, body func([]byte) []byte) []byte {
	data := binary.BigEndian.AppendUint16(nil, uint16(number))
	data = binary.BigEndian.AppendUint16(data, uint16(version))
	data = binary.BigEndian.AppendUint32(data, uint32(correlation))
	data = text(data, client, false)
	if isFlexible(number, version) {
		data = append(data, 0)
	}
	return framed(body(data))
}

func endTxnFrame(correlation int32, client, transactional string) []byte {
	return transactionalFrame(endTxn, 3, correlation, client, transactional)
}

func transactionalFrame(number, version int16, correlation int32, client, transactional string) []byte {
	return requestFrame(number, version, correlation, client, func(data []byte) []byte {
		return append(text(data, transactional, isFlexible(number, version)), make([]byte, 11)...)
	})
}

func produceFrame(correlation int32, acks int16, size int) []byte {
	return requestFrame(produce, 9, correlation, "loader", func(data []byte) []byte {
		data = append(data, 0) // no transactional id
		data = binary.BigEndian.AppendUint16(data, uint16(acks))
		return append(data, make([]byte, size)...)
	})
}

func response(number, version int16, correlation int32, code int16) []byte {
	data := binary.BigEndian.AppendUint32(nil, uint32(correlation))
	if isFlexible(number, version) && number != apiVersions {
		data = append(data, 0)
	}
	data = append(data, 0, 0, 0, 0)
	return framed(append(binary.BigEndian.AppendUint16(data, uint16(code)), "rest"...))
}

// dial connects and asks for the versions, as clients do. After that the toxics run: the stock server reads their toxicity when
// they begin to, and writes it in an update, without a lock.
func (b *testbed) dial(link string) *client {
	b.t.Helper()
	c := b.dialOnly(link)
	c.send(b.t, requestFrame(apiVersions, 2, -1, "a", func(data []byte) []byte { return data }))
	if got := c.answer(b.t); got != -1 {
		b.t.Fatalf("%d was answered", got)
	}
	return c
}

func (b *testbed) dialOnly(link string) *client {
	b.t.Helper()
	return &client{dial(b.t, b.proxies[link])}
}

type client struct{ net.Conn }

func (c *client) send(t *testing.T, frames ...[]byte) {
	t.Helper()
	_, err := c.Write(bytes.Join(frames, nil))
	must(t, err)
}

// answer is the correlation id of the next response.
func (c *client) answer(t *testing.T) int32 {
	t.Helper()
	frame, err := readFrame(c)
	must(t, err)
	return int32(binary.BigEndian.Uint32(frame[4:]))
}

// ends is whether the connection has ended, and nothing more came.
func (c *client) ends(t *testing.T) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("the connection goes on")
	} else if wait, ok := err.(net.Error); ok && wait.Timeout() {
		t.Error("the connection is still open")
	}
}

// isSilent is whether nothing comes for a while.
func (c *client) isSilent(t *testing.T) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	defer c.SetReadDeadline(time.Now().Add(deadline))
	_, err := c.Read(make([]byte, 1))
	if wait, ok := err.(net.Error); !ok || !wait.Timeout() {
		t.Errorf("something came, or the connection ended: %v", err)
	}
}

// post changes a kafka toxic, over HTTP and within a time.
func (b *testbed) post(link, attributes string) (status int, answer string) {
	b.t.Helper()
	post := http.Client{Timeout: deadline}
	body := strings.NewReader(fmt.Sprintf(`{"attributes": %s}`, attributes))
	answered, err := post.Post(fmt.Sprintf("%s/proxies/%s/toxics/kafka_upstream", b.api, link), "application/json", body)
	must(b.t, err)
	defer answered.Body.Close()
	data, err := io.ReadAll(answered.Body)
	must(b.t, err)
	return answered.StatusCode, string(data)
}

// arm changes one rule, which must be right.
func (b *testbed) arm(link, id, rule string) {
	b.t.Helper()
	if status, answer := b.post(link, fmt.Sprintf(`{"rules": {%q: %s}}`, id, rule)); status != http.StatusOK {
		b.t.Fatalf("%d: %s", status, answer)
	}
}

func (b *testbed) read(link string) (read kafkaReading) {
	b.t.Helper()
	get := http.Client{Timeout: deadline}
	answered, err := get.Get(fmt.Sprintf("%s/proxies/%s/toxics/kafka_downstream", b.api, link))
	must(b.t, err)
	defer answered.Body.Close()
	var shown struct{ Attributes *kafkaReading }
	shown.Attributes = &read
	must(b.t, json.NewDecoder(answered.Body).Decode(&shown))
	return read
}

func (b *testbed) anyLink() string {
	for name := range b.proxies {
		return name
	}
	return ""
}

// trip waits for the n-th trip to have an outcome.
func (b *testbed) trip(n int, outcome string) (found Trip) {
	b.t.Helper()
	link := b.anyLink()
	defer func() {
		if b.t.Failed() {
			b.t.Logf("trips: %+v", b.read(link).Trips)
		}
	}()
	eventually(b.t, fmt.Sprintf("trip %d to be %s", n, outcome), func() bool {
		trips := b.read(link).Trips
		if len(trips) < n || trips[n-1].Outcome != outcome {
			return false
		}
		found = trips[n-1]
		return true
	})
	return found
}

// Every response is paired with its request, whatever chunks the bytes come in.
func TestPairsAcrossEveryChunkBorder(t *testing.T) {
	bed := newTestbed(t, "pairs")
	bed.brokers["pairs"].code = 47
	bed.arm("pairs", "seen", `{"api": "EndTxn", "action": "count", "times": 0}`)
	c := bed.dial("pairs")
	c.Conn.(*net.TCPConn).SetNoDelay(true)
	for correlation := range int32(3) {
		for _, b := range endTxnFrame(correlation, "writer", "square-1") {
			c.send(t, []byte{b})
			runtime.Gosched()
		}
		if got := c.answer(t); got != correlation {
			t.Errorf("%d was answered, want %d", got, correlation)
		}
	}
	sent, answered := len(endTxnFrame(0, "writer", "square-1")), len(response(endTxn, 3, 0, 0))
	counts := bed.read("pairs").Counts["EndTxn"]
	if counts.Requests != 3 || counts.Responses != 3 || counts.Bytes != int64(3*(sent+answered)) {
		t.Errorf("got %+v", counts)
	}
	trip := bed.trip(3, "delivered")
	if trip.ErrorCode == nil || *trip.ErrorCode != 47 || trip.AnsweredNs < trip.TrippedNs || trip.N != 3 {
		t.Errorf("got %+v", trip)
	}
	if trip.TransactionalID != "square-1" || trip.ClientID != "writer" || trip.Version != 3 || trip.CorrelationID != 2 || trip.Link != "pairs" {
		t.Errorf("got %+v", trip)
	}
}

// A held request reaches nobody, and all that its client sent after it waits behind it; other connections go on.
func TestHoldsARequestUntilReleased(t *testing.T) {
	for _, release := range []string{"deliver", "drop", "close"} {
		t.Run(release, func(t *testing.T) {
			bed := newTestbed(t, "held")
			bed.arm("held", "h", `{"api": "EndTxn", "action": "hold"}`)
			c, other := bed.dial("held"), bed.dial("held")
			c.send(t, transactionalFrame(addOffsetsToTxn, 3, 1, "a", "t"), endTxnFrame(2, "a", "t"), produceFrame(3, 1, 100))
			if got := c.answer(t); got != 1 {
				t.Errorf("%d was answered first", got)
			}
			bed.trip(1, "held")
			c.isSilent(t)
			other.send(t, endTxnFrame(9, "b", "t"))
			if got := other.answer(t); got != 9 {
				t.Errorf("%d was answered on the other connection", got)
			}
			bed.arm("held", "h", fmt.Sprintf(`{"release": %q}`, release))
			switch release {
			case "deliver":
				if first, second := c.answer(t), c.answer(t); first != 2 || second != 3 {
					t.Errorf("%d and %d were answered", first, second)
				}
				bed.trip(1, "delivered")
			case "drop":
				if got := c.answer(t); got != 3 {
					t.Errorf("%d was answered", got)
				}
				bed.trip(1, "dropped")
			case "close":
				c.ends(t)
				bed.trip(1, "closed")
			}
		})
	}
}

// A held response reaches nobody either, though the broker has done what was asked.
func TestHoldsAResponseUntilReleased(t *testing.T) {
	for _, release := range []string{"deliver", "drop", "close"} {
		t.Run(release, func(t *testing.T) {
			bed := newTestbed(t, "held")
			bed.arm("held", "h", `{"api": "EndTxn", "at": "response", "action": "hold"}`)
			c := bed.dial("held")
			c.send(t, endTxnFrame(2, "a", "t"), produceFrame(3, 1, 100))
			trip := bed.trip(1, "held")
			if trip.ErrorCode == nil || trip.AnsweredNs == 0 || trip.TransactionalID != "t" || trip.ClientID != "a" {
				t.Errorf("got %+v", trip)
			}
			c.isSilent(t)
			eventually(t, "the broker to have both", func() bool { return len(bed.brokers["held"].frames()) == 2 })
			bed.arm("held", "h", fmt.Sprintf(`{"release": %q}`, release))
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
				eventually(t, "the broker's side to end", func() bool { return bed.brokers["held"].hasEnded() == 1 })
			}
		})
	}
}

// What is dropped is one frame; what is around it is whole.
func TestDropsOneFrame(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		t.Run(at, func(t *testing.T) {
			bed := newTestbed(t, "drop")
			bed.arm("drop", "d", fmt.Sprintf(`{"api": 0, "at": %q, "nth": 2, "action": "drop"}`, at))
			c := bed.dial("drop")
			c.send(t, produceFrame(1, 1, 200_000), produceFrame(2, 1, 200_000), produceFrame(3, 1, 10))
			if first, second := c.answer(t), c.answer(t); first != 1 || second != 3 {
				t.Errorf("%d and %d were answered", first, second)
			}
			arrived := map[string]int{"request": 2, "response": 3}[at]
			if got := len(bed.brokers["drop"].frames()); got != arrived {
				t.Errorf("%d requests arrived, want %d", got, arrived)
			}
			if trip := bed.trip(1, "dropped"); trip.API != "Produce" || trip.N != 2 || (trip.AnsweredNs != 0) != (at == "response") {
				t.Errorf("got %+v", trip)
			}
		})
	}
}

// The connection ends on both sides, and the frame does not arrive.
func TestClosesTheConnection(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		t.Run(at, func(t *testing.T) {
			bed := newTestbed(t, "close")
			bed.arm("close", "c", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "close"}`, at))
			c := bed.dial("close")
			c.send(t, endTxnFrame(1, "a", "t"))
			c.ends(t)
			eventually(t, "the broker's side to end", func() bool { return bed.brokers["close"].hasEnded() == 1 })
			arrived := map[string]int{"request": 0, "response": 1}[at]
			if got := len(bed.brokers["close"].frames()); got != arrived {
				t.Errorf("%d requests arrived, want %d", got, arrived)
			}
			bed.trip(1, "closed")
		})
	}
}

// A delayed frame arrives that much later, with what is behind it.
func TestDelaysAFrame(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		t.Run(at, func(t *testing.T) {
			bed := newTestbed(t, "delay")
			bed.arm("delay", "d", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "delay", "delay_ms": 200}`, at))
			c := bed.dial("delay")
			begun := time.Now()
			c.send(t, endTxnFrame(1, "a", "t"), endTxnFrame(2, "a", "t"))
			if first, second := c.answer(t), c.answer(t); first != 1 || second != 2 {
				t.Errorf("%d and %d were answered", first, second)
			}
			if took := time.Since(begun); took < 200*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			trip := bed.trip(1, "delivered")
			if took := time.Duration(trip.ReleasedNs - trip.TrippedNs); took < 200*time.Millisecond {
				t.Errorf("the trip says %v", took)
			}
		})
	}
}

// A held request dies with its client, and the trip says when that went.
func TestHeldFrameDiesWithItsClient(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		t.Run(at, func(t *testing.T) {
			bed := newTestbed(t, "dies")
			bed.arm("dies", "h", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold"}`, at))
			c := bed.dial("dies")
			c.send(t, endTxnFrame(1, "a", "t"))
			bed.trip(1, "held")
			c.Close()
			if trip := bed.trip(1, "client gone"); trip.ClientGoneNs < trip.TrippedNs || trip.ReleasedNs < trip.TrippedNs {
				t.Errorf("got %+v", trip)
			}
			eventually(t, "the broker's side to end", func() bool { return bed.brokers["dies"].hasEnded() == 1 })
			arrived := map[string]int{"request": 0, "response": 1}[at]
			if got := len(bed.brokers["dies"].frames()); got != arrived {
				t.Errorf("%d requests arrived, want %d", got, arrived)
			}
		})
	}
}

// A late request arrives although its client has gone, with what that sent behind it, and the broker's answer is seen.
func TestDeliversLate(t *testing.T) {
	bed := newTestbed(t, "late")
	bed.brokers["late"].code = 90
	bed.arm("late", "l", `{"api": "EndTxn", "action": "late"}`)
	c := bed.dial("late")
	c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 300_000))
	bed.trip(1, "held")
	c.Close()
	eventually(t, "the client to be gone", func() bool { return bed.trip(1, "held").ClientGoneNs > 0 })
	if got := bed.brokers["late"].hasEnded(); got != 0 {
		t.Error("the broker's side has ended")
	}
	bed.arm("late", "l", `{"release": "deliver"}`)
	bed.trip(1, "delivered")
	eventually(t, "the broker to have both", func() bool { return len(bed.brokers["late"].frames()) == 2 })
	eventually(t, "the answer", func() bool { return bed.trip(1, "delivered").AnsweredNs > 0 })
	if trip := bed.trip(1, "delivered"); trip.ErrorCode == nil || *trip.ErrorCode != 90 || trip.AnsweredNs < trip.ReleasedNs {
		t.Errorf("got %+v", trip)
	}
	eventually(t, "the broker's side to end", func() bool { return bed.brokers["late"].hasEnded() == 1 })
}

// The broker's death ends what is held for it.
func TestHeldRequestDiesWithItsBroker(t *testing.T) {
	for _, action := range []string{"hold", "late"} {
		t.Run(action, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			defer listener.Close()
			bed := newTestbed(t)
			bed.add(toxiproxyServer(), "dead", listener.Addr().String())
			bed.armDirectly(fmt.Sprintf(`{"h": {"api": "EndTxn", "action": %q}}`, action))
			c := bed.dialOnly("dead")
			c.send(t, endTxnFrame(1, "a", "t"))
			server, err := listener.Accept()
			must(t, err)
			eventually(t, "the trip", func() bool { _, trips, _ := theBook.read(); return len(trips) == 1 })
			server.Close()
			c.ends(t)
			eventually(t, "the end", func() bool { _, trips, _ := theBook.read(); return trips[0].Outcome == "closed" })
		})
	}
}

func toxiproxyServer() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
}

func (b *testbed) armDirectly(rules string) {
	b.t.Helper()
	must(b.t, theBook.patch(json.RawMessage(rules)))
}

// After max_hold_ms the frame is delivered, and the trip says that it was not released.
func TestHoldsNoLongerThanItMay(t *testing.T) {
	for _, action := range []string{"hold", "late"} {
		bed := newTestbed(t, "max")
		bed.arm("max", action, fmt.Sprintf(`{"api": "EndTxn", "action": %q, "max_hold_ms": 150}`, action))
		c := bed.dial("max")
		c.send(t, endTxnFrame(1, "a", "t"))
		if got := c.answer(t); got != 1 {
			t.Errorf("%d was answered", got)
		}
		if trip := bed.trip(1, "max_hold"); time.Duration(trip.ReleasedNs-trip.TrippedNs) < 150*time.Millisecond {
			t.Errorf("got %+v", trip)
		}
		must(t, theBook.patch(json.RawMessage("null")))
		theBook.trips = nil
	}
}

// A rule counts over all its links together, from its arming, and not what passes on other links.
func TestCountsOverLinks(t *testing.T) {
	bed := newTestbed(t, "one", "two", "three")
	one, two, three := bed.dial("one"), bed.dial("two"), bed.dial("three")
	one.send(t, endTxnFrame(0, "a", "t")) // before the arming
	one.answer(t)
	bed.arm("three", "c", `{"links": ["one", "two"], "api": "EndTxn", "nth": 3, "times": 2, "action": "count"}`)
	for i, c := range []*client{one, three, two, three, one, two, one} {
		c.send(t, endTxnFrame(int32(i), "a", "t"))
		c.answer(t)
	}
	trips := bed.read("three").Trips
	if len(trips) != 2 || trips[0].N != 3 || trips[0].Link != "one" || trips[1].N != 4 || trips[1].Link != "two" {
		t.Errorf("got %+v", trips)
	}
	if got := bed.read("one").Rules["c"].Matched; got != 5 {
		t.Errorf("%d matched", got)
	}
	if got := bed.read("three").Counts["EndTxn"].Requests; got != 2 {
		t.Errorf("%d requests on the third link", got)
	}
}

// A hold with times=0 parks every connection, one release frees them all, and what comes later passes.
func TestOneReleaseFreesAll(t *testing.T) {
	bed := newTestbed(t, "one", "two")
	bed.arm("one", "all", `{"api": "EndTxn", "times": 0, "action": "hold"}`)
	clients := []*client{bed.dial("one"), bed.dial("two"), bed.dial("two")}
	for _, c := range clients {
		c.send(t, endTxnFrame(1, "a", "t"))
	}
	bed.trip(3, "held")
	bed.arm("two", "all", `{"release": "deliver"}`)
	for _, c := range clients {
		c.answer(t)
		c.send(t, endTxnFrame(2, "a", "t"))
		c.answer(t)
	}
	if got := bed.read("one"); len(got.Trips) != 3 || got.Rules["all"].Matched != 6 {
		t.Errorf("%d trips, %d matched", len(got.Trips), got.Rules["all"].Matched)
	}
}

// Transactional ids are found in every API that carries one, in old and in flexible versions; client ids in all.
func TestMatchesIds(t *testing.T) {
	body := func(fields ...any) func([]byte) []byte {
		return func(data []byte) []byte {
			for _, field := range fields {
				switch field := field.(type) {
				case string:
					data = text(data, field, false)
				case compact:
					data = text(data, string(field), true)
				case []byte:
					data = append(data, field...)
				}
			}
			return append(data, 1, 2, 3, 4, 5, 6)
		}
	}
	for _, c := range []struct {
		number, version int16
		body            func([]byte) []byte
		want            string
	}{
		{produce, 2, body("not one"), ""},
		{produce, 3, body("tx"), "tx"},
		{produce, 3, body([]byte{255, 255}), ""},
		{produce, 9, body(compact("tx")), "tx"},
		{produce, 13, body(compact("tx")), "tx"},
		{initProducerID, 1, body("tx"), "tx"},
		{initProducerID, 2, body(compact("tx")), "tx"},
		{addPartitionsToTxn, 2, body("tx"), "tx"},
		{addPartitionsToTxn, 3, body(compact("tx")), "tx"},
		{addPartitionsToTxn, 4, body([]byte{3}, compact("tx")), "tx"},
		{addPartitionsToTxn, 5, body([]byte{1}), ""},
		{addOffsetsToTxn, 2, body("tx"), "tx"},
		{addOffsetsToTxn, 3, body(compact("tx")), "tx"},
		{endTxn, 2, body("tx"), "tx"},
		{endTxn, 3, body(compact("tx")), "tx"},
		{endTxn, 5, body(compact("tx")), "tx"},
		{txnOffsetCommit, 2, body("tx"), "tx"},
		{txnOffsetCommit, 3, body(compact("tx")), "tx"},
		{findCoordinator, 0, body("group"), ""},
		{findCoordinator, 1, body("tx", []byte{1}), "tx"},
		{findCoordinator, 2, body("group", []byte{0}), ""},
		{findCoordinator, 3, body(compact("tx"), []byte{1}), "tx"},
		{findCoordinator, 4, body([]byte{1, 2}, compact("tx")), "tx"},
		{findCoordinator, 4, body([]byte{0, 2}, compact("group")), ""},
		{apiVersions, 3, body(compact("software")), ""},
	} {
		frame := requestFrame(c.number, c.version, 7, "client-1", c.body)
		for at := range frame { // whatever part of it is there, it asks for more, and for no more than there is
			parsed, total, need, ok := parseRequest(frame[:at])
			if !ok || need > len(frame) || (need == 0 && (total != len(frame) || string(parsed.transactional) != c.want)) || (need > 0 && need <= at) {
				t.Fatalf("%s %d at %d: need %d, ok %v, %q", apis[c.number].name, c.version, at, need, ok, parsed.transactional)
			}
		}
		parsed, _, _, _ := parseRequest(frame)
		if string(parsed.transactional) != c.want || string(parsed.client) != "client-1" || parsed.correlation != 7 {
			t.Errorf("%s %d: got %q of %q", apis[c.number].name, c.version, parsed.transactional, parsed.client)
		}
	}
}

type compact string

// Patterns choose among clients and transactions.
func TestPatternsChoose(t *testing.T) {
	bed := newTestbed(t, "ids")
	bed.arm("ids", "c", `{"api": "EndTxn", "times": 0, "client_id": "spark-*", "transactional_id": "sq[ua]*", "action": "count"}`)
	c := bed.dial("ids")
	for i, ids := range [][2]string{{"spark-1", "square"}, {"loader", "square"}, {"spark-2", "other"}, {"spark-3", "sq"}, {"spark-4", "squ"}} {
		c.send(t, endTxnFrame(int32(i), ids[0], ids[1]))
		c.answer(t)
	}
	var hit []int32
	for _, trip := range bed.read("ids").Trips {
		hit = append(hit, trip.CorrelationID)
	}
	if !slices.Equal(hit, []int32{0, 4}) {
		t.Errorf("hit %v", hit)
	}
}

// A Produce with acks=0 has no response, and does not put the next ones out of step.
func TestAcksZero(t *testing.T) {
	bed := newTestbed(t, "acks")
	c := bed.dial("acks")
	c.send(t, produceFrame(1, 0, 10), produceFrame(2, 1, 10), produceFrame(3, 0, 10), endTxnFrame(4, "a", "t"))
	if first, second := c.answer(t), c.answer(t); first != 2 || second != 4 {
		t.Errorf("%d and %d were answered", first, second)
	}
	counts := bed.read("acks").Counts
	if got := counts["Produce"]; got.Requests != 3 || got.Responses != 1 {
		t.Errorf("got %+v", got)
	}
	if got := counts["EndTxn"]; got.Requests != 1 || got.Responses != 1 {
		t.Errorf("got %+v", got)
	}
}

// The list of requests without an answer is bounded, and the latest are in it.
func TestUnansweredAreBounded(t *testing.T) {
	c := newConnection(new(link))
	for correlation := range int32(3 * maxUnanswered) {
		c.sent(request{correlation: correlation})
	}
	if len(c.unanswered)-c.first > maxUnanswered || cap(c.unanswered) > 8*maxUnanswered {
		t.Errorf("%d are kept in %d", len(c.unanswered)-c.first, cap(c.unanswered))
	}
	if _, known := c.answers(0); known {
		t.Error("the first is still there")
	}
	if got, known := c.answers(3*maxUnanswered - 1); !known || got.correlation != 3*maxUnanswered-1 || c.first != 0 || len(c.unanswered) != 0 {
		t.Error("the last is not, or what is older than an answered one was kept")
	}
}

// How long answers take is measured from the request's arrival at the link to the answer's.
func TestMeasuresLatency(t *testing.T) {
	bed := newTestbed(t, "latency")
	addToxic(t, bed.proxies["latency"], `{"name":"late","type":"delay","stream":"upstream","attributes":{"latency":50}}`)
	c := bed.dial("latency")
	for i := range int32(5) {
		c.send(t, endTxnFrame(i, "a", "t"))
		c.answer(t)
	}
	got := bed.read("latency").Counts["EndTxn"].Latency
	if got.P50 < 48 || got.P99 < got.P50 || got.Max < got.P99 || got.Mean < 48 || got.Max > 2000 {
		t.Errorf("got %+v", got)
	}
}

// Percentiles are right to 3 %.
func TestHistogram(t *testing.T) {
	h := new(histogram)
	for us := range 100_000 {
		h.add(time.Duration(us+1) * time.Microsecond)
	}
	got := h.read()
	for name, pair := range map[string][2]float64{"p50": {got.P50, 50}, "p99": {got.P99, 99}, "max": {got.Max, 100}, "mean": {got.Mean, 50}} {
		if error := pair[0]/pair[1] - 1; error > 0.03 || error < -0.03 {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

// What is not Kafka passes untouched and at once, with rules and without, and is counted.
func TestPassesWhatIsNotKafka(t *testing.T) {
	hello := append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 9, 9, 9}, make([]byte, 500)...) // reads as a Fetch of 369 MB
	random := make([]byte, 100_000)
	rand.New(rand.NewSource(4)).Read(random)
	for name, sent := range map[string][]byte{
		"tls": hello, "http": []byte("GET / HTTP/1.1\r\n\r\n"), "random": random, "zeros": make([]byte, 1000),
		"one byte": {'x'}, "half a header": endTxnFrame(1, "a", "t")[:9], "negative": framed(nil)[:4], "unknown api": requestFrameOf(2000),
	} {
		for _, rules := range []string{"null", `{"r": {"api": "EndTxn", "action": "drop", "times": 0}}`} {
			t.Run(name+" "+rules, func(t *testing.T) {
				upstream, err := net.Listen("tcp", "127.0.0.1:0")
				must(t, err)
				defer upstream.Close()
				go echo(upstream)
				bed := newTestbed(t)
				bed.add(toxiproxyServer(), "tls", upstream.Addr().String())
				bed.armDirectly(rules)
				c := bed.dialOnly("tls")
				c.send(t, sent)
				got := make([]byte, len(sent))
				_, err = io.ReadFull(c, got)
				must(t, err)
				if !bytes.Equal(got, sent) {
					t.Error("it came back changed")
				}
				var read kafkaReading
				data, err := json.Marshal(bed.proxies["tls"].Toxics.GetToxic("kafka_upstream").Toxic)
				must(t, err)
				must(t, json.Unmarshal(data, &read))
				if len(sent) > 9 && (read.Unparsed.Connections != 1 || read.Unparsed.Bytes != int64(2*len(sent)) || len(read.Counts) != 0) {
					t.Errorf("got %+v of %d bytes, counts %v", read.Unparsed, len(sent), read.Counts)
				}
			})
		}
	}
}

func requestFrameOf(number uint16) []byte {
	return framed(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(nil, number), 1))
}

// A frame that is longer than a broker takes passes and is counted.
func TestCountsOversizedFrames(t *testing.T) {
	h := &half{connection: newConnection(&link{name: "big"}), up: true}
	frame := endTxnFrame(1, "a", "t")
	binary.BigEndian.PutUint32(frame, maxFrame+1)
	h.sort(chunkOf(frame))
	if got := h.link.oversized.Load(); got != 1 || h.frame.left != maxFrame+5-len(frame) || h.raw.Load() {
		t.Errorf("%d frames, %d bytes left", got, h.frame.left)
	}
}

// Frames of 10 MB stream through: nothing of them is kept in the toxic.
func TestStreamsLargeFrames(t *testing.T) {
	const size = 10_000_000
	bed := newTestbed(t, "large")
	bed.arm("large", "other", `{"api": "Produce", "nth": 100, "action": "hold"}`)
	c := bed.dial("large")
	go c.send(t, produceFrame(1, 1, size), produceFrame(2, 1, size))
	if first, second := c.answer(t), c.answer(t); first != 1 || second != 2 {
		t.Errorf("%d and %d were answered", first, second)
	}
	if got := bed.brokers["large"].frames(); len(got) != 2 || !bytes.Equal(got[1], produceFrame(2, 1, size)) {
		t.Error("they arrived changed")
	}
	h := &half{connection: newConnection(new(link)), up: true}
	frame := produceFrame(1, 1, size)
	most := 0
	for chunk := range slices.Chunk(frame, 32<<10) {
		h.sort(chunkOf(chunk))
		most = max(most, h.size+cap(h.frame.head))
		for h.first < len(h.queue) {
			h.pop()
		}
	}
	if most > 32<<10 {
		t.Errorf("%d bytes were kept", most)
	}
}

// A held frame of 10 MB is delivered whole, and dropped whole, even when it is released before it has all come.
func TestHoldsLargeFrames(t *testing.T) {
	const size = 10_000_000
	for _, release := range []string{"deliver", "drop"} {
		for _, early := range []bool{true, false} {
			bed := newTestbed(t, "large")
			bed.arm("large", "h", `{"api": "Produce", "action": "hold"}`)
			c := bed.dial("large")
			frame := produceFrame(1, 1, size)
			c.send(t, frame[:size/2])
			bed.trip(1, "held")
			if early {
				bed.arm("large", "h", fmt.Sprintf(`{"release": %q}`, release))
			}
			c.send(t, frame[size/2:], endTxnFrame(2, "a", "t"))
			if !early {
				bed.arm("large", "h", fmt.Sprintf(`{"release": %q}`, release))
			}
			if got := c.answer(t); got != map[string]int32{"deliver": 1, "drop": 2}[release] {
				t.Errorf("%s: %d was answered", release, got)
			}
			if got := bed.brokers["large"].frames()[0]; release == "deliver" && !bytes.Equal(got, frame) {
				t.Error("it arrived changed")
			}
			must(t, theBook.patch(json.RawMessage("null")))
			theBook.trips = nil
		}
	}
}

// Rules can be changed, and toxics added and removed, while frames are held; the API answers and the frames stay held.
func TestIsUpdatedWhileItHolds(t *testing.T) {
	for _, at := range []string{"request", "response"} {
		bed := newTestbed(t, "update")
		bed.arm("update", "h", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold"}`, at))
		c := bed.dial("update")
		c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 50_000))
		bed.trip(1, "held")
		for i := range 20 {
			bed.arm("update", "other", fmt.Sprintf(`{"api": "Fetch", "action": "hold", "nth": %d}`, i+1))
			addToxic(t, bed.proxies["update"], `{"name":"late","type":"delay","stream":"upstream","attributes":{"latency":1}}`)
			must(t, bed.proxies["update"].Toxics.RemoveToxic(t.Context(), "late"))
			must(t, bed.proxies["update"].Toxics.RemoveToxic(t.Context(), "meter_downstream"))
			addToxic(t, bed.proxies["update"], `{"name":"meter_downstream","type":"meter","stream":"downstream"}`)
		}
		c.isSilent(t)
		bed.arm("update", "h", `{"release": "deliver"}`)
		if first, second := c.answer(t), c.answer(t); first != 1 || second != 2 {
			t.Errorf("%d and %d were answered", first, second)
		}
		must(t, theBook.patch(json.RawMessage("null")))
		theBook.trips = nil
	}
}

// The rule that holds, or the toxic, is removed: what was held is delivered, and the connection goes on.
func TestIsRemovedWhileItHolds(t *testing.T) {
	for _, removed := range []string{"rule", "upstream", "downstream"} {
		t.Run(removed, func(t *testing.T) {
			bed := newTestbed(t, "remove")
			at := map[string]string{"rule": "request", "upstream": "request", "downstream": "response"}[removed]
			bed.arm("remove", "h", fmt.Sprintf(`{"api": "EndTxn", "at": %q, "action": "hold"}`, at))
			c := bed.dial("remove")
			c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 50_000))
			bed.trip(1, "held")
			if removed == "rule" {
				bed.arm("remove", "h", "null")
			} else {
				must(t, bed.proxies["remove"].Toxics.RemoveToxic(t.Context(), "kafka_"+removed))
			}
			c.send(t, produceFrame(3, 1, 50_000))
			for want := range int32(3) {
				if got := c.answer(t); got != want+1 {
					t.Errorf("%d was answered, want %d", got, want+1)
				}
			}
			if _, trips, _ := theBook.read(); trips[0].Outcome != "delivered" {
				t.Errorf("got %+v", trips[0])
			}
		})
	}
}

// Two rules on one frame act one after the other, in the order of their names.
func TestRulesActInTurn(t *testing.T) {
	bed := newTestbed(t, "turn")
	bed.arm("turn", "a", `{"api": "EndTxn", "action": "hold"}`)
	bed.arm("turn", "b", `{"api": "EndTxn", "action": "close"}`)
	c := bed.dial("turn")
	c.send(t, endTxnFrame(1, "a", "t"))
	bed.trip(2, "held")
	c.isSilent(t)
	bed.arm("turn", "a", `{"release": "deliver"}`)
	c.ends(t)
	bed.trip(1, "delivered")
	bed.trip(2, "closed")
}

// A wrong rule is refused with 400 and the name of its field, and none of the rules with it is armed.
func TestRefusesWrongRules(t *testing.T) {
	bed := newTestbed(t, "wrong")
	bed.arm("wrong", "old", `{"api": "EndTxn", "action": "count", "nth": 7}`)
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
		`{"api": "EndTxn", "action": "delay"}`:                               "rules.r.delay_ms: ",
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
	bed := newTestbed(t, "merge")
	bed.arm("merge", "r", `{"api": "EndTxn", "action": "count", "nth": 2, "links": ["merge"], "client_id": "a"}`)
	c := bed.dial("merge")
	c.send(t, endTxnFrame(1, "a", "t"))
	c.answer(t)
	bed.arm("merge", "r", `{"client_id": null, "links": null, "times": 0}`)
	got := bed.read("merge").Rules["r"]
	want := Rule{Spec{API: endTxn, At: "request", Nth: 2, Times: 0, Action: "count", MaxHoldMs: 60000}, 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.send(t, endTxnFrame(2, "b", "t"))
	c.answer(t)
	if trip := bed.trip(1, "delivered"); trip.CorrelationID != 2 || trip.N != 2 {
		t.Errorf("got %+v", trip)
	}
	if status, answer := bed.post("merge", `{"rules": null}`); status != http.StatusOK || len(bed.read("merge").Rules) != 0 {
		t.Errorf("%d %s", status, answer)
	}
}

// The oldest trips are forgotten, and counted.
func TestForgetsOldTrips(t *testing.T) {
	bed := newTestbed(t, "forget")
	bed.arm("forget", "c", `{"api": "EndTxn", "times": 0, "action": "count"}`)
	c := bed.dial("forget")
	for i := range int32(tripsKept + 5) {
		c.send(t, endTxnFrame(i, "a", "t"))
		c.answer(t)
	}
	if got := bed.read("forget"); len(got.Trips) != tripsKept || got.Forgotten != 5 || got.Trips[0].N != 6 {
		t.Errorf("%d trips, %d forgotten", len(got.Trips), got.Forgotten)
	}
}

// Whatever ends a connection, none of its goroutines stays.
func TestKafkaLeavesNothingRunning(t *testing.T) {
	bed := newTestbed(t, "leak")
	c := bed.dial("leak")
	c.send(t, endTxnFrame(1, "a", "t"))
	c.answer(t)
	c.Close()
	eventually(t, "the first to end", func() bool { return bed.brokers["leak"].hasEnded() == 1 })
	before := runtime.NumGoroutine()
	for _, at := range []string{"request", "response"} {
		for _, action := range []string{"close", "drop", "hold", "late", "delay"} {
			bed.armDirectly(fmt.Sprintf(`{"r": {"api": "EndTxn", "at": %q, "action": %q, "times": 0, "delay_ms": 50, "max_hold_ms": 300}}`, at, action))
			for range 5 {
				c := bed.dial("leak")
				go c.Write(bytes.Join([][]byte{endTxnFrame(1, "a", "t"), produceFrame(2, 1, 1_000_000)}, nil))
				c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				c.Read(make([]byte, 1))
				c.Close()
			}
			bed.armDirectly(`{"r": null}`)
		}
	}
	eventually(t, "their goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
}
