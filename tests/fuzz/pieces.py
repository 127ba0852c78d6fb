"""What fuzzed records are made of."""

from random import Random
from typing import NamedTuple

Headers = list[tuple[str, bytes | None]]


ANY = "any reason"
"""For what can be said in many ways."""


class NotText(str):
    """A header's name as a client in another language may write it: no UTF-8."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        """What kafka-python puts into the record."""
        return b"\xff\xfe" + super().encode()


class Made(NamedTuple):
    """A half message or an op. A ``reason`` says that it is broken, and how its rejection's reason begins."""

    kind: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str = ""
    id: bytes = b""
    group: bytes = b""
    deliveries: tuple[bytes, ...] = ()
    """Ids under which it is delivered when it is committed."""
    undeliverable: tuple[bytes, ...] = ()
    """Ids under which it is parked when it is committed."""
    delayed: bool = False


def noise(random: Random, most: int) -> bytes:
    """Bytes of any kind."""
    return random.randbytes(random.randint(0, most))


NOT_TEXT = (b"\xff", b"\x00\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"half a \xc3")
"""No UTF-8: cut off, overlong, a surrogate, beyond Unicode."""

NOT_NUMBERS = (
    *(b"", b"-1", b"+1", b" 1", b"1 ", b"1\n", b"1\0", b"1e3", b"1.0", b"1_0", b"0x10", b"NaN", b"one", b"\xff"),
    *("\u0663".encode(), "\u00b2".encode(), "\uff11".encode(), b"9" * 40, b"1" * 5_000),
)
"""Signs, blanks, exponents, digits of other scripts, too many digits."""

UNLAWFUL_TOPICS = (b"", b".", b"..", b"a b", b"a/b", b"orders\n", b"orders\0", b"\xff", "tür".encode(), b"a" * 250)

HARMLESS: tuple[tuple[str, bytes | None], ...] = (
    *(("trace", b"\x00\xff"), ("trace", b""), ("", b"no name"), ("null", None), ("größe", b"1")),
    *(("\U0001f600", b"x"), ("CB-ID", b"not ours"), ("x-cb-id", b"nor this"), ('"\\\n', b'"\\\n'), ("n" * 5_000, b"")),
)
"""Headers that an application may have."""


def some(random: Random) -> Headers:
    """Up to four headers of an application."""
    return random.choices(HARMLESS, k=random.randint(0, 4))


def changed(headers: Headers, name: str, content: bytes | None) -> Headers:
    """Headers with other content of one of them."""
    return [(other, content if other == name else kept) for other, kept in headers]


def without(headers: Headers, name: str) -> Headers:
    """Headers without one of them."""
    return [(other, kept) for other, kept in headers if other != name]
