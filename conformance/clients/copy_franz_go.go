// Copies a topic in transactions with franz-go; see README.md beside this folder.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 200

// say prints one line, in one piece.
func say(statement map[string]any) {
	line, err := json.Marshal(statement)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}

// assigned reports what is read from here on; the client finds the offsets itself, so they are null.
func assigned(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	var places [][]any
	for topic, partitions := range topics {
		for _, partition := range partitions {
			places = append(places, []any{topic, partition, nil})
		}
	}
	if len(places) > 0 {
		say(map[string]any{"start": places})
	}
}

// main copies until it is ended, or until an error that cannot be handled ends it.
func main() {
	ctx, sink := context.Background(), os.Getenv("SINK")
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...),
		kgo.TransactionalID(os.Getenv("TRANSACTIONAL_ID")),
		kgo.TransactionTimeout(20*time.Second),
		kgo.RequestTimeoutOverhead(10*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(os.Getenv("GROUP")),
		kgo.ConsumeTopics(os.Getenv("SOURCE")),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(assigned),
	)
	if err != nil {
		log.Fatal(err)
	}
	say(map[string]any{"event": "started"})
	for number := 1; ; number++ {
		fetches := session.PollRecords(ctx, records)
		for _, failed := range fetches.Errors() {
			log.Fatalf("partition %d of %s: %v", failed.Partition, failed.Topic, failed.Err)
		}
		batch := fetches.Records()
		if len(batch) == 0 {
			continue
		}
		if !copied(ctx, session, number, batch, sink) {
			say(map[string]any{"start": places(batch, nil)}) // the session goes back to the committed positions
		}
	}
}

// copied writes the records and their positions in one transaction; it returns false if it was aborted.
func copied(ctx context.Context, session *kgo.GroupTransactSession, number int, batch []*kgo.Record, sink string) bool {
	ids := make([]string, len(batch))
	for i, record := range batch {
		ids[i] = string(record.Key)
	}
	say(map[string]any{"got": places(batch, func(record *kgo.Record) any { return record.Offset })})
	say(map[string]any{"begin": number, "ids": ids})
	if err := session.Begin(); err != nil {
		log.Fatal(err)
	}
	sent := kgo.AbortingFirstErrPromise(session.Client())
	for _, record := range batch {
		row := &kgo.Record{Topic: sink, Partition: record.Partition, Key: record.Key, Value: record.Value}
		session.Produce(ctx, row, sent.Promise())
	}
	committed, err := session.End(ctx, sent.Err() == nil)
	if err != nil {
		log.Fatal(err) // none of these errors can be retried
	}
	told := "aborted"
	if committed {
		told = "committed"
	}
	say(map[string]any{"told": told, "transaction": number})
	return committed
}

// places returns topic, partition and offset of each record; for nil, each partition once, with the offset null.
func places(batch []*kgo.Record, offset func(*kgo.Record) any) [][]any {
	var found [][]any
	seen := map[int32]bool{}
	for _, record := range batch {
		if offset != nil {
			found = append(found, []any{record.Topic, record.Partition, offset(record)})
		} else if !seen[record.Partition] {
			found = append(found, []any{record.Topic, record.Partition, nil})
		}
		seen[record.Partition] = true
	}
	return found
}
