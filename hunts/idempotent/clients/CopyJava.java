import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Copies a topic with an idempotent producer of Kafka's own client; see README.md beside this folder. */
public final class CopyJava {
  private CopyJava() {}

  /** Runs until it is ended. */
  public static void main(String[] arguments) throws InterruptedException {
    Map<String, Object> reads =
        Map.of(
            "bootstrap.servers", System.getenv("BOOTSTRAP"),
            "group.id", System.getenv("GROUP"),
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "max.poll.records", 200);
    Map<String, Object> writes =
        Map.of(
            "bootstrap.servers", System.getenv("BOOTSTRAP"),
            "enable.idempotence", true,
            "linger.ms", 5,
            "request.timeout.ms", 3_000,
            "delivery.timeout.ms", 10_000);
    try (var consumer = new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(writes, new StringSerializer(), new StringSerializer())) {
      consumer.subscribe(List.of(System.getenv("SOURCE")));
      while (true) {
        List<ConsumerRecord<String, String>> batch =
            StreamSupport.stream(consumer.poll(Duration.ofMillis(200)).spliterator(), false).toList();
        List<ConsumerRecord<String, String>> rest = batch;
        while (!rest.isEmpty()) {
          rest = refused(producer, rest);
        }
        if (!batch.isEmpty()) {
          consumer.commitSync();
        }
      }
    }
  }

  /** Sends records, waits for all answers, and returns those that the client gave up. */
  private static List<ConsumerRecord<String, String>> refused(
      KafkaProducer<String, String> producer, List<ConsumerRecord<String, String>> batch)
      throws InterruptedException {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    for (ConsumerRecord<String, String> record : batch) {
      sent.add(
          producer.send(
              new ProducerRecord<>(System.getenv("SINK"), record.partition(), record.key(), record.value())));
    }
    List<ConsumerRecord<String, String>> left = new ArrayList<>();
    for (int i = 0; i < batch.size(); i++) {
      try {
        sent.get(i).get();
      } catch (ExecutionException error) {
        System.err.println("a record is sent again: " + error.getCause());
        left.add(batch.get(i));
      }
    }
    return left;
  }
}
