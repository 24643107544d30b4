import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.rocksdb.Options;

/**
 * Keeps balances in a persistent store: the value {@code +1} adds to the balance of its key, {@code =0} sets it, and {@code
 * commit} asks for a commit.
 *
 * <p>java -cp CLASSPATH Balances.java ENTRIES BALANCES STREAMS_SETTING=VALUE…
 */
public final class Balances {
  private static final String STORE = "balances";

  /** Begins the application, whose threads go on until the program is ended. */
  public static void main(String[] arguments) {
    Properties settings = new Properties();
    settings.putAll(
        Stream.of(arguments)
            .skip(2)
            .map(text -> text.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1])));
    settings.put("rocksdb.config.setter", SmallBuffers.class);
    var store =
        Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.String());
    var topology = new Topology();
    topology
        .addSource("entries", new StringDeserializer(), new StringDeserializer(), arguments[0])
        .addProcessor("balance", Balance::new, "entries")
        .addStateStore(store, "balance")
        .addSink("sink", arguments[1], new StringSerializer(), new StringSerializer(), "balance");
    new KafkaStreams(topology, settings).start();
  }

  private static final class Balance implements Processor<String, String, String, String> {
    private static final String PADDING = " ".repeat(1000);

    private ProcessorContext<String, String> context;
    private KeyValueStore<String, String> balances;

    @Override
    public void init(ProcessorContext<String, String> given) {
      context = given;
      balances = given.getStateStore(STORE);
    }

    @Override
    public void process(Record<String, String> entry) {
      if (entry.value().equals("commit")) {
        context.commit();
        return;
      }
      String before = entry.value().equals("=0") ? null : balances.get(entry.key());
      long amount = entry.value().equals("=0") ? 0 : 1;
      long balance = (before == null ? 0 : Long.parseLong(before.strip())) + amount;
      balances.put(entry.key(), balance + PADDING);
      context.forward(entry.withValue(Long.toString(balance)));
    }
  }

  /** RocksDB writes what it has in memory to a file after 64 KB. */
  public static final class SmallBuffers implements RocksDBConfigSetter {
    @Override
    public void setConfig(String name, Options options, Map<String, Object> settings) {
      options.setWriteBufferSize(64 * 1024);
    }

    @Override
    public void close(String name, Options options) {}
  }
}
