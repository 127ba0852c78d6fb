"""The one way to Kafka: both libraries' clients are made here, so that what is wrong is always told in one way."""
