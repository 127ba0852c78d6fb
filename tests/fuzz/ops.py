"""Ops: what is said of half messages that are there, and ops that break a rule or name nobody."""

from random import Random
from typing import NamedTuple

from state.segment import BEYOND_REASON
from tests.fuzz.pieces import NOT_NUMBERS, NOT_TEXT, Headers, Made, changed, noise, some, without

_HALF = "cb-half is not partition:offset"
FAR = (2**31 - 1, 2**31, 2**32, 10**15 - 1)
"""Lawful offsets that the log does not have."""
TOO_FAR = (10**15, 2**53 + 1, 2**62, 2**63 - 1)


class Saying(NamedTuple):
    """What an op says."""

    action: str
    source: str = "producer"
    foreign: str = ""
    """Which header is another transaction's, if one is."""

    @property
    def kind(self) -> str:
        """For people to read."""
        return f"{self.action} by {self.source}" + (f", {self.foreign} of another" if self.foreign else "")


_COMMIT, _ROLLBACK, _UNKNOWN = Saying("commit"), Saying("rollback"), Saying("unknown")
_SAYINGS = (
    *(_COMMIT, _COMMIT, _COMMIT, _ROLLBACK, _UNKNOWN, Saying("unknown", "operator"), Saying("unknown", "check")),
    *(Saying("commit", "check"), Saying("rollback", "check"), Saying("unreachable", "check")),
    *(Saying("commit", "operator"), Saying("rollback", "operator"), Saying("resume", "operator")),
    *(
        Saying("commit", foreign="cb-id"),
        Saying("rollback", "check", "cb-group"),
        Saying("resume", "operator", "cb-id"),
    ),
)


def a_story(random: Random) -> list[Saying]:
    """What is said of one half message, in order: mostly one commit, or nothing."""
    if random.random() < 0.6:
        return random.choice(([], [_COMMIT], [_COMMIT], [_ROLLBACK]))
    return random.choices(_SAYINGS, k=random.randint(1, 4))


def spelled(random: Random, saying: Saying, half: Made, position: str) -> Made:
    """The op that says this of a half message."""
    headers: Headers = [("cb-id", half.id), ("cb-group", half.group), ("cb-half", position.encode())]
    headers += [("cb-action", saying.action.encode()), ("cb-source", saying.source.encode())]
    if saying.foreign:
        headers = changed(headers, saying.foreign, b"another")
    if random.random() < 0.2:
        headers += [*some(random), ("cb-later", noise(random, 9)), ("cb-version", random.choice((None, b"1")))]
    if random.random() < 0.2:
        random.shuffle(headers)
    return Made(saying.kind, random.choice((None, b"", b"key")), random.choice((None, b"", noise(random, 99))), headers)


_BAD_POSITIONS = (
    *("", ":", "{0}", "{0}:", ":5", "{0}:-5", "-{0}:5", "+{0}:5", "0{0}:5", "{0}:05", "{0}:5:6", "{0};5", " {0}:5"),
    *("{0}:5 ", "{0}:5\n", "{0}:1e3", "{0}:5.0", "{0}:0x5", "{0}:\u0665", "{0}:9223372036854775808", "{0}:" + "9" * 99),
    *("2147483648:5", "99999999999999999999:5", "-1:5", "null:5", "{0}:None"),
)


class Strays:
    """Makes ops that break a rule, or that name a half message which is not there."""

    def __init__(self, random: Random, ends: list[int]) -> None:
        self._random = random
        self._ends = ends

    def make(self, partition: int) -> Made:
        """An op for this partition."""
        random = self._random
        # not just behind the end: the job writes half messages of its own there, those that it holds
        offset = random.choice((*FAR, *(self._ends[partition] + ahead for ahead in (5_000, 5_001, 9_099))))
        valid = spelled(random, random.choice(_SAYINGS), Made("", None, None, [], "", b"stray", b"orders"), "")
        headers = changed(valid.headers, "cb-half", f"{partition}:{offset}".encode())
        if random.random() < 0.2:
            return valid._replace(kind="beyond the log's end", headers=headers, reason=BEYOND_REASON)
        kind, reason, headers = random.choice(self._broken(headers, partition))
        return valid._replace(kind=kind, headers=headers, reason=reason)

    def _broken(self, good: Headers, partition: int) -> list[tuple[str, str, Headers]]:
        random = self._random
        position = random.choice(_BAD_POSITIONS).format(partition).encode()
        number = random.choice((*NOT_NUMBERS, b"0", b"01"))
        plain = without(good, "cb-version")
        said = changed(plain, "cb-action", b"unreachable")
        said = changed(said, "cb-source", random.choice((b"producer", b"operator")))
        resumed = changed(changed(plain, "cb-action", b"resume"), "cb-source", random.choice((b"producer", b"check")))
        unknown = random.choice((b"", None, b"COMMIT", b"commit ", b"commit\0", b"\xff", noise(random, 30)))
        return [
            ("no headers", "cb-id is missing", []),
            ("no id", "cb-id is missing", changed(good, "cb-id", random.choice((None, b"")))),
            ("an id that is not text", "cb-id is not UTF-8", changed(good, "cb-id", random.choice(NOT_TEXT))),
            ("a long id", "cb-id is longer than 64 bytes", changed(good, "cb-id", b"x" * 65)),
            ("two actions", "a cb- header is there more than once", [*good, ("cb-action", b"rollback")]),
            ("two positions", "a cb- header is there more than once", [("cb-half", b"0:0"), *good]),
            ("no group", "cb-group is missing", without(good, "cb-group")),
            ("a group that is not text", "cb-group is not UTF-8", changed(good, "cb-group", random.choice(NOT_TEXT))),
            ("a long group", "cb-group is longer than 255 bytes", changed(good, "cb-group", b"x" * 256)),
            ("no version", "cb-version is not a number", [*plain, ("cb-version", number)]),
            ("a later version", "cb-version is later", [*plain, ("cb-version", b"2")]),
            ("no position", _HALF, without(good, "cb-half")),
            ("a bad position", _HALF, changed(good, "cb-half", position)),
            ("a position that is not text", _HALF, changed(good, "cb-half", random.choice(NOT_TEXT))),
            (
                "an offset that no log has",
                "cb-half names an offset that no log has",
                changed(good, "cb-half", b"%d:%d" % (partition, random.choice(TOO_FAR))),
            ),
            (
                "another partition",
                "it lies on another partition than its cb-half",
                changed(good, "cb-half", random.choice((b"%d:5" % (partition + 1), b"2147483647:5"))),
            ),
            ("an unknown action", "cb-action is not one we know", changed(good, "cb-action", unknown)),
            ("an unknown source", "cb-source is not one we know", changed(good, "cb-source", unknown)),
            ("unreachable", "only a check can find a producer unreachable", said),
            ("resume", "only an operator can resume", resumed),
            ("redeliver", "only an operator can have a message", changed(resumed, "cb-action", b"redeliver")),
        ]
