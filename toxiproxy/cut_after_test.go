package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/Shopify/toxiproxy/v2"

	"kafka-spark-chaos/toxiproxy/internal/testbed"
)

func cut(t *testing.T, proxy *toxiproxy.Proxy) int64 {
	t.Helper()
	shown, err := json.Marshal(proxy.Toxics.GetToxic("chaos").Toxic)
	testbed.Must(t, err)
	var attributes cutAfterAttributes
	testbed.Must(t, json.Unmarshal(shown, &attributes))
	return attributes.Cut
}

const cutAfterTen = `{"name":"chaos","type":"cut_after","stream":"upstream","attributes":{"bytes":10}}`

// Each connection has a limit of its own, and ends in the middle of what its client sends; one below it lives on.
func TestAConnectionIsCutAfterItsBytesAndCounted(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	old, other := testbed.Dial(t, proxy), testbed.Dial(t, proxy)
	testbed.Must(t, echoed(old, "before"))
	testbed.AddToxic(t, proxy, cutAfterTen)
	testbed.Must(t, echoed(other, "nine byte"))
	if got := cut(t, proxy); got != 0 {
		t.Errorf("%d connections cut before one has reached the limit", got)
	}
	for _, connection := range []io.ReadWriter{old, testbed.Dial(t, proxy)} {
		_, err := connection.Write([]byte("0123456789 and more"))
		testbed.Must(t, err)
		if got, _ := io.ReadAll(connection); !bytes.HasPrefix([]byte("0123456789"), got) {
			t.Errorf("%q came back", got)
		}
	}
	testbed.Eventually(t, "both to be counted", func() bool { return cut(t, proxy) == 2 })
	if _, err := other.Write([]byte("x")); err != nil { // its tenth byte
		t.Errorf("a connection below the limit has ended: %v", err)
	}
	testbed.Eventually(t, "the third to be counted", func() bool { return cut(t, proxy) == 3 })
}

// A connection that its client ends was not cut.
func TestAConnectionThatItsClientEndsIsNotCounted(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	testbed.AddToxic(t, proxy, cutAfterTen)
	connection := testbed.Dial(t, proxy)
	testbed.Must(t, echoed(connection, "nine byte"))
	connection.Close()
	testbed.Eventually(t, "its end", func() bool { return testbed.ReadMeter(t, proxy, "upstream").ConnectionsOpen == 0 })
	if got := cut(t, proxy); got != 0 {
		t.Errorf("%d connections counted", got)
	}
}

// A receiver that takes nothing does not keep the toxic from being taken away, nor the API from answering.
func TestACutIsRemovedWhileItsReceiverTakesNothing(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	testbed.AddToxic(t, proxy, `{"name":"chaos","type":"cut_after","stream":"upstream","attributes":{"bytes":1000000000}}`)
	connection := testbed.Dial(t, proxy)
	testbed.Fill(t, connection) // the echo server blocks, because nobody reads what comes back
	<-remove(t, proxy, "chaos")
	after := testbed.Dial(t, proxy)
	testbed.Must(t, echoed(after, "found, and more than ten bytes"))
}

// A limit that would cut nothing, or everything at once, is refused.
func TestALimitMustBePositive(t *testing.T) {
	_, proxy := testbed.Proxied(t)
	for _, attributes := range []string{`{}`, `{"bytes":0}`, `{"bytes":-1}`, `{"bytes":"ten"}`} {
		body := bytes.NewBufferString(`{"name":"chaos","type":"cut_after","stream":"upstream","attributes":` + attributes + `}`)
		if _, err := proxy.Toxics.AddToxicJson(body); err == nil {
			t.Errorf("%s was accepted", attributes)
		}
	}
}

// echoed sends a text, and waits for it to come back.
func echoed(connection io.ReadWriter, text string) error {
	if _, err := connection.Write([]byte(text)); err != nil {
		return err
	}
	_, err := io.ReadFull(connection, make([]byte, len(text)))
	return err
}
