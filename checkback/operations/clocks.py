"""How far two clocks are apart, as far as one can know over a network."""


def difference_ms(asked_ms: int, kafka: int, heard_ms: int) -> int:
    """By how much a clock is ahead of Kafka's, at least, negative when it is behind.

    Kafka said its time after the clock showed ``asked_ms`` and before it showed ``heard_ms``.
    """
    return max(asked_ms - kafka, 0) + min(heard_ms - kafka, 0)
