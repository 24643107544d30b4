import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A Flink job as it may stand in any repository: it copies the even numbers of a topic, and knows nothing of a test.
 *
 * <p>java -cp … Keep BOOTSTRAP SOURCE SINK GROUP CHECKPOINTS exactly_once|at_least_once
 *
 * <p>It runs in one JVM (a MiniCluster). When it is started again it goes on from its newest checkpoint, as a deployment does.
 */
public final class Keep {
    /** Partition, key and value. */
    private static final TypeInformation<Tuple3<Integer, byte[], byte[]>> ROW =
            Types.TUPLE(Types.INT, Types.PRIMITIVE_ARRAY(Types.BYTE), Types.PRIMITIVE_ARRAY(Types.BYTE));

    public static void main(String[] words) throws Exception {
        String bootstrap = words[0], source = words[1], sink = words[2], group = words[3];
        Path checkpoints = Path.of(words[4]);
        Configuration settings = new Configuration();
        settings.setString("rest.address", "localhost");
        settings.setString("rest.bind-address", "127.0.0.1");
        settings.setString("execution.checkpointing.interval", "1s");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        newest(checkpoints).ifPresent(path -> settings.setString("execution.state-recovery.path", path.toUri().toString()));
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(2, settings);

        KafkaSource<Tuple3<Integer, byte[], byte[]>> reads =
                KafkaSource.<Tuple3<Integer, byte[], byte[]>>builder()
                        .setBootstrapServers(bootstrap)
                        .setTopics(source)
                        .setGroupId(group)
                        .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
                        .setProperty("isolation.level", "read_committed")
                        .setDeserializer(new Reads())
                        .build();
        KafkaSink<Tuple3<Integer, byte[], byte[]>> writes =
                KafkaSink.<Tuple3<Integer, byte[], byte[]>>builder()
                        .setBootstrapServers(bootstrap)
                        .setDeliveryGuarantee(DeliveryGuarantee.valueOf(words[5].toUpperCase()))
                        .setTransactionalIdPrefix(group)
                        .setProperty("transaction.timeout.ms", "60000")
                        .setRecordSerializer(new Writes(sink))
                        .build();
        flink.fromSource(reads, WatermarkStrategy.noWatermarks(), "numbers")
                .uid("numbers")
                .filter(row -> Long.parseLong(new String(row.f2, StandardCharsets.UTF_8)) % 2 == 0)
                .uid("even")
                .sinkTo(writes)
                .uid("kept");
        flink.execute("keep");
    }

    /** The checkpoint that was completed last; Flink writes its {@code _metadata} then. */
    private static Optional<Path> newest(Path checkpoints) throws IOException {
        if (!Files.isDirectory(checkpoints)) {
            return Optional.empty();
        }
        try (Stream<Path> files = Files.walk(checkpoints, 3)) {
            return files.filter(path -> path.endsWith("_metadata"))
                    .max(Comparator.comparingLong(path -> path.toFile().lastModified()))
                    .map(Path::getParent);
        }
    }

    private static final class Reads implements KafkaRecordDeserializationSchema<Tuple3<Integer, byte[], byte[]>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple3<Integer, byte[], byte[]>> out) {
            out.collect(Tuple3.of(record.partition(), record.key(), record.value()));
        }

        @Override
        public TypeInformation<Tuple3<Integer, byte[], byte[]>> getProducedType() {
            return ROW;
        }
    }

    /** Into the partition that a record had. */
    private static final class Writes implements KafkaRecordSerializationSchema<Tuple3<Integer, byte[], byte[]>> {
        private final String topic;

        Writes(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                Tuple3<Integer, byte[], byte[]> row, KafkaSinkContext context, Long timestamp) {
            return new ProducerRecord<>(topic, row.f0, row.f1, row.f2);
        }
    }
}
