import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application as it may stand in any repository: it counts the large orders of each customer, in a store that
 * Streams restores from its changelog topic, and knows nothing of a test.
 *
 * <p>java -cp CLASSPATH Count.java ORDERS COUNTS LEAST_AMOUNT STREAMS_SETTING=VALUE…
 */
public final class Count {

  /** Runs until it is ended. */
  public static void main(String[] arguments) throws InterruptedException {
    Properties settings = new Properties();
    settings.putAll(
        Stream.of(arguments)
            .skip(3)
            .map(text -> text.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1])));
    Topology topology = topology(arguments[0], arguments[1], Long.parseLong(arguments[2]));
    KafkaStreams streams = new KafkaStreams(topology, settings);
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

  /** The key is the customer, the value the amount; a count is written again whenever it has changed. */
  private static Topology topology(String orders, String counts, long least) {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(orders, Consumed.with(Serdes.String(), Serdes.String()))
        .filter((customer, amount) -> Long.parseLong(amount) >= least)
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .count(
            Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()))
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to(counts, Produced.with(Serdes.String(), Serdes.String()));
    return builder.build();
  }
}
