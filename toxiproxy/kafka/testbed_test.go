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
	"github.com/twmb/franz-go/pkg/kmsg"

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

const denied = 29 // an error code that no broker of these tests gives

// asked is a request as a client would send it.
func asked(number, version int16) kmsg.Request {
	request := kmsg.RequestForKey(number)
	request.SetVersion(version)
	name, id := "t", [16]byte{7}
	switch r := request.(type) {
	case *kmsg.ProduceRequest:
		r.Acks = -1
		for _, partitions := range [][]int32{{0, 3}, {1}} {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.TopicID = name, id
			for _, p := range partitions {
				topic.Partitions = append(topic.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p, Records: make([]byte, 80)})
			}
			r.Topics = append(r.Topics, topic)
		}
	case *kmsg.FetchRequest:
		r.SessionID, r.SessionEpoch = 99, 4
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID = name, id
		topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition(), kmsg.FetchRequestTopicPartition{Partition: 3})
		r.Topics = append(r.Topics, topic)
	case *kmsg.MetadataRequest:
		r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: &name, TopicID: id})
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey, r.CoordinatorKeys = "k", []string{"k", "l"}
	case *kmsg.AddPartitionsToTxnRequest:
		r.TransactionalID = "tx"
		r.Topics = append(r.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name, Partitions: []int32{0, 3}})
		one := kmsg.NewAddPartitionsToTxnRequestTransaction()
		one.TransactionalID = "tx"
		one.Topics = append(one.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: name, Partitions: []int32{0, 3}})
		r.Transactions = append(r.Transactions, one)
	case *kmsg.TxnOffsetCommitRequest:
		r.TransactionalID, r.Group = "tx", "g"
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = name, id
		topic.Partitions = append(topic.Partitions, kmsg.NewTxnOffsetCommitRequestTopicPartition(), kmsg.TxnOffsetCommitRequestTopicPartition{Partition: 3})
		r.Topics = append(r.Topics, topic)
	case *kmsg.AddOffsetsToTxnRequest:
		r.TransactionalID, r.Group = "tx", "g"
	case *kmsg.EndTxnRequest:
		r.TransactionalID = "tx"
	case *kmsg.HeartbeatRequest:
		r.Group = "g"
	}
	return request
}

func frameOf(request kmsg.Request, correlation int32) []byte {
	return requestFrame(request.Key(), request.GetVersion(), correlation, "a", request.AppendTo)
}

// errorsIn are the places of a response that have an error, and fails for one that is read or named wrongly.
func errorsIn(t *testing.T, frame []byte, request kmsg.Request) (places []string) {
	t.Helper()
	response := request.ResponseKind()
	body := frame[8:]
	if request.IsFlexible() {
		body = body[1:]
	}
	testbed.Must(t, response.ReadFrom(body))
	if again := response.AppendTo(nil); !bytes.Equal(again, body) {
		t.Errorf("version %d: %d bytes are read of %d", request.GetVersion(), len(again), len(body))
	}
	say := func(code int16, place string, rest ...any) {
		if code == denied {
			places = append(places, fmt.Sprintf(place, rest...))
		} else if code != 0 {
			t.Errorf("version %d: error %d", request.GetVersion(), code)
		}
	}
	topic := func(name string, id [16]byte) string {
		if id != ([16]byte{}) {
			return fmt.Sprint("id", id[0])
		}
		return name
	}
	switch r := response.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				say(p.ErrorCode, "%s-%d@%d", topic(t.Topic, t.TopicID), p.Partition, p.BaseOffset)
			}
		}
	case *kmsg.FetchResponse:
		say(r.ErrorCode, "top")
		if r.SessionID != 0 {
			t.Error("the session goes on")
		}
		for _, x := range r.Topics {
			for _, p := range x.Partitions {
				say(p.ErrorCode, "%s-%d", topic(x.Topic, x.TopicID), p.Partition)
				if p.RecordBatches == nil {
					t.Error("the records are null")
				}
			}
		}
	case *kmsg.MetadataResponse:
		say(r.ErrorCode, "top")
		for _, x := range r.Topics {
			say(x.ErrorCode, "%s of %s:%d", topic(*x.Topic, x.TopicID), r.Brokers[0].Host, r.Brokers[0].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		say(r.ErrorCode, "top")
		for _, c := range r.Coordinators {
			say(c.ErrorCode, "%s", c.Key)
		}
	case *kmsg.HeartbeatResponse:
		say(r.ErrorCode, "top")
	case *kmsg.InitProducerIDResponse:
		say(r.ErrorCode, "top %d", r.ProducerID)
	case *kmsg.AddPartitionsToTxnResponse:
		say(r.ErrorCode, "top")
		for _, x := range r.Topics {
			for _, p := range x.Partitions {
				say(p.ErrorCode, "%s-%d", x.Topic, p.Partition)
			}
		}
		for _, one := range r.Transactions {
			for _, x := range one.Topics {
				for _, p := range x.Partitions {
					say(p.ErrorCode, "%s %s-%d", one.TransactionalID, x.Topic, p.Partition)
				}
			}
		}
	case *kmsg.AddOffsetsToTxnResponse:
		say(r.ErrorCode, "top")
	case *kmsg.EndTxnResponse:
		say(r.ErrorCode, "top")
	case *kmsg.TxnOffsetCommitResponse:
		for _, x := range r.Topics {
			for _, p := range x.Partitions {
				say(p.ErrorCode, "%s-%d", topic(x.Topic, x.TopicID), p.Partition)
			}
		}
	}
	return places
}

// metadataFrame is a broker's answer that names two brokers.
func metadataFrame(version int16, correlation int32) []byte {
	answer := kmsg.NewPtrMetadataResponse()
	answer.SetVersion(version)
	answer.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "b1", Port: 9092}, {NodeID: 2, Host: "b2", Port: 9093}}
	data := binary.BigEndian.AppendUint32(nil, uint32(correlation))
	if answer.IsFlexible() {
		data = append(data, 0)
	}
	return framed(answer.AppendTo(data))
}
