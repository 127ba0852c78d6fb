import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * A transactional message through a gateway, with RocketMQ's own client.
 *
 * <p>java -cp 'jars/*' Transactional.java ADDRESS TOPIC commit|rollback|crash|listen
 */
public class Transactional {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        String topic = arguments[1];
        String mode = arguments[2];

        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfigurationBuilder configuration = ClientConfiguration.newBuilder()
            .setEndpoints(address)
            .enableSsl("yes".equals(System.getenv("TLS")));
        if (System.getenv("ACCESS_KEY") != null) {
            configuration.setCredentialProvider(new StaticSessionCredentialsProvider(
                System.getenv("ACCESS_KEY"), System.getenv("ACCESS_SECRET")));
        }
        try (Producer producer = provider.newProducerBuilder()
                .setClientConfiguration(configuration.build())
                .setTopics(topic)
                .setTransactionChecker(Transactional::check)
                .build()) {
            if (mode.equals("listen")) { // answer checks, also about transactions of other processes
                System.out.println("listening");
                Thread.currentThread().join();
            }
            Message message = provider.newMessageBuilder()
                .setTopic(topic)
                .setTag("paid")
                .setKeys("order-1")
                .addProperty("customer", "7")
                .setBody("order 1 from Java".getBytes(StandardCharsets.UTF_8))
                .build();
            Transaction transaction = producer.beginTransaction();
            System.out.println("half message " + producer.send(message, transaction).getMessageId());
            // here belongs the local transaction: what the message tells of
            switch (mode) {
                case "commit":
                    transaction.commit();
                    break;
                case "rollback":
                    transaction.rollback();
                    break;
                default:
                    Runtime.getRuntime().halt(1);
            }
            System.out.println(mode);
        }
    }

    /** Looks at what the local transaction left in the database; UNKNOWN is asked again. */
    private static TransactionResolution check(MessageView message) {
        String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
        System.out.println("asked about " + message.getMessageId() + ": " + body);
        return TransactionResolution.COMMIT;
    }
}
