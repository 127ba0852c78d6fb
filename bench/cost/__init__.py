"""What a transaction and a batch cost in CPU time, which holds on a busy machine where a rate does not."""
