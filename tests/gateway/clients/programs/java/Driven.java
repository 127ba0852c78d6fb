import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Does what it reads, a line at a time: see driven.py. */
public class Driven {
    private static volatile TransactionResolution answer = TransactionResolution.COMMIT;
    private static Transaction transaction;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        topic = arguments[1];
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfigurationBuilder configuration = ClientConfiguration.newBuilder()
            .setEndpoints(arguments[0]).enableSsl("yes".equals(System.getenv("TLS")));
        configuration.setNamespace(System.getenv().getOrDefault("NAMESPACE", ""));
        if (System.getenv("ACCESS_KEY") != null) {
            configuration.setCredentialProvider(new StaticSessionCredentialsProvider(
                System.getenv("ACCESS_KEY"), System.getenv("ACCESS_SECRET")));
        }
        try (Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration.build())
                .setTopics(topic).setTransactionChecker(Driven::check).build()) {
            say("READY");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    say(done(provider, producer, line.split(" ")));
                } catch (Throwable error) {
                    say("FAILED " + error);
                }
            }
        } catch (Throwable error) {
            for (Throwable why = error.getCause(); why != null; why = why.getCause()) {
                error.addSuppressed(why);
            }
            say("FAILED " + error + Arrays.toString(error.getSuppressed()));
        }
    }

    private static String done(ClientServiceProvider provider, Producer producer, String[] words) throws Exception {
        switch (words[0]) {
            case "topic":
                topic = words[1];
                return "OK";
            case "answer":
                answer = words[1].equals("unknown")
                    ? TransactionResolution.UNKNOWN : TransactionResolution.valueOf(words[1].toUpperCase());
                return "OK";
            case "commit":
                transaction.commit();
                return "OK";
            case "rollback":
                transaction.rollback();
                return "OK";
            case "crash":
                Runtime.getRuntime().halt(9);
        }
        byte[] body = Arrays.copyOf(words[2].getBytes(StandardCharsets.UTF_8), Integer.parseInt(words[3]));
        MessageBuilder message = provider.newMessageBuilder().setTopic(topic).setTag("paid").setKeys("k1")
            .addProperty("customer", "7").setBody(body);
        if (words[1].equals("fifo")) {
            message.setMessageGroup("g1");
        } else if (words[1].equals("delay")) {
            message.setDeliveryTimestamp(System.currentTimeMillis() + 2_000);
        } else if (words[1].equals("half")) {
            transaction = producer.beginTransaction();
            return "OK " + producer.send(message.build(), transaction).getMessageId();
        }
        return "OK " + producer.send(message.build()).getMessageId();
    }

    private static TransactionResolution check(MessageView message) {
        ByteBuffer body = message.getBody();
        int size = body.remaining();
        String text = StandardCharsets.UTF_8.decode(body).toString().split("\0")[0];
        say("CHECK " + text + " " + size + " " + message.getTag().orElse("") + " "
            + String.join(",", message.getKeys()) + " " + message.getProperties().get("customer"));
        return answer;
    }

    private static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }
}
