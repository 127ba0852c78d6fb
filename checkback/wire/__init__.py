"""What is written into Kafka and over HTTP: names, headers, sizes, signatures. No I/O."""
