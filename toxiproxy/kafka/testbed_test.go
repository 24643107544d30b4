package kafka

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

func init() {
	toxics.Register("kafka", new(Toxic))
	toxics.Register("passing", new(passing))
}

// passing is a neighbour that heeds an interrupt whatever it does. The stock toxics block on their output, and so their removal
// from a connection whose receiver has died would never end.
type passing struct{}

type passingState struct{ chunk *stream.StreamChunk }

func (*passing) NewState() interface{} { return new(passingState) }

func (*passing) Pipe(stub *toxics.ToxicStub) {
	state := stub.State.(*passingState)
	for {
		input, output := stub.Input, stub.Output
		if state.chunk == nil {
			output = nil
		} else {
			input = nil
		}
		select {
		case <-stub.Interrupt:
			return
		case output <- state.chunk:
			state.chunk = nil
		case state.chunk = <-input:
			if state.chunk == nil {
				stub.Close()
				return
			}
		}
	}
}

func (*passing) Cleanup(stub *toxics.ToxicStub) {
	if state := stub.State.(*passingState); state.chunk != nil && stub.WriteOutput(state.chunk, time.Second) != nil {
		stub.Close()
		go func() {
			for range stub.Input {
			}
		}()
	}
}

// fixture is a Toxiproxy with links to a broker each, and its API over HTTP.
type fixture struct {
	t       *testing.T
	api     string
	proxies map[string]*toxiproxy.Proxy
	brokers map[string]*broker
}

// broker answers every request but a Produce with acks=0, and keeps what it was sent.
type broker struct {
	listener net.Listener
	code     int16
	respond  func(header) []byte // the response, if it is not the usual one

	mu    sync.Mutex
	got   [][]byte
	ended int // connections whose client's side ended
}

func newFixture(t *testing.T, names ...string) *fixture {
	t.Helper()
	server := testbed.NewServer()
	api := httptest.NewServer(server.Routes())
	bed := &fixture{t, api.URL, make(map[string]*toxiproxy.Proxy), make(map[string]*broker)}
	t.Cleanup(func() {
		testbed.Must(t, allRules.patch(json.RawMessage("null")))
		allRules.mu.Lock()
		defer allRules.mu.Unlock()
		allRules.interceptions, allRules.forgotten = nil, 0
		api.Close()
	})
	book := toxiproxy.NewProxy(server, theArm, "127.0.0.1:0", "127.0.0.1:0")
	testbed.Must(t, server.Collection.Add(book, false))
	testbed.AddKafka(t, book, theArm, up)
	for _, name := range names {
		bed.brokers[name] = startBroker(t)
		bed.add(server, name, bed.brokers[name].listener.Addr().String())
	}
	return bed
}

func (b *fixture) add(server *toxiproxy.ApiServer, name, upstream string) {
	b.t.Helper()
	proxy := toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)
	testbed.Must(b.t, server.Collection.Add(proxy, true))
	for _, stream := range []string{"upstream", "downstream"} {
		testbed.AddKafka(b.t, proxy, name, stream)
	}
	b.proxies[name] = proxy
	b.t.Cleanup(proxy.Stop)
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
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
		if !ok || parsed.silent {
			continue
		}
		answer := response(parsed.api, parsed.version, parsed.correlation, b.code)
		if b.respond != nil {
			answer = b.respond(parsed)
		}
		connection.Write(answer)
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
		return append(text(data, transactional, isFlexible(number, version)), make([]byte, 12)...) // producer id, epoch, committed, no tags
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
func (b *fixture) dial(link string) *client {
	b.t.Helper()
	c := b.dialOnly(link)
	c.send(b.t, requestFrame(apiVersions, 2, -1, "a", func(data []byte) []byte { return data }))
	if got := c.answer(b.t); got != -1 {
		b.t.Fatalf("%d was answered", got)
	}
	return c
}

func (b *fixture) dialOnly(link string) *client {
	b.t.Helper()
	return &client{testbed.Dial(b.t, b.proxies[link])}
}

type client struct{ net.Conn }

func (c *client) send(t *testing.T, frames ...[]byte) {
	t.Helper()
	_, err := c.Write(bytes.Join(frames, nil))
	testbed.Must(t, err)
}

// answer is the correlation id of the next response.
func (c *client) answer(t *testing.T) int32 {
	t.Helper()
	frame, err := readFrame(c)
	testbed.Must(t, err)
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
	defer c.SetReadDeadline(time.Now().Add(testbed.Deadline))
	_, err := c.Read(make([]byte, 1))
	if wait, ok := err.(net.Error); !ok || !wait.Timeout() {
		t.Errorf("something came, or the connection ended: %v", err)
	}
}

// post changes a kafka toxic, over HTTP and within a time.
func (b *fixture) post(link, attributes string) (status int, answer string) {
	b.t.Helper()
	post := http.Client{Timeout: testbed.Deadline}
	body := strings.NewReader(fmt.Sprintf(`{"attributes": %s}`, attributes))
	answered, err := post.Post(fmt.Sprintf("%s/proxies/%s/toxics/kafka_upstream", b.api, link), "application/json", body)
	testbed.Must(b.t, err)
	defer answered.Body.Close()
	data, err := io.ReadAll(answered.Body)
	testbed.Must(b.t, err)
	return answered.StatusCode, string(data)
}

// theArm is a proxy that is closed. The stock server writes a toxic's toxicity in an update, and reads it when the toxic begins
// to run, without a lock: rules are changed through a toxic that never runs.
const theArm = "arm"

// arm changes one rule, which must be right.
func (b *fixture) arm(id, rule string) {
	b.t.Helper()
	if status, answer := b.post(theArm, fmt.Sprintf(`{"rules": {%q: %s}}`, id, rule)); status != http.StatusOK {
		b.t.Fatalf("%d: %s", status, answer)
	}
}

func (b *fixture) read(link string) (read shownToxic) {
	b.t.Helper()
	get := http.Client{Timeout: testbed.Deadline}
	answered, err := get.Get(fmt.Sprintf("%s/proxies/%s/toxics/kafka_downstream", b.api, link))
	testbed.Must(b.t, err)
	defer answered.Body.Close()
	var shown struct{ Attributes *shownToxic }
	shown.Attributes = &read
	testbed.Must(b.t, json.NewDecoder(answered.Body).Decode(&shown))
	return read
}

func (b *fixture) anyLink() string {
	for name := range b.proxies {
		return name
	}
	return ""
}

// interception waits for the n-th one to have an outcome.
func (b *fixture) interception(n int, outcome string) (found shownInterception) {
	b.t.Helper()
	link := b.anyLink()
	defer func() {
		if b.t.Failed() {
			b.t.Logf("interceptions: %+v", b.read(link).Interceptions)
		}
	}()
	testbed.Eventually(b.t, fmt.Sprintf("interception %d to be %s", n, outcome), func() bool {
		interceptions := b.read(link).Interceptions
		if len(interceptions) < n || interceptions[n-1].Outcome != outcome {
			return false
		}
		found = interceptions[n-1]
		return true
	})
	return found
}

func (b *fixture) armDirectly(rules string) {
	b.t.Helper()
	testbed.Must(b.t, allRules.patch(json.RawMessage(rules)))
}
