package main

import (
	"bytes"
	"io"
	"math/rand"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

// stuck is a link whose client takes nothing, until a toxic of this type has something that it cannot pass on.
func stuck(t *testing.T, toxic string) (*toxiproxy.Proxy, net.Conn) {
	t.Helper()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
	_, proxy := testbed.Metered(t, upstream)
	testbed.AddToxic(t, proxy, toxic)
	client := testbed.Dial(t, proxy)
	testbed.Must(t, client.(*net.TCPConn).SetReadBuffer(4096))
	server, err := upstream.Accept()
	testbed.Must(t, err)
	t.Cleanup(func() { server.Close() })
	go server.Write(make([]byte, 16<<20))
	before := int64(-1)
	testbed.Eventually(t, "the link to be full", func() bool {
		now := testbed.ReadMeter(t, proxy, "downstream").Bytes
		full := now == before && now > 0
		before = now
		time.Sleep(200 * time.Millisecond)
		return full
	})
	return proxy, client
}

// remove removes a toxic, and is closed when that is done.
func remove(t *testing.T, proxy *toxiproxy.Proxy, name string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		proxy.Toxics.RemoveToxic(t.Context(), name)
	}()
	return done
}

// The stock `latency` does not heed an interrupt while its receiver takes nothing. When the receiver dies meanwhile, its removal
// never ends, and it has the lock that every other request for this proxy needs. This is why there is a `delay`; should this test
// fail with a later Toxiproxy, `delay` may go.
func TestStockLatencyBlocksTheApiForEver(t *testing.T) {
	proxy, client := stuck(t, `{"name":"slow","type":"latency","stream":"downstream","attributes":{"latency":1}}`)
	removed := remove(t, proxy, "slow")
	time.Sleep(100 * time.Millisecond) // the removal has the lock now
	testbed.Die(t, client)
	asked := make(chan struct{})
	go func() { defer close(asked); proxy.Toxics.GetToxicArray() }()
	select {
	case <-removed:
		t.Error("it was removed")
	case <-asked:
		t.Error("the API answered")
	case <-time.After(time.Second):
	}
}

// Ours is removed at any moment of its receiver's death, and the API answers.
func TestDelayIsRemovedFromADeadLink(t *testing.T) {
	for name, death := range map[string]func(*testing.T, net.Conn){"paused": func(*testing.T, net.Conn) {}, "dies": testbed.Die} {
		t.Run(name, func(t *testing.T) {
			proxy, client := stuck(t, `{"name":"slow","type":"delay","stream":"downstream","attributes":{"latency":1}}`)
			removed := remove(t, proxy, "slow")
			time.Sleep(100 * time.Millisecond)
			death(t, client)
			select {
			case <-removed:
			case <-time.After(testbed.Deadline):
				t.Fatal("it cannot be removed")
			}
			proxy.Toxics.GetToxicArray()
		})
	}
}

// Clients die all the time while a delay comes and goes: the API goes on answering.
func TestDelayComesAndGoesUnderDyingClients(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	for range 5 {
		var clients []net.Conn
		for range 3 {
			client := testbed.Dial(t, proxy)
			client.Write(make([]byte, 200_000))
			clients = append(clients, client)
		}
		for _, stream := range []string{"upstream", "downstream"} {
			testbed.AddToxic(t, proxy, `{"name":"slow_`+stream+`","type":"delay","stream":"`+stream+`","attributes":{"latency":2,"jitter":2}}`)
		}
		removed := remove(t, proxy, "slow_downstream")
		for _, client := range clients {
			testbed.Die(t, client)
		}
		select {
		case <-removed:
		case <-time.After(testbed.Deadline):
			t.Fatal("it cannot be removed")
		}
		testbed.Must(t, proxy.Toxics.RemoveToxic(t.Context(), "slow_upstream"))
	}
}

// A receiver that takes nothing after its sender has gone is given up.
func TestDelayEndsWithoutItsReceiver(t *testing.T) {
	input := make(chan *stream.StreamChunk, 1)
	input <- &stream.StreamChunk{Data: []byte("x"), Timestamp: time.Now()}
	close(input)
	stub := toxics.NewToxicStub(input, make(chan *stream.StreamChunk))
	state := new(delayed)
	stub.State = state
	for !state.ended {
		state.step(new(Delay), stub)
	}
	if state.lastFlush(); time.Until(state.giveUpAt) < lastFlush-time.Second {
		t.Errorf("it gives up in %v", time.Until(state.giveUpAt))
	}
	state.giveUpAt = time.Now().Add(20 * time.Millisecond)
	new(Delay).Pipe(stub)
	if !stub.Closed() {
		t.Error("it goes on")
	}
}

// Bytes come later by the latency, in order and whole, and a change of it is heeded.
func TestDelays(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	testbed.AddToxic(t, proxy, `{"name":"slow","type":"delay","stream":"upstream","attributes":{"latency":60,"jitter":10}}`)
	client := testbed.Dial(t, proxy)
	ping := func() time.Duration {
		begun := time.Now()
		_, err := client.Write([]byte("x"))
		testbed.Must(t, err)
		_, err = io.ReadFull(client, make([]byte, 1))
		testbed.Must(t, err)
		return time.Since(begun)
	}
	if took := ping(); took < 50*time.Millisecond || took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	_, err := proxy.Toxics.UpdateToxicJson("slow", bytes.NewBufferString(`{"attributes":{"latency":150}}`))
	testbed.Must(t, err)
	if took := ping(); took < 140*time.Millisecond {
		t.Errorf("after the change it took %v", took)
	}
	_, err = proxy.Toxics.UpdateToxicJson("slow", bytes.NewBufferString(`{"attributes":{"latency":-1}}`))
	if refused, ok := err.(*toxiproxy.ApiError); !ok || refused.StatusCode != http.StatusBadRequest {
		t.Errorf("a latency of -1: %v", err)
	}
}

// A stream is not slowed down, only moved in time: all chunks are under way at once, and arrive in order.
func TestDelayKeepsTheThroughput(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	testbed.AddToxic(t, proxy, `{"name":"slow","type":"delay","stream":"upstream","attributes":{"latency":100,"jitter":50}}`)
	client := testbed.Dial(t, proxy)
	sent := make([]byte, 8<<20)
	rand.New(rand.NewSource(5)).Read(sent)
	begun := time.Now()
	go client.Write(sent)
	received := make([]byte, len(sent))
	_, err := io.ReadFull(client, received)
	testbed.Must(t, err)
	if !bytes.Equal(sent, received) {
		t.Error("the bytes that came back are not those that were sent")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// What is kept when it is removed, or updated, or when its sender closes, is not lost.
func TestDelayLosesNothing(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.Must(t, err)
	_, proxy := testbed.Metered(t, upstream)
	testbed.AddToxic(t, proxy, `{"name":"slow","type":"delay","stream":"upstream","attributes":{"latency":300}}`)
	client := testbed.Dial(t, proxy)
	server, err := upstream.Accept()
	testbed.Must(t, err)
	defer server.Close()
	client.Write([]byte("x"))
	_, err = io.ReadFull(server, make([]byte, 1)) // the toxic runs: the stock server reads its toxicity then, and writes it in an update
	testbed.Must(t, err)
	sent := make([]byte, 1<<20)
	rand.New(rand.NewSource(6)).Read(sent)
	client.Write(sent[:500_000])
	_, err = proxy.Toxics.UpdateToxicJson("slow", bytes.NewBufferString(`{"attributes":{"jitter":1}}`))
	testbed.Must(t, err)
	client.Write(sent[500_000:])
	testbed.Must(t, proxy.Toxics.RemoveToxic(t.Context(), "slow"))
	testbed.AddToxic(t, proxy, `{"name":"slow","type":"delay","stream":"upstream","attributes":{"latency":300}}`)
	client.Write([]byte("last"))
	client.Close()
	server.SetDeadline(time.Now().Add(testbed.Deadline))
	received, err := io.ReadAll(server)
	testbed.Must(t, err)
	if !bytes.Equal(received, append(sent, "last"...)) {
		t.Errorf("%d bytes arrived of %d, or others", len(received), len(sent)+4)
	}
}
