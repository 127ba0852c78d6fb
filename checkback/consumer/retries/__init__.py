"""Messages that a listener wants again later, and dead letters."""
