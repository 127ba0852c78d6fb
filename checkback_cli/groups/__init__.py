"""Commands about producer groups, consumer groups, their offsets and dead letters."""
