// Copies a topic in lots of four records; each lot has a producer of its own. Three are sent at once, and the last one after five
// seconds. To find the partition of a record takes two seconds.
//
//	go run -C PACKAGES client.go BOOTSTRAP SOURCE SINK GROUP
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const (
	records = 4
	lookup  = 2 * time.Second
	pause   = 5 * time.Second
)

type copier struct {
	brokers []string
	sink    string
}

func (copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	var lot []*sarama.ConsumerMessage
	for message := range claim.Messages() {
		if lot = append(lot, message); len(lot) < records {
			continue
		}
		c.copyAll(lot)
		lot = nil
		session.MarkMessage(message, "")
		session.Commit()
	}
	return nil
}

func (c copier) copyAll(lot []*sarama.ConsumerMessage) {
	producer, err := sarama.NewAsyncProducer(c.brokers, settings())
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for number, message := range lot {
			if number == records-1 {
				time.Sleep(pause)
			}
			producer.Input() <- &sarama.ProducerMessage{
				Topic: c.sink, Key: sarama.ByteEncoder(message.Key), Value: sarama.ByteEncoder(message.Value),
			}
		}
	}()
	for range lot {
		select {
		case <-producer.Successes():
		case failed := <-producer.Errors():
			log.Fatal(failed)
		}
	}
	if err := producer.Close(); err != nil {
		log.Fatal(err)
	}
}

type slowly struct{}

func (slowly) RequiresConsistency() bool { return true }
func (slowly) Partition(*sarama.ProducerMessage, int32) (int32, error) {
	time.Sleep(lookup)
	return 0, nil
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Flush.MaxMessages = 1 // each record is a batch
	config.Producer.Partitioner = func(string) sarama.Partitioner { return slowly{} }
	return config
}

func main() {
	brokers, source, sink, group := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3], os.Args[4]
	consumer, err := sarama.NewConsumerGroup(brokers, group, settings())
	if err != nil {
		log.Fatal(err)
	}
	for {
		if err := consumer.Consume(context.Background(), []string{source}, copier{brokers, sink}); err != nil {
			log.Fatal(err)
		}
	}
}
