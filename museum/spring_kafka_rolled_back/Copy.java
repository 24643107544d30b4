import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.BatchMessageListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.support.Acknowledgment;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/**
 * Copies a topic in transactions of a hundred records; every tenth call of the listener fails after its rows were sent.
 *
 * <p>java -cp CLASSPATH Copy.java BOOTSTRAP SOURCE SINK GROUP
 */
public final class Copy {

  /** Begins the container, whose threads go on until the program is ended. */
  public static void main(String[] arguments) {
    String bootstrap = arguments[0], source = arguments[1], sink = arguments[2], group = arguments[3];
    var producers =
        new DefaultKafkaProducerFactory<String, String>(
            Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap),
            new StringSerializer(),
            new StringSerializer());
    producers.setTransactionIdPrefix(group + "-");
    var consumers =
        new DefaultKafkaConsumerFactory<String, String>(
            Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
                ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 100,
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
            new StringDeserializer(),
            new StringDeserializer());
    var properties = new ContainerProperties(source);
    properties.setGroupId(group);
    properties.setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
    properties.setMessageListener(new Listener(new KafkaTemplate<>(producers), sink));
    new KafkaMessageListenerContainer<>(consumers, properties).start();
  }

  /** Takes what a poll returned as it is. */
  private static final class Listener implements BatchMessageListener<String, String> {

    private final KafkaTemplate<String, String> template;
    private final String sink;
    private int calls;

    Listener(KafkaTemplate<String, String> template, String sink) {
      this.template = template;
      this.sink = sink;
    }

    @Override
    public boolean wantsPollResult() {
      return true;
    }

    @Override
    public void onMessage(
        ConsumerRecords<String, String> records,
        Acknowledgment ignored,
        Consumer<String, String> consumer) {
      records.forEach(record -> template.send(sink, 0, record.key(), record.value()));
      calls++;
      if (calls % 10 == 0) {
        throw new IllegalStateException("this call fails");
      }
    }

    @Override
    public void onMessage(List<ConsumerRecord<String, String>> records) {
      throw new UnsupportedOperationException("a poll's result is wanted");
    }
  }
}
