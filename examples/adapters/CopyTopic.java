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
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic in transactions, and prints what its client tells it: the contract of docs/adapters.md in Java.
 *
 * <p>java -cp CLASSPATH CopyTopic.java BOOTSTRAP SOURCE SINK GROUP
 */
public final class CopyTopic {

  private final KafkaConsumer<String, String> consumer;
  private final KafkaProducer<String, String> producer;
  private final String sink;
  private int transaction;

  private CopyTopic(String bootstrap, String sink, String group) {
    this.sink = sink;
    consumer =
        new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "enable.auto.commit", "false",
                "isolation.level", "read_committed",
                "auto.offset.reset", "earliest",
                "session.timeout.ms", "6000",
                "max.poll.records", "200"),
            new StringDeserializer(),
            new StringDeserializer());
    producer =
        new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "transactional.id", group),
            new StringSerializer(),
            new StringSerializer());
  }

  /** An error ends the program, and whoever started it starts it again. */
  public static void main(String[] arguments) {
    CopyTopic program = new CopyTopic(arguments[0], arguments[2], arguments[3]);
    program.copyFrom(arguments[1]);
  }

  private void copyFrom(String source) {
    producer.initTransactions();
    consumer.subscribe(List.of(source), new Said());
    say("{\"event\": \"started\"}");
    while (true) {
      List<ConsumerRecord<String, String>> batch =
          StreamSupport.stream(consumer.poll(Duration.ofMillis(200)).spliterator(), false).toList();
      if (!batch.isEmpty()) {
        copy(batch);
      }
    }
  }

  /** Rows and positions in one transaction. If that fails nothing is told, so the outcome is unknown. */
  private void copy(List<ConsumerRecord<String, String>> batch) {
    transaction += 1;
    say("{\"got\": [" + joined(batch, r -> place(r.topic(), r.partition(), r.offset())) + "]}");
    say("{\"begin\": " + transaction + ", \"ids\": [" + joined(batch, r -> "\"" + r.key() + "\"") + "]}");
    producer.beginTransaction();
    Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    for (ConsumerRecord<String, String> record : batch) {
      producer.send(new ProducerRecord<>(sink, record.partition(), record.key(), record.value()));
      positions.put(
          new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
    }
    producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
    producer.commitTransaction();
    say("{\"told\": \"committed\", \"transaction\": " + transaction + "}");
  }

  /** Says what this instance reads from here on; the consumer finds the offsets itself, so they are null. */
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
