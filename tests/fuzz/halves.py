"""Half messages: valid ones of every kind, and ones that break one rule each."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from checkback.wire.message_json import pack
from checkback.wire.protocol import Message, Topics
from tests.fuzz.pieces import ANY, NOT_NUMBERS, NOT_TEXT, UNLAWFUL_TOPICS, Headers, Made, changed, noise, some, without

LARGE_BYTES = 1_000_000
"""With headers and the reason still below what a topic takes by default (1,048,588)."""
LARGE_EVERY = 2_500
FAR_MS = 10**15 - 1
_NO_VERSION = "cb-version is not a number"
_OWN = "cb-topic is one of Checkback's or Kafka's own"
_REPEATED = "a cb- header is there more than once"
_ACTION = "cb-action of a half message is not one we know"
_NOT_HELD = "cb-held is not what the job writes there"
_NOT_SEVERAL = "Not a value of several messages"
_HELD_WRONGLY = (b"", b"1 2", b"1 2 3", b"1  2 3:4", b"-1 2 3:4", b"1 2 3:04", b"x" * 99)


class Halves:
    """Makes half messages."""

    def __init__(self, random: Random, topics: Topics, real_topic: str) -> None:
        self._random = random
        self.topics = topics
        self._real_topic = real_topic
        self._last_id = b"first"

    def make(self, number: int) -> Made:
        """A half message; about every second one is broken."""
        good = self.good(number)
        if number % LARGE_EVERY == LARGE_EVERY - 1:
            good = good._replace(kind="large", value=self._random.randbytes(LARGE_BYTES))
        if self._random.random() < 0.5:
            variant = self._random.choice(LAWFUL)
            return variant(self, good)
        kind, reason, breaking = self._random.choice(BROKEN)
        key, value, headers = breaking(self, good)
        return Made(kind, key, value, headers, reason, good.id, good.group)

    def good(self, number: int) -> Made:
        """A valid one in the SDK's order."""
        random = self._random
        group = random.choice((b"orders", "größe".encode(), b"g" * 255))
        transaction_id = b"%d-" % number + random.choice((b"tx", "ü".encode(), b'"\\\n\0', b" ", b"x" * 50))
        headers: Headers = [("cb-id", transaction_id), ("cb-group", group), ("cb-topic", self._real_topic.encode())]
        key = random.choice((None, b"", b"key", noise(random, 20)))
        value = noise(random, 200) if key is None else random.choice((None, b"", noise(random, 200)))
        return Made("good", key, value, [*headers, *some(random)], "", transaction_id, group, (transaction_id,))

    # Lawful variants

    def _plain(self, good: Made) -> Made:
        return good

    def _in_another_order(self, good: Made) -> Made:
        headers = list(good.headers)
        self._random.shuffle(headers)
        return good._replace(kind="another order", headers=headers)

    def _an_id_used_before(self, good: Made) -> Made:
        transaction_id, self._last_id = self._last_id, good.id
        named = changed(good.headers, "cb-id", transaction_id)
        return good._replace(kind="an id used before", headers=named, id=transaction_id, deliveries=(transaction_id,))

    def _unknown_headers_of_ours(self, good: Made) -> Made:
        more: Headers = [("cb-", b""), ("cb-\xfc", b"\xff"), ("cb-" + "n" * 3_000, noise(self._random, 300))]
        return good._replace(kind="unknown cb- headers", headers=[*good.headers, *more])

    def _null_options(self, good: Made) -> Made:
        names = ("cb-partition", "cb-immunity-ms", "cb-check-max", "cb-deliver-at", "cb-messages", "cb-version")
        return good._replace(kind="null options", headers=[*good.headers, *((name, None) for name in names)])

    def _large_options(self, good: Made) -> Made:
        more: Headers = [("cb-immunity-ms", b"9" * 15), ("cb-check-max", b"9" * 9), ("cb-version", b"1")]
        return good._replace(kind="large options", headers=[*more, *good.headers])

    def _far_in_the_future(self, good: Made) -> Made:
        header = ("cb-deliver-at", b"%d" % FAR_MS)
        return good._replace(kind="far in the future", headers=[*good.headers, header], deliveries=(), delayed=True)

    def _long_past(self, good: Made) -> Made:
        return good._replace(kind="long past", headers=[*good.headers, ("cb-deliver-at", b"0" * 15)])

    def _no_such_partition(self, good: Made) -> Made:
        header = ("cb-partition", self._random.choice((b"4", b"9" * 9)))
        headers = [*good.headers, header]
        return good._replace(kind="no such partition", headers=headers, deliveries=(), undeliverable=(good.id,))

    def _no_such_topic(self, good: Made) -> Made:
        headers = changed(good.headers, "cb-topic", self._random.choice((b"nowhere", b"_", b"a" * 249, b"cb.halves")))
        return good._replace(kind="no such topic", headers=headers, deliveries=(), undeliverable=(good.id,))

    def _several(self, good: Made) -> Made:
        random = self._random
        count = random.randint(1, 5)
        messages = [Message(self._real_topic, noise(random, 99), random.choice((None, b"k"))) for _ in range(count)]
        messages.append(Message("nowhere", None, b"k", [("größe", b"")]))
        return good._replace(
            kind="several",
            value=pack(messages),
            headers=[*good.headers, ("cb-messages", b"%d" % len(messages))],
            deliveries=tuple(good.id + b"#%d" % (at + 1) for at in range(count)),
            undeliverable=(good.id + b"#%d" % (count + 1),),
        )

    # Broken ones

    def own_topic(self) -> bytes:
        """A topic nobody may deliver to."""
        internal = ("__consumer_offsets", "__transaction_state", "__", "__x")
        return self._random.choice((*self.topics.all(), *internal)).encode()

    def bundle(self, good: Made, value: bytes | None, count: bytes = b"1") -> "Parts":
        """A half message that says it holds several, with this value."""
        return good.key, value, [*good.headers, ("cb-messages", count)]

    def one(self, **wrong: Any) -> bytes:
        """The value of a bundle of one message, with something wrong in it."""
        message = {"topic": self._real_topic, "partition": None, "key": None, "payload": "AA==", "headers": []}
        return json.dumps({"messages": [{**message, **wrong}]}).encode()

    def pick(self, choices: Any) -> Any:
        """One of them."""
        return self._random.choice(choices)

    def noise(self) -> bytes:
        """Random bytes."""
        return noise(self._random, 300)


LAWFUL: tuple[Callable[[Halves, Made], Made], ...] = (
    *(Halves._plain,) * 8,
    *(Halves._in_another_order, Halves._an_id_used_before, Halves._unknown_headers_of_ours, Halves._null_options),
    *(Halves._large_options, Halves._far_in_the_future, Halves._long_past, Halves._no_such_partition),
    *(Halves._no_such_topic, Halves._several),
)

Parts = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""
Breaking = Callable[[Halves, Made], Parts]


def _with(headers: Callable[[Halves, Headers], Headers]) -> Breaking:
    return lambda maker, good: (good.key, good.value, headers(maker, good.headers))


def _text_rules(name: str, most: int) -> list[tuple[str, str, Breaking]]:
    return [
        (f"{name} missing", f"{name} is missing", _with(lambda _, headers: without(headers, name))),
        (f"{name} null", f"{name} is missing", _with(lambda _, headers: changed(headers, name, None))),
        (f"{name} empty", f"{name} is missing", _with(lambda _, headers: changed(headers, name, b""))),
        (f"{name} repeated", _REPEATED, _with(lambda _, headers: [*headers, (name, b"again")])),
        (f"{name} no text", f"{name} is not UTF-8", _with(lambda m, headers: changed(headers, name, m.pick(NOT_TEXT)))),
        (
            f"{name} too long",
            f"{name} is longer than {most} bytes",
            _with(lambda m, headers: changed(headers, name, m.pick((b"x", b"\xff")) * m.pick((most + 1, 9_000)))),
        ),
    ]


def _several(value: Callable[[Halves], bytes | None]) -> Breaking:
    return lambda maker, good: maker.bundle(good, value(maker))


_NO_LISTS = (b"{}", b"[]", b"1", b'{"messages": {}}', b'{"messages": "abc"}', b"{")
_NO_TOPICS = ("", "..", "a b", "a" * 250, "\ud800", 1, None, [])
_NO_PARTITIONS = (float("inf"), float("nan"), -1, 10**9, 1.5, True, "1", [], 10**400)
_NO_HEADERS = ({}, 1, "ab", [1], [["a", 1]], [["a", "="]], [["cb-id", ""]], [["\ud800", ""]], [["\0", ""]])


def _number_rule(name: str, reason: str) -> tuple[str, str, Breaking]:
    return f"{name} no number", reason, _with(lambda m, headers: [*headers, (name, m.pick(NOT_NUMBERS))])


BROKEN: tuple[tuple[str, str, Breaking], ...] = (
    ("no headers", "cb-id is missing", lambda m, _: (m.noise(), m.noise(), [])),
    ("nothing", "cb-id is missing", lambda _, __: (None, None, [])),
    *_text_rules("cb-id", 64),
    *_text_rules("cb-group", 255),
    ("an unknown cb- header repeated", _REPEATED, _with(lambda _, headers: [*headers, ("cb-x", b""), ("cb-x", None)])),
    ("a later version", "cb-version is later", _with(lambda m, h: [*h, ("cb-version", m.pick((b"2", b"9" * 9)))])),
    ("no version", _NO_VERSION, _with(lambda m, h: [*h, ("cb-version", m.pick((*NOT_NUMBERS, b"0", b"01")))])),
    (
        "an invalid topic",
        "cb-topic is missing or is not a valid topic name",
        _with(lambda m, headers: changed(headers, "cb-topic", m.pick((None, *UNLAWFUL_TOPICS)))),
    ),
    ("an own topic", _OWN, _with(lambda m, headers: changed(headers, "cb-topic", m.own_topic()))),
    ("an action", _ACTION, _with(lambda m, h: [*h, ("cb-action", m.pick((b"", b"rollback", b"COMMIT", b"\xff")))])),
    ("not held", _NOT_HELD, _with(lambda _, h: [*h, ("cb-held", b"1 2 3:4")])),
    ("not held so", _NOT_HELD, _with(lambda m, h: [*h, ("cb-action", b"commit"), ("cb-held", m.pick(_HELD_WRONGLY))])),
    _number_rule("cb-partition", "cb-partition is not a number"),
    _number_rule("cb-immunity-ms", "cb-immunity-ms is not a number of milliseconds"),
    _number_rule("cb-check-max", "cb-check-max is not a number"),
    _number_rule("cb-deliver-at", "cb-deliver-at is not a number of milliseconds"),
    _number_rule("cb-messages", "cb-messages is not a number"),
    (
        "a partition for several",
        "cb-partition is for one message, not for several",
        _with(lambda _, headers: [("cb-messages", b"1"), *headers, ("cb-partition", b"1")]),
    ),
    ("several: noise", _NOT_SEVERAL, _several(lambda m: b"\xff" + m.noise())),
    ("several: null", _NOT_SEVERAL, _several(lambda _: None)),
    ("several: no list", _NOT_SEVERAL, _several(lambda m: m.pick(_NO_LISTS))),
    ("several: deep", _NOT_SEVERAL, _several(lambda m: m.pick((b"[" * 5_000, b'{"":' * 1_000)))),
    ("several: another number", "cb-messages says", lambda m, g: m.bundle(g, m.one(), m.pick((b"0", b"2", b"7")))),
    (
        "several: more than fit into 16 MiB",
        "its messages are larger than 16 MiB together",
        lambda m, good: m.bundle(good, m.one(), b"9" * 9),
    ),
    ("several: an own topic", "a message's topic is one of", _several(lambda m: m.one(topic=m.own_topic().decode()))),
    ("several: an invalid topic", ANY, _several(lambda m: m.one(topic=m.pick(_NO_TOPICS)))),
    ("several: no partition", ANY, _several(lambda m: m.one(partition=m.pick(_NO_PARTITIONS)))),
    ("several: no headers", ANY, _several(lambda m: m.one(headers=m.pick(_NO_HEADERS)))),
    ("several: a long name", "Header", _several(lambda m: m.one(headers=[["cb-" + "n" * 5_000, ""]]))),
)
"""OutcomeKind, how the reason begins, and what makes a good half message such a one."""
