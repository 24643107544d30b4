import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic of two partitions in transactions: fifty rows to one partition, and when these are acknowledged fifty to the
 * other. From the second batch on, each is tried twice: the first transaction is aborted, the second one committed.
 *
 * <p>java -cp CLASSPATH Copy.java BOOTSTRAP SOURCE SINK GROUP
 */
public final class Copy {
  private static final int ROWS = 50;
  private static final List<Integer> PARTITIONS = List.of(0, 1);

  private final KafkaConsumer<String, String> consumer;
  private final KafkaProducer<String, String> producer;
  private final String source;
  private final String sink;
  private final Map<Integer, Queue<ConsumerRecord<String, String>>> read = new HashMap<>();

  private Copy(String bootstrap, String source, String sink, String group) {
    var text = new StringDeserializer();
    consumer =
        new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "enable.auto.commit", false,
                "auto.offset.reset", "earliest"),
            text,
            text);
    producer =
        new KafkaProducer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "transactional.id", group,
                "request.timeout.ms", 2000,
                "delivery.timeout.ms", 30000,
                "linger.ms", 200), // all rows of a partition are in one request
            new StringSerializer(),
            new StringSerializer());
    this.source = source;
    this.sink = sink;
    PARTITIONS.forEach(partition -> read.put(partition, new ArrayDeque<>()));
  }

  /** Runs until it is ended, or an error ends it. */
  public static void main(String[] arguments) throws Exception {
    new Copy(arguments[0], arguments[1], arguments[2], arguments[3]).run();
  }

  private void run() throws Exception {
    producer.initTransactions();
    consumer.subscribe(List.of(source));
    int batches = 0;
    while (true) {
      for (var record : consumer.poll(Duration.ofMillis(100))) {
        read.get(record.partition()).add(record);
      }
      if (read.values().stream().allMatch(records -> records.size() >= ROWS)) {
        copy(batches++ > 0);
      }
    }
  }

  private void copy(boolean twice) throws Exception {
    var positions = new HashMap<TopicPartition, OffsetAndMetadata>();
    var batch = new HashMap<Integer, List<ConsumerRecord<String, String>>>();
    for (int partition : PARTITIONS) {
      var records = read.get(partition).stream().limit(ROWS).toList();
      read.get(partition).removeAll(records);
      batch.put(partition, records);
      var next = records.get(ROWS - 1).offset() + 1;
      positions.put(new TopicPartition(source, partition), new OffsetAndMetadata(next));
    }
    if (twice) {
      producer.beginTransaction();
      write(batch);
      producer.abortTransaction();
    }
    producer.beginTransaction();
    write(batch);
    producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
    producer.commitTransaction();
  }

  /** Returns when all rows are acknowledged. */
  private void write(Map<Integer, List<ConsumerRecord<String, String>>> batch) throws Exception {
    for (int partition : PARTITIONS) {
      var sent =
          batch.get(partition).stream()
              .map(row -> producer.send(new ProducerRecord<>(sink, partition, row.key(), row.value())))
              .toList();
      for (var one : sent) {
        one.get();
      }
    }
  }
}
