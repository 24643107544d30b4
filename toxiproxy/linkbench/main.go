// Command linkbench is the load of benchmarks/link.py: a sink that answers like a broker, and clients that measure a link.
//
//	linkbench sink                                     prints the address that it listens on, and answers until its input ends
//	linkbench load -mode bytes|pings|pipeline ADDRESS  prints one line of JSON
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Result is what a load measured: requests and bytes of requests per second, and how long an answer took.
type Result struct {
	Requests float64 `json:"requests_per_s"`
	Bytes    float64 `json:"bytes_per_s"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
}

// mode is a way of loading a link: the size of a request's records, and how many are under way on a connection.
type mode struct {
	size, window int
}

var modes = map[string]mode{"bytes": {64 << 10, 5}, "pings": {100, 1}, "pipeline": {100, 32}}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sink" {
		check(sink())
		return
	}
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	name := flags.String("mode", "pings", "bytes, pings or pipeline")
	connections := flags.Int("connections", 4, "connections at once")
	seconds := flags.Float64("seconds", 1, "how long to measure")
	check(flags.Parse(os.Args[min(2, len(os.Args)):]))
	chosen, known := modes[*name]
	if !known || flags.NArg() != 1 {
		check(fmt.Errorf("usage: linkbench sink | linkbench load -mode bytes|pings|pipeline ADDRESS"))
	}
	result, err := load(flags.Arg(0), chosen, *connections, time.Duration(*seconds*float64(time.Second)))
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "linkbench:", err)
		os.Exit(1)
	}
}

// sink ends when its input does, that is, with the program that started it.
func sink() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(connection)
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// answer sends a Produce response to every request, when no more of them is to be read at once.
func answer(connection net.Conn) {
	defer connection.Close()
	in, out := bufio.NewReaderSize(connection, 128<<10), bufio.NewWriter(connection)
	head := make([]byte, 12)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		if _, err := in.Discard(int(binary.BigEndian.Uint32(head)) - 8); err != nil {
			return
		}
		out.Write(response(head[8:12]))
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

func response(correlation []byte) []byte {
	data := append([]byte{0, 0, 0, 45}, correlation...)
	return append(data, make([]byte, 41)...)
}

// produce is a Produce request of version 9 with acks=all; its correlation id is at offset 8.
func produce(size int) []byte {
	body := []byte{0, 0, 0, 9, 0, 0, 0, 0, 0, 9}
	body = append(body, "linkbench"...)
	body = append(body, 0, 0, 0xff, 0xff) // no tags, no transactional id, acks
	body = append(body, make([]byte, size)...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func load(address string, chosen mode, connections int, lasts time.Duration) (Result, error) {
	until := time.Now().Add(lasts)
	took := make([][]time.Duration, connections)
	errs := make([]error, connections)
	var clients sync.WaitGroup
	begun := time.Now()
	for i := range connections {
		clients.Add(1)
		go func() {
			defer clients.Done()
			took[i], errs[i] = client(address, chosen, until)
		}()
	}
	clients.Wait()
	elapsed := time.Since(begun).Seconds()
	for _, err := range errs {
		if err != nil {
			return Result{}, err
		}
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	if len(all) == 0 {
		return Result{}, fmt.Errorf("%s answered nothing", address)
	}
	rate := float64(len(all)) / elapsed
	return Result{rate, rate * float64(len(produce(chosen.size))), ms(all[len(all)/2]), ms(all[len(all)*99/100])}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// client keeps a window of requests under way until the time is over, and returns how long each took.
func client(address string, chosen mode, until time.Time) ([]time.Duration, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(until.Add(10 * time.Second)); err != nil {
		return nil, err
	}
	sent, free := make(chan time.Time, chosen.window), make(chan struct{}, chosen.window)
	go func() {
		defer close(sent)
		frame := produce(chosen.size)
		for id := uint32(0); time.Now().Before(until); id++ {
			binary.BigEndian.PutUint32(frame[8:], id)
			free <- struct{}{} // or wait for an answer
			sent <- time.Now()
			if _, err := connection.Write(frame); err != nil {
				return
			}
		}
	}()
	var took []time.Duration
	in, got := bufio.NewReader(connection), make([]byte, len(response(make([]byte, 4))))
	for at := range sent {
		if _, err := io.ReadFull(in, got); err != nil {
			return nil, err
		}
		if id := binary.BigEndian.Uint32(got[4:]); int(id) != len(took) {
			return nil, fmt.Errorf("%d was answered, not %d", id, len(took))
		}
		took = append(took, time.Since(at))
		<-free
	}
	return took, nil
}
