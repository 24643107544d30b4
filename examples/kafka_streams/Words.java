import java.util.Arrays;
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
 * A Kafka Streams application as it may stand in any repository: it counts words, and knows nothing of a test.
 *
 * <p>A word has to go to the partition that counts it, so Streams writes all words to a topic of its own (a repartition topic)
 * and reads them again. Both steps are of one consumer group.
 *
 * <p>java -cp CLASSPATH Words.java LINES COUNTS STREAMS_SETTING=VALUE…
 */
public final class Words {

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

  /** A count is written again whenever it has changed. */
  private static Topology topology(String lines, String counts) {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(lines, Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
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
