// Copies a topic record by record with an idempotent producer, which is the default. Each record has a deadline; one that fails is
// sent again after the next one.
//
//	go run -C MODULE client.go BOOTSTRAP SOURCE SINK GROUP
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	deadline = 6 * time.Second
	ofBroker = time.Second
)

func main() {
	bootstrap, source, sink, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProduceRequestTimeout(ofBroker),
	)
	if err != nil {
		log.Fatal(err)
	}
	for {
		fetches := client.PollRecords(context.Background(), 10)
		for _, failure := range fetches.Errors() {
			log.Fatal(failure.Err)
		}
		records := fetches.Records()
		copyAll(client, sink, records)
		if err := client.CommitRecords(context.Background(), records...); err != nil {
			log.Fatal(err)
		}
	}
}

func copyAll(client *kgo.Client, sink string, records []*kgo.Record) {
	for rest := append([]*kgo.Record{}, records...); len(rest) > 0; {
		record := rest[0]
		rest = rest[1:]
		if err := write(client, sink, record); err != nil {
			log.Printf("record %s: %v", record.Key, err)
			at := min(1, len(rest))
			rest = append(rest[:at:at], append([]*kgo.Record{record}, rest[at:]...)...)
		}
	}
}

func write(client *kgo.Client, sink string, record *kgo.Record) error {
	within, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	row := &kgo.Record{Topic: sink, Partition: 0, Key: record.Key, Value: record.Value}
	return client.ProduceSync(within, row).FirstErr()
}
