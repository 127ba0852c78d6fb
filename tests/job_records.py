"""Writes what producers, the check service and the job write, without any of them."""

import json
import time
from contextlib import closing
from types import TracebackType
from typing import Any, Self

from kafka import TopicPartition
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import OffsetAndMetadata

from checkback.operations.topics import admin_client
from checkback.wire import protocol
from checkback.wire.checks import Announcement, CheckRequest
from checkback.wire.groups import display_group
from checkback.wire.protocol import Action, HalfPosition, Source, half_headers, op_headers
from streaming.brokers.client import SinkSettings
from streaming.ownership.claim import Claim, Owner
from tests.place import Place, wait_until


def now_ms() -> int:
    return int(time.time() * 1000)


def status_row(transaction_id: str, half: HalfPosition | str, **fields: Any) -> dict[str, Any]:
    """A row of ``cb.status`` before the first check is answered."""
    row = {"transaction_id": transaction_id, "group": "shop", "topic": "orders", "half": str(half)}
    numbers = {"attempt": 1, "check_max": 15, "ingested_ms": 1, "asked_ms": 0, "next_check_ms": 0}
    return {**row, **numbers, "last_answer": "", **fields}


class JobRecords:
    """Records of one place's topics, each in Kafka when the call returns."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.topics = place.topics
        self._producer = place.producer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._producer.close()

    def half(
        self,
        transaction_id: str,
        group: str = "shop",
        value: bytes = b"v",
        key: bytes | None = None,
        partition: int = 0,
        more: tuple[tuple[str, bytes], ...] = (),
    ) -> HalfPosition:
        headers = [*half_headers(transaction_id, group, self.place.real_topic), *more]
        return HalfPosition(partition, self.send(self.topics.half, value, key, headers, partition))

    def op(
        self,
        transaction_id: str,
        half: HalfPosition,
        action: Action,
        source: Source = Source.PRODUCER,
        group: str = "shop",
        remark: bytes = b"",
    ) -> str:
        headers = op_headers(transaction_id, group, half, action, source)
        offset = self.send(self.topics.op, remark, None, headers, half.partition)
        return f"{self.topics.op}:{half.partition}:{offset}"

    def check(self, transaction_id: str, half: HalfPosition, attempt: int = 1, group: str = "shop") -> None:
        topic, at = self.place.real_topic, now_ms()
        request = CheckRequest(transaction_id, group, topic, None, b"v", [], half, attempt, 15, at)
        key, value, headers = request.to_record()
        self.send(self.topics.check, value, key, headers, None)

    def in_doubt(self, transaction_id: str, half: HalfPosition, group: str = "shop", **fields: Any) -> None:
        at, topic = now_ms(), self.place.real_topic
        row = status_row(transaction_id, half, group=group, topic=topic, ingested_ms=at, asked_ms=at) | fields
        self.send(self.topics.status, json.dumps(row).encode(), str(half).encode(), [], None)

    def decided(self, half: HalfPosition) -> None:
        self.send(self.topics.status, None, str(half).encode(), [], None)

    def parked(
        self,
        transaction_id: str,
        half: HalfPosition,
        reason: str,
        group: str = "shop",
        origin: HalfPosition | None = None,
    ) -> None:
        came_from = [] if origin is None else [(protocol.FROM, f"{self.topics.half}:{origin}".encode())]
        headers = [*self._of_half(transaction_id, half, group), (protocol.REASON, reason.encode()), *came_from]
        self.send(self.topics.parked, b"v", None, headers, 0)

    def unparked(self, transaction_id: str, half: HalfPosition, became: str, group: str = "shop") -> None:
        headers = [*self._of_half(transaction_id, half, group), (protocol.ENDED, became.encode())]
        self.send(self.topics.parked, None, None, headers, 0)

    def delivered(self, transaction_id: str, value: bytes = b"v", key: bytes | None = None, topic: str = "") -> str:
        name = topic or self.place.real_topic
        found = self._producer.send(name, value, key, headers=[(protocol.ID, transaction_id.encode())]).get(120)
        return f"{name}:{found.partition}:{found.offset}"

    def refused(self, transaction_id: str, half: HalfPosition, op: str, action: Action, reason: str) -> None:
        headers = [
            (protocol.REASON, reason.encode()),
            (protocol.FROM, op.encode()),
            *op_headers(transaction_id, "shop", half, action, Source.OPERATOR),
        ]
        self.send(self.topics.rejected, b"", None, headers, 0)

    def announced(self, group: str, url: str, instance: str = "one", topics: tuple[str, ...] | None = None) -> None:
        key, value = Announcement(group, instance, url, now_ms(), topics=topics).to_record()
        self.send(self.topics.producers, value, key, [], 0)

    def claim(self, **fields: Any) -> None:
        """A claim of a job, taken as jobs take it."""
        claim = Claim(SinkSettings(self.place.bootstrap_servers, self.topics, 60_000))
        try:
            claim.take(
                Owner(**{"query_id": "q", "run": "r", "host": "h", "since": "2026-11-22 09:30:00 UTC", **fields})
            )
        finally:
            claim.close()

    def read_to(self, offsets: dict[tuple[str, int], int]) -> None:
        """How far the job says that it has read."""
        places = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        self._commit(display_group(self.topics), places)

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: list[tuple[str, bytes]],
        partition: int | None,
    ) -> int:
        sent = self._producer.send(topic, value, key, headers=headers, partition=partition)
        return int(sent.get(120).offset)

    def _commit(self, group: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        with closing(admin_client(self.place.bootstrap_servers)) as admin:

            def committed() -> bool:
                try:
                    admin.alter_group_offsets(group, offsets)
                except CoordinatorNotAvailableError:  # Kafka makes the topic of all groups' offsets for the first one
                    return False
                return True

            wait_until(committed, what="a commit")

    def _of_half(self, transaction_id: str, half: HalfPosition, group: str) -> list[tuple[str, bytes]]:
        return [
            (protocol.ID, transaction_id.encode()),
            (protocol.GROUP, group.encode()),
            (protocol.TOPIC, self.place.real_topic.encode()),
            (protocol.HALF, str(half).encode()),
        ]
