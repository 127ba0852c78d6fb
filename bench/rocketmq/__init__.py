"""The same work on a real RocketMQ 5.4.0: ``run.sh`` starts it from Maven's jars and runs ``TxBench.java`` on it."""
