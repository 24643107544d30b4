// Copies a topic with an idempotent producer of sarama; see README.md beside this folder.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const records = 200

type copier struct{ producer sarama.SyncProducer }

func (copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim copies one partition, besides the claims of the others.
func (c copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		batch := []*sarama.ConsumerMessage{message}
		for len(batch) < records && len(claim.Messages()) > 0 {
			batch = append(batch, <-claim.Messages())
		}
		var rest []*sarama.ProducerMessage
		for _, one := range batch {
			key, value := sarama.ByteEncoder(one.Key), sarama.ByteEncoder(one.Value)
			rest = append(rest, &sarama.ProducerMessage{Topic: os.Getenv("SINK"), Partition: one.Partition, Key: key, Value: value})
		}
		for len(rest) > 0 {
			rest = c.refused(rest)
		}
		session.MarkMessage(batch[len(batch)-1], "")
		session.Commit()
	}
	return nil
}

// refused sends records, waits for all answers, and returns those that the client gave up.
func (c copier) refused(batch []*sarama.ProducerMessage) []*sarama.ProducerMessage {
	err := c.producer.SendMessages(batch)
	var failed sarama.ProducerErrors
	if err != nil && !errors.As(err, &failed) {
		log.Fatal(err)
	}
	var left []*sarama.ProducerMessage
	for _, one := range failed {
		row := one.Msg
		left = append(left, &sarama.ProducerMessage{Topic: row.Topic, Partition: row.Partition, Key: row.Key, Value: row.Value})
	}
	if len(left) > 0 {
		log.Printf("%d records are sent again: %v", len(left), failed[0].Err)
	}
	return left
}

// main copies until it is ended.
func main() {
	brokers := strings.Split(os.Getenv("BOOTSTRAP"), ",")
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.MaxOpenRequests = 1
	config.Net.ReadTimeout = 3 * time.Second
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := sarama.NewConsumerGroup(brokers, os.Getenv("GROUP"), config)
	if err != nil {
		log.Fatal(err)
	}
	for {
		if err := consumer.Consume(context.Background(), []string{os.Getenv("SOURCE")}, copier{producer}); err != nil {
			log.Fatal(err)
		}
	}
}
