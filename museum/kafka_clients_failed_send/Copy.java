import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic in transactions of a hundred records, each with a producer of its own, and leaves it to the commit to throw if a
 * row could not be sent.
 *
 * <p>java -cp CLASSPATH Copy.java BOOTSTRAP SOURCE SINK GROUP
 */
public final class Copy {
  private static final int RECORDS = 100;

  private final String bootstrap;
  private final String source;
  private final String sink;
  private final String group;

  private Copy(String bootstrap, String source, String sink, String group) {
    this.bootstrap = bootstrap;
    this.source = source;
    this.sink = sink;
    this.group = group;
  }

  /** Runs until it is ended, or an error ends it. */
  public static void main(String[] arguments) {
    new Copy(arguments[0], arguments[1], arguments[2], arguments[3]).run();
  }

  private void run() {
    var text = new StringDeserializer();
    Map<String, Object> reading =
        Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", group,
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "max.poll.records", RECORDS);
    try (var consumer = new KafkaConsumer<>(reading, text, text)) {
      consumer.subscribe(List.of(source));
      var read = new ArrayList<ConsumerRecord<String, String>>();
      while (true) {
        consumer.poll(Duration.ofMillis(100)).forEach(read::add);
        if (read.size() >= RECORDS) {
          var batch = read.subList(0, RECORDS);
          copy(batch, consumer.groupMetadata());
          batch.clear();
        }
      }
    }
  }

  private void copy(List<ConsumerRecord<String, String>> batch, ConsumerGroupMetadata member) {
    Map<String, Object> writing =
        Map.of(
            "bootstrap.servers", bootstrap,
            "client.id", "writer",
            "transactional.id", group,
            "max.block.ms", 4000);
    try (var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
      producer.initTransactions();
      producer.beginTransaction();
      for (var row : batch) {
        producer.send(new ProducerRecord<>(sink, 0, row.key(), row.value()));
      }
      var next = new OffsetAndMetadata(batch.get(RECORDS - 1).offset() + 1);
      producer.sendOffsetsToTransaction(Map.of(new TopicPartition(source, 0), next), member);
      producer.commitTransaction();
    }
  }
}
