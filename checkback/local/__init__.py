"""What one machine needs to run everything: a Java, the jars and a real Kafka broker."""

from checkback.local.jars import kafka_jars, spark_jars
from checkback.local.java import java_command, use_java
from checkback.local.kafka import LocalKafka, LocalKafkaCluster

__all__ = ["LocalKafka", "LocalKafkaCluster", "java_command", "kafka_jars", "spark_jars", "use_java"]
