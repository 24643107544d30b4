import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A Kafka Streams application as it may stand in any repository: it squares numbers, and knows nothing of a test.
 *
 * <p>java -cp CLASSPATH Square.java SOURCE SINK STREAMS_SETTING=VALUE…
 */
public final class Square {

  /** Runs until it is ended. */
  public static void main(String[] arguments) throws InterruptedException {
    Properties settings = new Properties();
    settings.putAll(
        Stream.of(arguments)
            .skip(2)
            .map(text -> text.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1])));
    KafkaStreams streams = new KafkaStreams(topology(arguments[0], arguments[1]), settings);
    CountDownLatch ended = new CountDownLatch(1);
    streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  streams.close();
                  ended.countDown();
                }));
    streams.start();
    ended.await();
  }

  /** The row of a number is in the partition that the number names. */
  private static Topology topology(String source, String sink) {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(source, Consumed.with(Serdes.String(), Serdes.String()))
        .mapValues(text -> Long.toString(Long.parseLong(text) * Long.parseLong(text)))
        .to(
            sink,
            Produced.<String, String>with(Serdes.String(), Serdes.String())
                .withStreamPartitioner(
                    (topic, key, value, partitions) ->
                        Optional.of(Set.of((int) (Long.parseLong(key) % partitions)))));
    return builder.build();
  }
}
