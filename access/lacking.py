"""Which of its rights a program lacks, by what Kafka says that it may do. No I/O."""

from collections.abc import Collection, Iterable, Mapping

from checkback.wire.rights import ResourceKind, Right

Allowed = Mapping[tuple[ResourceKind, str], Collection[str] | None]
"""Operations by resource, as Kafka names them (``DESCRIBE_CONFIGS``); None: it does not say, and is believed."""


def lacking(rights: Iterable[Right], allowed: Allowed) -> list[Right]:
    """Those that are not allowed; of a prefix, where one of the resources that begin so is not.

    Of resources that nothing is said of none is lacking.
    """
    return [
        right
        for right in rights
        if any(
            operations is not None and right.operation.name not in operations
            for (kind, name), operations in allowed.items()
            if kind is right.kind and (name.startswith(right.name) if right.prefixed else name == right.name)
        )
    ]
