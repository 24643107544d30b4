import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A Flink job with state, as it may stand in any repository: it counts the orders of each customer, and knows nothing of a test.
 *
 * <p>Counts BOOTSTRAP ORDERS COUNTS GROUP. Checkpoints, parallelism and recovery are settings of the cluster (cluster.py).
 */
public final class Counts {
    private static final TypeInformation<Tuple2<String, Long>> ROW = Types.TUPLE(Types.STRING, Types.LONG);

    public static void main(String[] words) throws Exception {
        String bootstrap = words[0], orders = words[1], counts = words[2], group = words[3];
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment();
        KafkaSource<Tuple2<String, Long>> reads =
                KafkaSource.<Tuple2<String, Long>>builder()
                        .setBootstrapServers(bootstrap)
                        .setTopics(orders)
                        .setGroupId(group)
                        .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
                        .setProperty("isolation.level", "read_committed")
                        .setDeserializer(new Reads())
                        .build();
        KafkaSink<Tuple2<String, Long>> writes =
                KafkaSink.<Tuple2<String, Long>>builder()
                        .setBootstrapServers(bootstrap)
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(group)
                        .setProperty("transaction.timeout.ms", "60000")
                        .setRecordSerializer(new Writes(counts))
                        .build();
        flink.fromSource(reads, WatermarkStrategy.noWatermarks(), "orders")
                .uid("orders")
                .keyBy(order -> order.f0)
                .process(new Count())
                .uid("count")
                .sinkTo(writes)
                .uid("counts");
        flink.execute("counts");
    }

    /** The count of a customer is written again whenever it has changed. */
    private static final class Count extends KeyedProcessFunction<String, Tuple2<String, Long>, Tuple2<String, Long>> {
        private transient ValueState<Long> counted;

        @Override
        public void open(OpenContext context) {
            counted = getRuntimeContext().getState(new ValueStateDescriptor<>("counted", Types.LONG));
        }

        @Override
        public void processElement(Tuple2<String, Long> order, Context context, Collector<Tuple2<String, Long>> out)
                throws Exception {
            Long before = counted.value();
            long now = (before == null ? 0L : before) + 1L;
            counted.update(now);
            out.collect(Tuple2.of(order.f0, now));
        }
    }

    private static final class Reads implements KafkaRecordDeserializationSchema<Tuple2<String, Long>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<String, Long>> out) {
            out.collect(Tuple2.of(new String(record.key(), StandardCharsets.UTF_8), 1L));
        }

        @Override
        public TypeInformation<Tuple2<String, Long>> getProducedType() {
            return ROW;
        }
    }

    private static final class Writes implements KafkaRecordSerializationSchema<Tuple2<String, Long>> {
        private final String topic;

        Writes(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(Tuple2<String, Long> row, KafkaSinkContext context, Long timestamp) {
            byte[] key = row.f0.getBytes(StandardCharsets.UTF_8);
            return new ProducerRecord<>(topic, key, Long.toString(row.f1).getBytes(StandardCharsets.UTF_8));
        }
    }
}
