import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Copies a topic in transactions with Kafka's own client; see README.md beside this folder. */
public final class CopyJava {
  private static final String SOURCE = System.getenv("SOURCE");
  private static final String SINK = System.getenv("SINK");
  private static final Map<String, Object> KAFKA =
      Map.of("bootstrap.servers", System.getenv("BOOTSTRAP"), "request.timeout.ms", 10_000);

  private final KafkaConsumer<String, String> consumer;
  private final KafkaProducer<String, String> producer;
  private int transaction;

  private CopyJava() {
    Map<String, Object> reads = new HashMap<>(KAFKA);
    reads.put("group.id", System.getenv("GROUP"));
    reads.put("enable.auto.commit", false);
    reads.put("auto.offset.reset", "none");
    reads.put("isolation.level", "read_committed");
    String protocol = System.getenv().getOrDefault("GROUP_PROTOCOL", "classic");
    reads.put("group.protocol", protocol);
    if (protocol.equals("classic")) { // else brokers have the session's timeout (KIP-848)
      reads.put("session.timeout.ms", 6_000);
      reads.put("heartbeat.interval.ms", 1_000);
    }
    reads.put("max.poll.records", 200);
    consumer = new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer());
    Map<String, Object> writes = new HashMap<>(KAFKA);
    writes.put("transactional.id", System.getenv("TRANSACTIONAL_ID"));
    writes.put("transaction.timeout.ms", 20_000);
    producer = new KafkaProducer<>(writes, new StringSerializer(), new StringSerializer());
  }

  /** Runs until it is ended, or until an error that cannot be handled ends it. */
  public static void main(String[] arguments) {
    new CopyJava().run();
  }

  private void run() {
    producer.initTransactions();
    consumer.subscribe(List.of(SOURCE), new Said());
    say("{\"event\": \"started\"}");
    while (true) {
      List<ConsumerRecord<String, String>> batch =
          StreamSupport.stream(consumer.poll(Duration.ofMillis(200)).spliterator(), false).toList();
      if (!batch.isEmpty() && !copied(batch)) {
        rewind();
      }
    }
  }

  /** Writes the records and their positions in one transaction; returns false if it was aborted. */
  private boolean copied(List<ConsumerRecord<String, String>> batch) {
    transaction += 1;
    say("{\"got\": [" + joined(batch, r -> place(r.topic(), r.partition(), r.offset())) + "]}");
    say("{\"begin\": " + transaction + ", \"ids\": [" + joined(batch, r -> "\"" + r.key() + "\"") + "]}");
    producer.beginTransaction();
    try {
      Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
      for (ConsumerRecord<String, String> record : batch) {
        producer.send(new ProducerRecord<>(SINK, record.partition(), record.key(), record.value()));
        positions.put(
            new TopicPartition(SOURCE, record.partition()), new OffsetAndMetadata(record.offset() + 1));
      }
      producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
      producer.commitTransaction();
    } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
      throw fatal;
    } catch (KafkaException error) {
      error.printStackTrace();
      producer.abortTransaction();
      say("{\"told\": \"aborted\", \"transaction\": " + transaction + "}");
      return false;
    }
    say("{\"told\": \"committed\", \"transaction\": " + transaction + "}");
    return true;
  }

  /** Reads again from the committed positions. */
  private void rewind() {
    consumer
        .committed(consumer.assignment())
        .forEach(
            (partition, position) -> {
              if (position == null) throw new NoOffsetForPartitionException(partition); // brokers have lost it
              say("{\"start\": " + place(SOURCE, partition.partition(), position.offset()) + "}");
              consumer.seek(partition, position);
            });
  }

  /** Reports assignments; the consumer finds the offsets itself, so they are null. */
  private static final class Said implements ConsumerRebalanceListener {
    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {}

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
      say("{\"start\": [" + joined(places, p -> place(p.topic(), p.partition(), null)) + "]}");
    }
  }

  private static String place(String topic, int partition, Long offset) {
    return "[\"" + topic + "\", " + partition + ", " + offset + "]";
  }

  private static <T> String joined(Collection<T> all, Function<T, String> text) {
    return all.stream().map(text).collect(Collectors.joining(", "));
  }

  /** One line, in one piece. */
  private static void say(String line) {
    System.out.print(line + "\n");
    System.out.flush();
  }
}
