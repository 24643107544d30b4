// Copies a topic with an idempotent producer of franz-go; see README.md beside this folder.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 200

// main copies until it is ended.
func main() {
	ctx := context.Background()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...),
		kgo.RequestTimeoutOverhead(3*time.Second),
		kgo.RecordDeliveryTimeout(10*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(os.Getenv("GROUP")),
		kgo.ConsumeTopics(os.Getenv("SOURCE")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		log.Fatal(err)
	}
	for {
		fetches := client.PollRecords(ctx, records)
		for _, failed := range fetches.Errors() {
			log.Fatalf("partition %d of %s: %v", failed.Partition, failed.Topic, failed.Err)
		}
		rest := fetches.Records()
		for len(rest) > 0 {
			rest = refused(ctx, client, rest)
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			log.Fatal(err)
		}
	}
}

// refused sends records, waits for all answers, and returns those that the client gave up.
func refused(ctx context.Context, client *kgo.Client, batch []*kgo.Record) []*kgo.Record {
	var rows []*kgo.Record
	for _, record := range batch {
		rows = append(rows, &kgo.Record{Topic: os.Getenv("SINK"), Partition: record.Partition, Key: record.Key, Value: record.Value})
	}
	of := map[*kgo.Record]*kgo.Record{}
	for i, row := range rows {
		of[row] = batch[i]
	}
	var left []*kgo.Record
	for _, one := range client.ProduceSync(ctx, rows...) {
		if one.Err != nil {
			log.Printf("a record is sent again: %v", one.Err)
			left = append(left, of[one.Record])
		}
	}
	return left
}
