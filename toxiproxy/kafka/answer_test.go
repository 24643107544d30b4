package kafka

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

// Every API that can be answered is, in its lowest, a middle, and its highest version: over the wire, with the errors where a
// client looks for them, and the broker sees none of it.
func TestAnswersEveryApi(t *testing.T) {
	for _, c := range []struct {
		number, version int16
		want            string
	}{
		{produce, 0, "t-0@-1 t-3@-1 t-1@-1"}, {produce, 8, "t-0@-1 t-3@-1 t-1@-1"}, {produce, 9, "t-0@-1 t-3@-1 t-1@-1"},
		{produce, 13, "id7-0@-1 id7-3@-1 id7-1@-1"},
		{fetch, 0, "t-0 t-3"}, {fetch, 11, "t-0 t-3"}, {fetch, 12, "t-0 t-3"}, {fetch, 18, "id7-0 id7-3"},
		{metadata, 0, "t of b1:9092"}, {metadata, 8, "t of b1:9092"}, {metadata, 9, "t of b1:9092"}, {metadata, 13, "id7 of b1:9092"},
		{findCoordinator, 0, "top"}, {findCoordinator, 3, "top"}, {findCoordinator, 4, "k l"}, {findCoordinator, 6, "k l"},
		{heartbeat, 0, "top"}, {heartbeat, 3, "top"}, {heartbeat, 4, "top"},
		{initProducerID, 0, "top -1"}, {initProducerID, 2, "top -1"}, {initProducerID, 5, "top -1"},
		{addPartitionsToTxn, 0, "t-0 t-3"}, {addPartitionsToTxn, 3, "t-0 t-3"}, {addPartitionsToTxn, 4, "top tx t-0 tx t-3"},
		{addPartitionsToTxn, 5, "top tx t-0 tx t-3"},
		{addOffsetsToTxn, 0, "top"}, {addOffsetsToTxn, 3, "top"}, {addOffsetsToTxn, 4, "top"},
		{endTxn, 0, "top"}, {endTxn, 3, "top"}, {endTxn, 5, "top"},
		{txnOffsetCommit, 0, "t-0 t-3"}, {txnOffsetCommit, 3, "t-0 t-3"}, {txnOffsetCommit, 6, "id7-0 id7-3"},
	} {
		t.Run(fmt.Sprintf("%s %d", apis[c.number].name, c.version), func(t *testing.T) {
			bed := newFixture(t, "any")
			bed.brokers["any"].respond = func(parsed header) []byte {
				if parsed.api == metadata {
					return metadataFrame(parsed.version, parsed.correlation)
				}
				return response(parsed.api, parsed.version, parsed.correlation, 0)
			}
			client := bed.dial("any")
			if c.number == metadata {
				client.send(t, frameOf(asked(metadata, 1), 1))
				client.answer(t)
			}
			before := len(bed.brokers["any"].frames())
			bed.arm("a", fmt.Sprintf(`{"api": %d, "action": "answer", "error_code": %d}`, c.number, denied))
			request := asked(c.number, c.version)
			client.send(t, frameOf(request, 7))
			frame, err := readFrame(client)
			testbed.Must(t, err)
			if got := int32(binary.BigEndian.Uint32(frame[4:])); got != 7 {
				t.Errorf("%d was answered", got)
			}
			if got := strings.Join(errorsIn(t, frame, request), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			hit := bed.interception(1, "answered")
			if hit.AnsweredNs < hit.InterceptedNs || hit.ReleasedNs < hit.InterceptedNs || hit.ErrorCode == nil || *hit.ErrorCode != denied {
				t.Errorf("got %+v", hit)
			}
			client.send(t, produceFrame(8, 1, 10))
			if got := client.answer(t); got != 8 {
				t.Errorf("%d was answered", got)
			}
			if got := len(bed.brokers["any"].frames()); got != before+1 {
				t.Errorf("the broker has seen %d requests", got-before)
			}
		})
	}
}

// The versions that a client of today may use (Java's 4.3, librdkafka 2.16) are known; InitProducerId 6 is not, and is not stable.
func TestKnowsTheVersionsOfClients(t *testing.T) {
	for number, latest := range map[int16]int16{
		produce: 13, fetch: 18, metadata: 13, findCoordinator: 6, heartbeat: 4, initProducerID: 5, addPartitionsToTxn: 5, addOffsetsToTxn: 4, endTxn: 5, txnOffsetCommit: 5,
	} {
		if got := kmsg.RequestForKey(number).MaxVersion(); got < latest {
			t.Errorf("%s is known to version %d only", apis[number].name, got)
		}
	}
	for number := range answerers {
		for version := range kmsg.RequestForKey(int16(number)).MaxVersion() + 1 {
			request := kmsg.RequestForKey(int16(number))
			request.SetVersion(version)
			if request.IsFlexible() != isFlexible(int16(number), version) {
				t.Errorf("%s %d: kmsg says %v", apis[number].name, version, request.IsFlexible())
			}
		}
	}
}

// A request is answered after those before it, whenever the broker answers them, and before those behind it.
func TestAnswersInTheOrderOfRequests(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
	defer listener.Close()
	bed := newFixture(t)
	bed.add(testbed.NewServer(), "order", listener.Addr().String())
	bed.armDirectly(`{"a": {"api": "EndTxn", "action": "answer", "error_code": 29, "times": 0}}`)
	c := bed.dialOnly("order")
	c.send(t, endTxnFrame(1, "a", "t"), produceFrame(2, 1, 100_000), endTxnFrame(3, "a", "t"), endTxnFrame(4, "a", "t"),
		produceFrame(5, 1, 10), produceFrame(6, 0, 10), produceFrame(7, 1, 10), endTxnFrame(8, "a", "t"), produceFrame(9, 1, 10))
	if got := c.answer(t); got != 1 {
		t.Errorf("%d was answered", got)
	}
	server, err := listener.Accept()
	testbed.Must(t, err)
	defer server.Close()
	server.SetDeadline(time.Now().Add(testbed.Deadline))
	for _, want := range [][]byte{produceFrame(2, 1, 100_000), produceFrame(5, 1, 10), produceFrame(6, 0, 10), produceFrame(7, 1, 10), produceFrame(9, 1, 10)} {
		if got, err := readFrame(server); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the broker got %d bytes, or others: %v", len(got), err)
		}
	}
	c.isSilent(t) // 3 and 4 wait for 2
	if got := bed.outcomes(); got != "answered held held held" {
		t.Errorf("got %s", got)
	}
	second := response(produce, 9, 2, 0)
	for _, b := range second[:len(second)-1] {
		server.Write([]byte{b})
		time.Sleep(time.Millisecond) // a chunk of its own
	}
	_, err = readPart(c, len(second)-1)
	testbed.Must(t, err)
	c.isSilent(t) // not within the frame
	server.Write(append(second[len(second)-1:], response(produce, 9, 5, 0)...))
	_, err = readPart(c, 1)
	testbed.Must(t, err)
	for _, want := range []int32{3, 4, 5} {
		if got := c.answer(t); got != want {
			t.Errorf("%d was answered, want %d", got, want)
		}
	}
	server.Write(append(response(produce, 9, 7, 0), response(produce, 9, 9, 0)...)) // 8 is between them, in one chunk
	for _, want := range []int32{7, 8, 9} {
		if got := c.answer(t); got != want {
			t.Errorf("%d was answered, want %d", got, want)
		}
	}
	if got := bed.outcomes(); got != "answered answered answered answered" {
		t.Errorf("got %s", got)
	}
}

func readPart(from net.Conn, n int) ([]byte, error) {
	part := make([]byte, n)
	for at := 0; at < n; {
		got, err := from.Read(part[at:])
		if err != nil {
			return nil, err
		}
		at += got
	}
	return part, nil
}

// outcomes are those of all interceptions, in their order.
func (b *fixture) outcomes() string {
	_, interceptions, _ := allRules.read()
	var outcomes []string
	for _, i := range interceptions {
		outcomes = append(outcomes, i.Outcome)
	}
	return strings.Join(outcomes, " ")
}

// From the second on, three are answered; the counters have every request, and the responses and bytes that were the broker's.
func TestAnswersSeveralTimes(t *testing.T) {
	bed := newFixture(t, "times")
	bed.arm("a", `{"api": "EndTxn", "action": "answer", "error_code": 29, "nth": 2, "times": 3}`)
	c := bed.dial("times")
	codes := make([]int16, 0, 6)
	for i := range int32(6) {
		c.send(t, endTxnFrame(i, "a", "t"))
		frame, err := readFrame(c)
		testbed.Must(t, err)
		if got := int32(binary.BigEndian.Uint32(frame[4:])); got != i {
			t.Errorf("%d was answered, want %d", got, i)
		}
		code, _, _ := errorOf(frame, endTxn, 3)
		codes = append(codes, code)
	}
	if !slices.Equal(codes, []int16{0, 29, 29, 29, 0, 0}) {
		t.Errorf("got %v", codes)
	}
	if got := bed.brokers["times"].frames(); len(got) != 3 || !bytes.Equal(got[1], endTxnFrame(4, "a", "t")) {
		t.Errorf("the broker has seen %d requests", len(got))
	}
	read := bed.read("times")
	sent, answered := len(endTxnFrame(0, "a", "t")), len(response(endTxn, 3, 0, 0))
	if counts := read.Counts["EndTxn"]; counts.Requests != 6 || counts.Responses != 3 || counts.Bytes != int64(6*sent+3*answered) {
		t.Errorf("got %+v", counts)
	}
	if got := read.Rules["a"]; got.Matched != 6 || got.ErrorCode == nil || *got.ErrorCode != 29 {
		t.Errorf("got %+v", got)
	}
}

// A Produce with acks=0 has no answer: it passes, and the rule does not count it.
func TestDoesNotAnswerAcksZero(t *testing.T) {
	bed := newFixture(t, "acks")
	bed.arm("a", `{"api": "Produce", "action": "answer", "error_code": 29, "times": 0}`)
	c := bed.dial("acks")
	c.send(t, produceFrame(1, 0, 10), frameOf(asked(produce, 9), 2), produceFrame(3, 0, 10))
	if got := c.answer(t); got != 2 {
		t.Errorf("%d was answered", got)
	}
	testbed.Eventually(t, "the others to arrive", func() bool { return len(bed.brokers["acks"].frames()) == 2 })
	if got := bed.read("acks"); got.Rules["a"].Matched != 1 || len(got.Interceptions) != 1 {
		t.Errorf("got %+v", got.Rules)
	}
}

// A Metadata that names no topics passes uncounted, and so does one before the brokers are known, which any client of the link
// may bring about; an answer without brokers does not.
func TestAnswersMetadataWithBrokersOnly(t *testing.T) {
	bed := newFixture(t, "meta")
	empty := true
	bed.brokers["meta"].respond = func(parsed header) []byte {
		if parsed.api == metadata && !empty {
			return metadataFrame(parsed.version, parsed.correlation)
		}
		return response(parsed.api, parsed.version, parsed.correlation, 0)
	}
	bed.arm("a", `{"api": "Metadata", "action": "answer", "error_code": 29, "times": 0}`)
	c, other := bed.dial("meta"), bed.dial("meta")
	for _, version := range []int16{0, 1, 12} {
		all := asked(metadata, version).(*kmsg.MetadataRequest)
		all.Topics = nil
		c.send(t, frameOf(asked(metadata, version), 1), frameOf(all, 2))
		if first, second := c.answer(t), c.answer(t); first != 1 || second != 2 {
			t.Errorf("%d and %d were answered", first, second)
		}
	}
	empty = false
	other.send(t, frameOf(asked(metadata, 12), 3))
	other.answer(t)
	if got := bed.read("meta").Rules["a"].Matched; got != 0 {
		t.Errorf("%d matched", got)
	}
	c.send(t, frameOf(asked(metadata, 5), 4))
	frame, err := readFrame(c)
	testbed.Must(t, err)
	if got := errorsIn(t, frame, asked(metadata, 5)); len(got) != 1 || got[0] != "t of b1:9092" {
		t.Errorf("got %v", got)
	}
}

// A request to fetch on in a session, without partitions, has its error at the top; before there were sessions, it has none.
func TestAnswersAnEmptyFetchAtTheTop(t *testing.T) {
	for version, want := range map[int16]string{6: "", 7: "top", 18: "top"} {
		request := asked(fetch, version).(*kmsg.FetchRequest)
		request.Topics = nil
		frame := new(link).answerTo(frameOf(request, 1), denied)
		if want == "" {
			if frame != nil {
				t.Errorf("version %d was answered", version)
			}
		} else if got := strings.Join(errorsIn(t, frame, request), " "); got != want {
			t.Errorf("version %d: got %q", version, got)
		}
	}
}

// The error that sends a client back to its bootstrap servers stands at the top, where there is such a place.
func TestAnswersRebootstrapAtTheTop(t *testing.T) {
	l := new(link)
	l.metadata.Store(&copiedAnswer{request: request{version: 12}, frame: metadataFrame(12, 1)})
	for version, want := range map[int16]int16{12: 0, 13: 129} {
		answer := kmsg.NewPtrMetadataResponse()
		answer.SetVersion(version)
		testbed.Must(t, answer.ReadFrom(l.answerTo(frameOf(asked(metadata, version), 1), 129)[9:]))
		if answer.ErrorCode != want || answer.Topics[0].ErrorCode != 129 {
			t.Errorf("version %d: got %+v", version, answer)
		}
	}
}

// What cannot be read, or is of a version of the future, is delivered as it came, and the interception says why.
func TestDeliversWhatCannotBeAnswered(t *testing.T) {
	future := requestFrame(endTxn, 60, 1, "a", func(data []byte) []byte { return append(text(data, "t", true), make([]byte, 30)...) })
	short := endTxnFrame(1, "a", "t")
	short = framed(short[4 : len(short)-3])
	for name, frame := range map[string][]byte{"version": future, "body": short, "no topics": produceFrame(1, 1, 30)} {
		t.Run(name, func(t *testing.T) {
			bed := newFixture(t, "odd")
			bed.armDirectly(`{"e": {"api": "EndTxn", "action": "answer", "error_code": 29}, "p": {"api": "Produce", "action": "answer", "error_code": 29}}`)
			c := bed.dial("odd")
			c.send(t, frame, transactionalFrame(addOffsetsToTxn, 3, 2, "a", "t"))
			if first, second := c.answer(t), c.answer(t); first != 1 || second != 2 {
				t.Errorf("%d and %d were answered", first, second)
			}
			bed.interception(1, "unanswerable")
			if got := bed.brokers["odd"].frames(); len(got) != 2 || !bytes.Equal(got[0], frame) {
				t.Error("it arrived changed")
			}
		})
	}
}

// A frame that comes slowly, or is longer than what is usually kept, is taken out whole.
func TestAnswersLargeAndSlowFrames(t *testing.T) {
	bed := newFixture(t, "large")
	bed.arm("a", `{"api": "Produce", "action": "answer", "error_code": 29, "times": 0}`)
	c, slow := bed.dial("large"), bed.dial("large")
	for part := range slices.Chunk(frameOf(asked(produce, 9), 3), 9) {
		slow.send(t, part)
		time.Sleep(time.Millisecond) // a chunk of its own
	}
	slow.send(t, endTxnFrame(4, "a", "t"))
	if first, second := slow.answer(t), slow.answer(t); first != 3 || second != 4 {
		t.Errorf("%d and %d were answered", first, second)
	}
	c.SetDeadline(time.Now().Add(6 * testbed.Deadline)) // for a busy machine and the race detector
	large := asked(produce, 9).(*kmsg.ProduceRequest)
	large.Topics[0].Partitions[0].Records = make([]byte, parkedBytes+1<<20)
	c.send(t, frameOf(large, 1), endTxnFrame(2, "a", "t"))
	if first, second := c.answer(t), c.answer(t); first != 1 || second != 2 {
		t.Errorf("%d and %d were answered", first, second)
	}
	if got := bed.brokers["large"].frames(); len(got) != 2 || !bytes.Equal(got[0], endTxnFrame(4, "a", "t")) {
		t.Errorf("%d requests arrived, or others", len(got))
	}
}

// A frame of which a part never comes is given up after max_hold_ms, or when its rule is removed, and passes as it comes.
func TestDeliversAFrameThatDoesNotComeWhole(t *testing.T) {
	for name, outcome := range map[string]string{"max_hold": "max_hold", "removed": "delivered"} {
		t.Run(name, func(t *testing.T) {
			bed := newFixture(t, "part")
			bed.arm("a", fmt.Sprintf(`{"api": "Produce", "action": "answer", "error_code": 29, "max_hold_ms": %d}`, map[string]int{"max_hold": 100, "removed": 60000}[name]))
			c := bed.dial("part")
			frame := frameOf(asked(produce, 9), 1)
			c.send(t, frame[:100])
			if name == "removed" {
				bed.interception(1, "held")
				bed.arm("a", "null")
			}
			bed.interception(1, outcome)
			c.send(t, frame[100:])
			if got := c.answer(t); got != 1 {
				t.Errorf("%d was answered", got)
			}
			if got := bed.brokers["part"].frames(); len(got) != 1 || !bytes.Equal(got[0], frame) {
				t.Error("it arrived changed")
			}
		})
	}
}

// A request before it that is dropped has no answer to wait for; one that is held delays it, with all that is behind.
func TestAnswersBehindAHeldRequest(t *testing.T) {
	for release, want := range map[string][]int32{"drop": {2, 3}, "deliver": {1, 2, 3}} {
		t.Run(release, func(t *testing.T) {
			bed := newFixture(t, "behind")
			bed.arm("a", `{"api": "EndTxn", "action": "answer", "error_code": 29}`)
			bed.arm("h", `{"api": "Produce", "action": "hold"}`)
			c := bed.dial("behind")
			c.send(t, produceFrame(1, 1, 10), endTxnFrame(2, "a", "t"), transactionalFrame(addOffsetsToTxn, 3, 3, "a", "t"))
			bed.interception(1, "held")
			c.isSilent(t)
			bed.arm("h", fmt.Sprintf(`{"release": %q}`, release))
			for _, want := range want {
				if got := c.answer(t); got != want {
					t.Errorf("%d was answered, want %d", got, want)
				}
			}
			bed.interception(2, "answered")
		})
	}
}

// One request may be held first and answered then, and a rule behind the answer has nothing left to do.
func TestHoldsThenAnswers(t *testing.T) {
	bed := newFixture(t, "turn")
	bed.arm("a", `{"api": "EndTxn", "action": "hold"}`)
	bed.arm("b", `{"api": "EndTxn", "action": "answer", "error_code": 29}`)
	bed.arm("c", `{"api": "EndTxn", "action": "hold"}`)
	c := bed.dial("turn")
	c.send(t, endTxnFrame(1, "a", "t"))
	bed.interception(3, "held")
	c.isSilent(t)
	bed.arm("a", `{"release": "deliver"}`)
	if got := c.answer(t); got != 1 {
		t.Errorf("%d was answered", got)
	}
	bed.interception(3, "answered")
	if got := bed.outcomes(); got != "delivered answered answered" {
		t.Errorf("got %s", got)
	}
	if got := len(bed.brokers["turn"].frames()); got != 0 {
		t.Errorf("%d requests arrived", got)
	}
}

// An answer that waits for the broker ends with the connection, and the interception says that it was not given.
func TestAnAnswerEndsWithItsConnection(t *testing.T) {
	for _, end := range []string{"client", "broker", "upstream", "downstream"} {
		t.Run(end, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			testbed.Must(t, err)
			defer listener.Close()
			bed := newFixture(t)
			bed.add(testbed.NewServer(), "end", listener.Addr().String())
			bed.armDirectly(`{"a": {"api": "EndTxn", "action": "answer", "error_code": 29}}`)
			c := bed.dialOnly("end")
			server, err := listener.Accept()
			testbed.Must(t, err)
			defer server.Close()
			c.send(t, produceFrame(1, 1, 10), endTxnFrame(2, "a", "t"))
			_, err = readFrame(server)
			testbed.Must(t, err)
			testbed.Eventually(t, "the interception", func() bool { return bed.outcomes() == "held" })
			time.Sleep(20 * time.Millisecond) // the reply is kept
			switch end {
			case "client":
				testbed.Die(t, c.Conn)
			case "broker":
				server.Close()
				c.ends(t)
			default:
				testbed.Must(t, bed.proxies["end"].Toxics.RemoveToxic(t.Context(), "kafka_"+end))
				c.ends(t)
			}
			testbed.Eventually(t, "the end", func() bool { return bed.outcomes() == "closed" || bed.outcomes() == "client gone" })
		})
	}
}

// The server starts the upstream half of a connection before it makes the other one: the answer to the very first request may be
// there before there is a way back.
func TestAnswersTheFirstRequestOfAConnection(t *testing.T) {
	bed := newFixture(t, "first")
	bed.armDirectly(`{"a": {"api": "EndTxn", "action": "answer", "error_code": 29, "times": 0}}`)
	for i := range int32(200) {
		c := bed.dialOnly("first")
		c.send(t, endTxnFrame(i, "a", "t"))
		if got := c.answer(t); got != i {
			t.Errorf("%d was answered", got)
		}
		c.Close()
	}
	if got := len(bed.brokers["first"].frames()); got != 0 {
		t.Errorf("%d requests arrived", got)
	}
}

// On a connection whose halves are no longer paired there is no way back to the client: the request is delivered.
func TestDoesNotAnswerAfterTheToxicHasGone(t *testing.T) {
	bed := newFixture(t, "way")
	c := bed.dial("way")
	testbed.Must(t, bed.proxies["way"].Toxics.RemoveToxic(t.Context(), "kafka_downstream"))
	bed.armDirectly(`{"a": {"api": "EndTxn", "action": "answer", "error_code": 29}}`)
	c.send(t, endTxnFrame(1, "a", "t"))
	if got := c.answer(t); got != 1 {
		t.Errorf("%d was answered", got)
	}
}

// A rule that cannot answer is refused, and the message says what to write.
func TestRefusesWrongAnswers(t *testing.T) {
	bed := newFixture(t, "wrong")
	const names = "Produce, Fetch, Metadata, FindCoordinator, Heartbeat, InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit"
	for rule, message := range map[string]string{
		`{"api": "JoinGroup", "action": "answer", "error_code": 29}`:                    "rules.r.api: has no answer; the action answer is for " + names,
		`{"api": "EndTxn", "at": "response", "action": "answer", "error_code": 29}`:     "rules.r.at: is request for the action answer: the broker never sees what is answered",
		`{"api": "EndTxn", "release": "deliver", "action": "answer", "error_code": 29}`: "rules.r.release: is for frames that are held, not for the action answer",
		`{"api": "EndTxn", "action": "answer"}`:                                         "rules.r.error_code: is missing; the action answer needs one",
		`{"api": "EndTxn", "action": "answer", "error_code": 0}`:                        "rules.r.error_code: is -1, or 1 or more; 0 would be success",
		`{"api": "EndTxn", "action": "answer", "error_code": -2}`:                       "rules.r.error_code: is -1, or 1 or more; 0 would be success",
		`{"api": "EndTxn", "action": "answer", "error_code": 40000}`:                    "rules.r.error_code: ",
		`{"api": "EndTxn", "action": "answer", "error_code": "NOT_COORDINATOR"}`:        "rules.r.error_code: ",
		`{"api": "EndTxn", "action": "hold", "error_code": 29}`:                         "rules.r.error_code: is for the action answer only",
	} {
		status, answer := bed.post("wrong", fmt.Sprintf(`{"rules": {"r": %s}}`, rule))
		if status != http.StatusBadRequest || !strings.Contains(answer, message) {
			t.Errorf("%s: %d %s", rule, status, answer)
		}
	}
	bed.arm("hold", `{"api": "EndTxn", "action": "hold", "error_code": null}`)
}

// Whatever the bytes and the chunks, the frame that is answered is the only one that the broker does not get, and the answers
// reach the client in the order of the requests.
func FuzzAnswersOnlyItsFrame(f *testing.F) {
	f.Add([]byte{0}, uint8(1))
	f.Add([]byte{6, 1}, uint8(2))
	f.Add([]byte{255, 3}, uint8(3))
	f.Fuzz(func(t *testing.T, lengths []byte, nth uint8) {
		requests := [][]byte{endTxnFrame(1, "a", "t"), produceFrame(2, 1, 300), endTxnFrame(3, "a", "t"), produceFrame(4, 1, 0), endTxnFrame(5, "b", "u")}
		n := int(nth%3) + 1
		testbed.Must(t, allRules.patch(json.RawMessage("null")))
		testbed.Must(t, allRules.patch(json.RawMessage(fmt.Sprintf(`{"fuzz": {"api": "EndTxn", "action": "answer", "error_code": 29, "nth": %d}}`, n))))
		defer allRules.patch(json.RawMessage("null"))
		c := newConnection(new(link))
		got := passed(&half{connection: c, up: true}, bytes.Join(requests, nil), lengths, "")
		want := bytes.Join(append(append([][]byte{}, requests[:2*n-2]...), requests[2*n-1:]...), nil)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes came out, want %d", len(got), len(want))
		}
		var responses, answers [][]byte
		for i := range int32(5) {
			one := response([]int16{endTxn, produce}[i%2], []int16{3, 9}[i%2], i+1, 0)
			if int(i) == 2*n-2 {
				answers = append(answers, c.link.answerTo(requests[i], denied))
				continue
			}
			responses, answers = append(responses, one), append(answers, one)
		}
		down := &half{connection: c}
		for at, data := 0, bytes.Join(responses, nil); len(data) > 0; at++ {
			length := len(data)
			if len(lengths) > 0 {
				length = min(int(lengths[at%len(lengths)])+1, length)
			}
			down.sort(chunkOf(data[:length:length]))
			data = data[length:]
			down.giveReplies() // as every step does
		}
		if got := passed(down, nil, nil, ""); !bytes.Equal(got, bytes.Join(answers, nil)) {
			t.Fatalf("the client got %x, want %x", got, bytes.Join(answers, nil))
		}
	})
}

// Any body of any request has an answer that can be read, or none.
func FuzzAnswersAnyBody(f *testing.F) {
	for number := range answerers {
		for version := range kmsg.RequestForKey(int16(number)).MaxVersion() + 1 {
			f.Add(int16(number), version, asked(int16(number), version).AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, number, version int16, body []byte) {
		l := new(link)
		l.metadata.Store(&copiedAnswer{request: request{version: 12}, frame: metadataFrame(12, 1)})
		if number < 0 || int(number) >= len(apis) || version < 0 {
			return
		}
		if answerers[apiNumber(number)] != nil && isFlexible(number, version) { // garbled tags are not for kmsg: see answerTo
			whole := asked(number, version).AppendTo(nil)
			body = whole[:min(len(body), len(whole))]
		}
		frame := requestFrame(number, version, 7, "a", func(data []byte) []byte { return append(data, body...) })
		answer := l.answerTo(frame, denied)
		if answer == nil {
			return
		}
		correlation, total, need, ok := parseResponse(answer)
		if correlation != 7 || total != len(answer) || need != 0 || !ok {
			t.Fatalf("the frame of %s %d is odd: %x", apis[number].name, version, answer)
		}
		response := kmsg.ResponseForKey(number)
		response.SetVersion(version)
		rest := answer[8:]
		if response.IsFlexible() {
			rest = rest[1:]
		}
		if response.ReadFrom(rest) != nil || len(response.AppendTo(nil)) != len(rest) {
			t.Fatalf("the answer to %s %d cannot be read: %x", apis[number].name, version, answer)
		}
	})
}
