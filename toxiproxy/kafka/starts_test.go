package kafka

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

// offsetFetchAnswer gives position 100 of partition 0, none of 1, and an error of 2.
func offsetFetchAnswer(version int16, correlation int32) []byte {
	answer := kmsg.NewPtrOffsetFetchResponse()
	answer.SetVersion(version)
	metadata := "by hand"
	if version < groupsInAnswer {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = "orders"
		for number, position := range []int64{100, -1, 7} {
			one := kmsg.NewOffsetFetchResponseTopicPartition()
			one.Partition, one.Offset, one.Metadata, one.ErrorCode = int32(number), position, &metadata, int16(number/2)*14
			topic.Partitions = append(topic.Partitions, one)
		}
		answer.Topics = append(answer.Topics, topic)
	} else {
		for _, code := range []int16{0, 15} {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group, group.ErrorCode = fmt.Sprintf("group-%d", code), code
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic, topic.TopicID = "orders", [16]byte{0xab, 15: 1}
			for number, position := range []int64{100, -1, 7} {
				one := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				one.Partition, one.Offset, one.ErrorCode = int32(number), position, int16(number/2)*14
				topic.Partitions = append(topic.Partitions, one)
			}
			group.Topics = append(group.Topics, topic)
			answer.Groups = append(answer.Groups, group)
		}
	}
	data := binary.BigEndian.AppendUint32(nil, uint32(correlation))
	if isFlexible(offsetFetch, version) {
		data = append(data, 0)
	}
	return framed(answer.AppendTo(data))
}

// ofGroup is a request whose body begins with a group, and perhaps with a generation.
func ofGroup(number, version int16, correlation int32, group string, generation int32) []byte {
	return requestFrame(number, version, correlation, "reader", func(data []byte) []byte {
		if number == syncGroup || version < groupsInAnswer {
			data = text(data, group, isFlexible(number, version))
		}
		return append(binary.BigEndian.AppendUint32(data, uint32(generation)), make([]byte, 8)...)
	})
}

func readers(t *testing.T) (*fixture, *client) {
	t.Helper()
	bed := newFixture(t, "link")
	bed.brokers["link"].respond = func(asked header) []byte {
		if asked.api == offsetFetch {
			return offsetFetchAnswer(asked.version, asked.correlation)
		}
		return response(asked.api, asked.version, asked.correlation, 0)
	}
	return bed, bed.dial("link")
}

func (c *client) asks(t *testing.T, frame []byte) {
	t.Helper()
	c.send(t, frame)
	c.answer(t)
}

// In every version: what has an error is no start, and where there is no position it is -1.
func TestRemembersWhereReadersBegin(t *testing.T) {
	for version := range int16(11) {
		bed, c := readers(t)
		c.asks(t, ofGroup(syncGroup, 3, 1, "group-0", 5))
		c.asks(t, ofGroup(offsetFetch, version, 2, "group-0", 0))
		found := bed.read("link").Starts
		if len(found) != 2 {
			t.Fatalf("version %d: got %+v", version, found)
		}
		topic, id := "orders", ""
		if version >= idsInAnswer {
			topic, id = "", "ab000000000000000000000000000001"
		}
		for number, position := range []int64{100, -1} {
			got := found[number]
			if got.AskedNS == 0 || got.AskedNS > got.AnsweredNS {
				t.Errorf("version %d: asked at %d, answered at %d", version, got.AskedNS, got.AnsweredNS)
			}
			got.AskedNS, got.AnsweredNS = 0, 0
			want := shownStart{Group: "group-0", Topic: topic, TopicID: id, Partition: int32(number), Position: position, Generation: 5, ClientID: "reader"}
			if got != want {
				t.Errorf("version %d: got %+v", version, got)
			}
		}
	}
}

// Only who joins again, or comes over another connection, begins to read.
func TestWhoAsksAgainIsNoNewReader(t *testing.T) {
	bed, c := readers(t)
	generations := func() (found []int32) {
		for _, one := range bed.read("link").Starts {
			if one.Partition == 0 {
				found = append(found, one.Generation)
			}
		}
		return found
	}
	c.asks(t, ofGroup(offsetFetch, 7, 1, "a", 0))
	c.asks(t, ofGroup(offsetFetch, 7, 2, "a", 0))
	c.asks(t, ofGroup(syncGroup, 3, 3, "a", 1))
	c.asks(t, ofGroup(offsetFetch, 7, 4, "a", 0))
	c.asks(t, ofGroup(offsetFetch, 7, 5, "a", 0))
	bed.dial("link").asks(t, ofGroup(offsetFetch, 7, 6, "a", 0))
	if found := generations(); !slices.Equal(found, []int32{-1, 1, -1}) {
		t.Errorf("got %v", found)
	}
}

// An answer that breaks off passes, and says nothing.
func TestLeavesOutWhatIsNoAnswer(t *testing.T) {
	for version := range int16(11) {
		whole := offsetFetchAnswer(version, 1)
		for size := 12; size < len(whole); size++ {
			short := framed(whole[lengthPrefix:size])
			if found, ok := parseOffsetFetch(short, version); ok {
				t.Fatalf("version %d: %d bytes of %d are %+v", version, size, len(whole), found)
			}
		}
	}
}

// The oldest are forgotten, and it is known up to when something may be missing.
func TestForgetsTheOldest(t *testing.T) {
	var all starts
	at := func(number int) time.Time { return time.UnixMilli(int64(number)) }
	if forgotten := all.read().Forgotten; len(forgotten) != 0 {
		t.Errorf("forgotten at first: %v", forgotten)
	}
	for number := range maxStarts + 3 {
		all.keep(shownStart{Position: int64(number), AnsweredNS: at(number).UnixNano()})
		all.sends(&request{api: txnOffsetCommit, generation: -1, arrived: at(number)})
	}
	for number := range maxProduced + 1 {
		all.sends(&request{api: produce, transactional: "id", arrived: at(number)})
	}
	found := all.read()
	if len(found.Starts) != maxStarts || found.Starts[0].Position != 3 || len(found.Unfenced) != maxStarts {
		t.Errorf("%d from %d on, %d unfenced", len(found.Starts), found.Starts[0].Position, len(found.Unfenced))
	}
	sent := found.Produced["id"]
	if len(sent) != maxProduced-maxProduced/10+1 || sent[0] != maxProduced/10 || sent[len(sent)-1] != maxProduced {
		t.Errorf("%d from %d to %d", len(sent), sent[0], sent[len(sent)-1])
	}
	until := map[string]int64{
		"starts":   at(2).UnixNano(),
		"unfenced": at(2).UnixNano(),
		"produced": at(maxProduced/10 - 1).UnixNano(),
	}
	if !maps.Equal(found.Forgotten, until) {
		t.Errorf("forgotten: %v", found.Forgotten)
	}
}

// By transactional id, whatever the timestamps of the rows; those outside of transactions are not remembered.
func TestRemembersWhenRowsWereSent(t *testing.T) {
	bed, c := readers(t)
	before := time.Now().UnixMilli()
	for correlation, id := range []string{"b", "a", ""} {
		frame := requestFrame(produce, 9, int32(correlation), "writer", func(data []byte) []byte {
			if id == "" {
				data = append(data, 0) // null
			} else {
				data = text(data, id, true)
			}
			return append(data, make([]byte, 16)...)
		})
		frame[len(frame)-15] = 1 // acks, so that there is an answer
		c.asks(t, frame)
	}
	found := bed.read("link").Produced
	for _, id := range []string{"a", "b"} {
		if sent := found[id]; len(sent) != 1 || sent[0] < before || sent[0] > time.Now().UnixMilli() {
			t.Errorf("%s: %v, from %d on", id, sent, before)
		}
	}
	if len(found) != 2 {
		t.Errorf("got %v", found)
	}
}

// Answers that are held, in pieces, are read as others are.
func TestRemembersAStartWhoseAnswerIsHeld(t *testing.T) {
	bed, c := readers(t)
	bed.arm("late", `{"api": "OffsetFetch", "at": "response", "action": "hold"}`)
	c.send(t, ofGroup(offsetFetch, 7, 1, "a", 0))
	testbed.Eventually(t, "the start to be seen", func() bool { return len(bed.read("link").Starts) == 2 })
	bed.arm("late", `{"release": "deliver"}`)
	if got := c.answer(t); got != 1 {
		t.Errorf("%d was answered", got)
	}
}

// Those before version 3 have none, and later ones may leave it out.
func TestRemembersCommitsWithoutAGeneration(t *testing.T) {
	bed, c := readers(t)
	for version := range int16(6) {
		for _, generation := range []int32{-1, 4} {
			sent := kmsg.NewPtrTxnOffsetCommitRequest()
			sent.SetVersion(version)
			sent.TransactionalID, sent.Group, sent.ProducerID, sent.Generation = "t", "group", 1000+int64(version), generation
			c.asks(t, frameOf(sent, int32(version)))
		}
	}
	var producers []int64
	for _, one := range bed.read("link").Unfenced {
		if one.Group != "group" || one.SentNS == 0 {
			t.Errorf("got %+v", one)
		}
		producers = append(producers, one.ProducerID)
	}
	if want := []int64{1000, 1000, 1001, 1001, 1002, 1002, 1003, 1004, 1005}; !slices.Equal(producers, want) {
		t.Errorf("got %v", producers)
	}
}
