// Copies a topic in transactions with sarama; see README.md beside this folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const records = 200

var errAborted = errors.New("the transaction was aborted")

// copier copies the claims of a session; they share its producer, which has one transaction at a time.
type copier struct {
	lock     sync.Mutex
	producer sarama.SyncProducer
	group    string
	sink     string
	number   int
}

// say prints one line, in one piece.
func say(statement map[string]any) {
	line, err := json.Marshal(statement)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}

// main copies until it is ended, or until an error that cannot be handled ends it.
func main() {
	brokers, group := strings.Split(os.Getenv("BOOTSTRAP"), ","), os.Getenv("GROUP")
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.MaxOpenRequests = 1
	config.Net.ReadTimeout = 10 * time.Second
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = os.Getenv("TRANSACTIONAL_ID")
	config.Producer.Transaction.Timeout = 20 * time.Second
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		log.Fatal(err)
	}
	reads := sarama.NewConfig()
	reads.Version = sarama.MaxVersion
	reads.Net.ReadTimeout = 10 * time.Second
	reads.Consumer.IsolationLevel = sarama.ReadCommitted
	reads.Consumer.Offsets.AutoCommit.Enable = false
	reads.Consumer.Offsets.Initial = sarama.OffsetOldest
	reads.Consumer.Group.ResetInvalidOffsets = false
	reads.Consumer.Group.Session.Timeout = 6 * time.Second
	reads.Consumer.Group.Heartbeat.Interval = time.Second
	consumer, err := sarama.NewConsumerGroup(brokers, group, reads)
	if err != nil {
		log.Fatal(err)
	}
	copies := &copier{producer: producer, group: group, sink: os.Getenv("SINK")}
	say(map[string]any{"event": "started"})
	for {
		if err := consumer.Consume(context.Background(), []string{os.Getenv("SOURCE")}, copies); err != nil {
			log.Fatal(err)
		}
	}
}

// Setup does nothing: each claim reports where it begins.
func (c *copier) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup does nothing: each transaction has ended.
func (c *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim copies one partition. After an abort it returns, so that the next session reads from the committed position.
func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	c.say(map[string]any{"start": []any{claim.Topic(), claim.Partition(), claim.InitialOffset()}})
	for {
		batch := polled(session.Context(), claim)
		if len(batch) == 0 {
			return nil
		}
		if err := c.copy(session, batch); err != nil {
			return err
		}
	}
}

// polled returns what is there of the next records, at least one; none once the session ends.
func polled(ctx context.Context, claim sarama.ConsumerGroupClaim) []*sarama.ConsumerMessage {
	var batch []*sarama.ConsumerMessage
	select {
	case message, open := <-claim.Messages():
		if !open {
			return nil
		}
		batch = append(batch, message)
	case <-ctx.Done():
		return nil
	}
	for len(batch) < records {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return batch
			}
			batch = append(batch, message)
		default:
			return batch
		}
	}
	return batch
}

// copy writes the records and their position in one transaction.
func (c *copier) copy(session sarama.ConsumerGroupSession, batch []*sarama.ConsumerMessage) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.number++
	var places [][]any
	var ids []string
	var rows []*sarama.ProducerMessage
	for _, message := range batch {
		places = append(places, []any{message.Topic, message.Partition, message.Offset})
		ids = append(ids, string(message.Key))
		key, value := sarama.ByteEncoder(message.Key), sarama.ByteEncoder(message.Value)
		rows = append(rows, &sarama.ProducerMessage{Topic: c.sink, Partition: message.Partition, Key: key, Value: value})
	}
	say(map[string]any{"got": places})
	say(map[string]any{"begin": c.number, "ids": ids})
	member := sarama.NewConsumerGroupMetadataFromSession(session, c.group, nil)
	if err := c.producer.BeginTxn(); err != nil {
		log.Fatal(err)
	}
	if err := c.producer.SendMessages(rows); err != nil {
		return c.abort(err)
	}
	positions := func() error {
		return c.producer.AddMessageToTxnWithGroupMetadata(batch[len(batch)-1], member, nil)
	}
	for _, call := range []func() error{positions, c.producer.CommitTxn} {
		if err := c.retried(call); err != nil {
			return c.abort(err)
		}
	}
	say(map[string]any{"told": "committed", "transaction": c.number})
	return nil
}

// retried repeats a call until it succeeds, or until its error has to be handled otherwise.
func (c *copier) retried(call func() error) error {
	for {
		err := call()
		if err == nil || c.producer.TxnStatus()&sarama.ProducerTxnFlagInError != 0 {
			return err
		}
		log.Print(err)
	}
}

// abort ends the transaction; an error that is fatal ends the program.
func (c *copier) abort(why error) error {
	log.Print(why)
	if c.producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0 {
		log.Fatal("the error is fatal")
	}
	if err := c.retried(c.producer.AbortTxn); err != nil {
		log.Fatal(err)
	}
	say(map[string]any{"told": "aborted", "transaction": c.number})
	return errAborted
}

// say prints a line between two transactions of other claims.
func (c *copier) say(statement map[string]any) {
	c.lock.Lock()
	defer c.lock.Unlock()
	say(statement)
}
