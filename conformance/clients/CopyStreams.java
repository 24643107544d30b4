import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Copies a topic with Kafka Streams; see README.md beside this folder. */
public final class CopyStreams {

  /** Runs until it is ended; a thread that dies is replaced. */
  public static void main(String[] arguments) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
    settings.put("application.id", System.getenv("GROUP"));
    settings.put("state.dir", arguments[0]);
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("commit.interval.ms", "100");
    settings.put("request.timeout.ms", "10000");
    settings.put("consumer.auto.offset.reset", "none");
    settings.put("consumer.session.timeout.ms", "6000");
    settings.put("consumer.heartbeat.interval.ms", "1000");
    settings.put("consumer.max.poll.records", "200");
    settings.put("producer.transaction.timeout.ms", "20000");
    KafkaStreams streams = new KafkaStreams(topology(), settings);
    streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  /** A row is in the partition that its key names. */
  private static Topology topology() {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(System.getenv("SOURCE"), Consumed.with(Serdes.String(), Serdes.String()))
        .to(
            System.getenv("SINK"),
            Produced.<String, String>with(Serdes.String(), Serdes.String())
                .withStreamPartitioner(
                    (topic, key, value, partitions) ->
                        Optional.of(Set.of((int) (Long.parseLong(key) % partitions)))));
    return builder.build();
  }
}
