package kafka

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

// Every response is paired with its request, whatever chunks the bytes come in.
func TestPairsAcrossEveryChunkBorder(t *testing.T) {
	bed := newFixture(t, "pairs")
	bed.brokers["pairs"].code = 47
	bed.arm("seen", `{"api": "EndTxn", "action": "hold", "max_hold_ms": 1, "times": 0}`)
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
	hit := bed.interception(3, "max_hold")
	if hit.ErrorCode == nil || *hit.ErrorCode != 47 || hit.AnsweredNs < hit.InterceptedNs || hit.N != 3 {
		t.Errorf("got %+v", hit)
	}
	if hit.TransactionalID != "square-1" || hit.ClientID != "writer" || hit.Version != 3 || hit.CorrelationID != 2 || hit.Link != "pairs" {
		t.Errorf("got %+v", hit)
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

// A Produce with acks=0 has no response, and does not put the next ones out of step.
func TestAcksZero(t *testing.T) {
	bed := newFixture(t, "acks")
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
	h := &half{connection: newConnection(new(link)), up: true}
	h.sort(chunkOf(produceFrame(1, 0, 10)))
	if len(h.unanswered) != 0 {
		t.Error("an answer is awaited that will not come")
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

// What is not Kafka passes untouched and at once, with rules and without, and is counted.
func TestPassesWhatIsNotKafka(t *testing.T) {
	hello := append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 9, 9, 9}, make([]byte, 500)...) // reads as a Fetch of 369 MB
	random := make([]byte, 100_000)
	rand.New(rand.NewSource(4)).Read(random)
	for name, sent := range map[string][]byte{
		"tls": hello, "http": []byte("GET / HTTP/1.1\r\n\r\n"), "random": random, "zeros": make([]byte, 1000),
		"one byte": {'x'}, "half a header": endTxnFrame(1, "a", "t")[:9], "negative": framed(nil)[:4], "unknown api": requestFrameOf(2000),
	} {
		for _, rules := range []string{"null", `{"r": {"api": "EndTxn", "action": "hold", "times": 0}}`} {
			t.Run(name+" "+rules, func(t *testing.T) {
				upstream, err := net.Listen("tcp", "127.0.0.1:0")
				testbed.Must(t, err)
				defer upstream.Close()
				go testbed.Echo(upstream)
				bed := newFixture(t)
				bed.add(testbed.NewServer(), "tls", upstream.Addr().String())
				bed.armDirectly(rules)
				c := bed.dialOnly("tls")
				c.send(t, sent)
				got := make([]byte, len(sent))
				_, err = io.ReadFull(c, got)
				testbed.Must(t, err)
				if !bytes.Equal(got, sent) {
					t.Error("it came back changed")
				}
				var read shownToxic
				data, err := json.Marshal(bed.proxies["tls"].Toxics.GetToxic("kafka_upstream").Toxic)
				testbed.Must(t, err)
				testbed.Must(t, json.Unmarshal(data, &read))
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
	bed := newFixture(t, "large")
	bed.arm("other", `{"api": "Produce", "nth": 100, "action": "hold"}`)
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
			bed := newFixture(t, "large")
			bed.arm("h", `{"api": "Produce", "action": "hold"}`)
			c := bed.dial("large")
			frame := produceFrame(1, 1, size)
			c.send(t, frame[:size/2])
			bed.interception(1, "held")
			if early {
				bed.arm("h", fmt.Sprintf(`{"release": %q}`, release))
			}
			c.send(t, frame[size/2:], endTxnFrame(2, "a", "t"))
			if !early {
				bed.arm("h", fmt.Sprintf(`{"release": %q}`, release))
			}
			if got := c.answer(t); got != map[string]int32{"deliver": 1, "drop": 2}[release] {
				t.Errorf("%s: %d was answered", release, got)
			}
			if got := bed.brokers["large"].frames()[0]; release == "deliver" && !bytes.Equal(got, frame) {
				t.Error("it arrived changed")
			}
			testbed.Must(t, allRules.patch(json.RawMessage("null")))
			allRules.interceptions = nil
		}
	}
}

// On a raw link the beginning of what could be a frame is not waited for to come whole, even if a rule waits for such a frame.
func TestARawLinkIsMeteredAndNotRead(t *testing.T) {
	for _, raw := range []bool{false, true} {
		t.Run(fmt.Sprint(raw), func(t *testing.T) {
			bed := newFixture(t)
			echo, err := net.Listen("tcp", "127.0.0.1:0")
			testbed.Must(t, err)
			t.Cleanup(func() { echo.Close() })
			go func() {
				connection, err := echo.Accept()
				if err == nil {
					_, _ = io.Copy(connection, connection)
				}
			}()
			server := testbed.NewServer()
			proxy := toxiproxy.NewProxy(server, "service", "127.0.0.1:0", echo.Addr().String())
			testbed.Must(t, server.Collection.Add(proxy, true))
			t.Cleanup(proxy.Stop)
			for _, stream := range []string{up, down} {
				attributes := fmt.Sprintf(`{"link": "service%v", "stream": %q, "raw": %v}`, raw, stream, raw)
				toxic := fmt.Sprintf(`{"name": "kafka_%s", "type": "kafka", "stream": %q, "attributes": %s}`, stream, stream, attributes)
				testbed.AddToxic(t, proxy, toxic)
			}
			bed.arm("h", `{"api": "EndTxn", "at": "request", "action": "hold"}`)
			connection, err := net.Dial("tcp", proxy.Listen)
			testbed.Must(t, err)
			t.Cleanup(func() { connection.Close() })

			begins := []byte{0, 0, 1, 0, 0, 26, 0, 1, 0, 0, 0, 7, 0, 100, 'a'} // of an EndTxn whose client id has 100 bytes
			_, err = connection.Write(begins)
			testbed.Must(t, err)
			testbed.Must(t, connection.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
			answer := make([]byte, len(begins))
			_, err = io.ReadFull(connection, answer)

			if came := err == nil; came != raw {
				t.Errorf("on a link with raw %v, the echo came: %v (%v)", raw, came, err)
			}
		})
	}
}
