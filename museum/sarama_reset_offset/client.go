// Copies a topic in transactions of one record each. A transaction that fails is aborted, and its record is to be copied again.
//
//	go run -C PACKAGES client.go BOOTSTRAP SOURCE SINK GROUP reset|ended
//
// With "reset" the program calls ResetOffset and goes on, as sarama's own example does. With "ended" it ends its claim after
// that, so the next session begins at the committed position.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

type copier struct {
	producer    sarama.AsyncProducer
	sink, group string
	ends        bool
}

func (copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if err := c.copied(session, message); err != nil {
				log.Printf("offset %d: %v; its transaction is aborted", message.Offset, err)
				if err := c.producer.AbortTxn(); err != nil {
					log.Fatal(err)
				}
				session.ResetOffset(message.Topic, message.Partition, message.Offset, "")
				if c.ends {
					return nil
				}
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c copier) copied(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) error {
	if err := c.producer.BeginTxn(); err != nil {
		log.Fatal(err)
	}
	c.producer.Input() <- &sarama.ProducerMessage{
		Topic: c.sink, Key: sarama.ByteEncoder(message.Key), Value: sarama.ByteEncoder(message.Value),
	}
	member := sarama.NewConsumerGroupMetadataFromSession(session, c.group, nil)
	if err := c.producer.AddMessageToTxnWithGroupMetadata(message, member, nil); err != nil {
		return err
	}
	return c.producer.CommitTxn()
}

func settings(group string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Transaction.ID = group
	return config
}

func main() {
	brokers, source, sink, group := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3], os.Args[4]
	producer, err := sarama.NewAsyncProducer(brokers, settings(group))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for failed := range producer.Errors() {
			log.Print(failed)
		}
	}()
	consumer, err := sarama.NewConsumerGroup(brokers, group, settings(group))
	if err != nil {
		log.Fatal(err)
	}
	handler := copier{producer, sink, group, os.Args[5] == "ended"}
	for {
		if err := consumer.Consume(context.Background(), []string{source}, handler); err != nil {
			log.Fatal(err)
		}
	}
}
