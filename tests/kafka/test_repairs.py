"""Names of kafka-python that have no underscore's promise: each that we use is there, or the client is refused."""

import ast
import inspect
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.base import BaseCoordinator
from kafka.producer.transaction_manager import TransactionManager
from kafka.record.default_records import DefaultRecordBatch

from checkback.exceptions import InstallationError
from checkback.kafka.kafka_python import make_client, repairs
from checkback.local import LocalKafka

OF_CLASSES = {
    Fetcher: ["PartitionRecords"],
    Fetcher.PartitionRecords: ["take", "_unpack_records", "drain"],
    DefaultRecordBatch: ["_buffer", "_pos", "_decompressed", "_num_records", "_next_record_index"],
    BaseCoordinator: ["request_rejoin", "reset_generation"],
    TransactionManager: ["reset_producer_id"],
    KafkaAdminClient: ["_describe_groups_process_response"],
}


@pytest.mark.parametrize("owner", OF_CLASSES)
def test_the_names_are_on_their_classes(owner: type) -> None:
    assert [name for name in OF_CLASSES[owner] if not hasattr(owner, name)] == []


@pytest.mark.parametrize("kind", [KafkaConsumer, KafkaProducer, repairs.GroupAdmin])
@pytest.mark.parametrize("group", [None, "group"])
def test_a_client_has_them_all(broker: LocalKafka, kind: Any, group: str | None) -> None:
    more = {"group_id": group} if kind is KafkaConsumer else {}
    with closing(make_client(kind, {"bootstrap_servers": broker.bootstrap_servers, **more})) as client:
        repairs.refuse_unknown_version(client)


def test_a_client_without_one_of_them_is_refused() -> None:
    """Before it reads anything: unrepaired it would stand still, or pass over records."""
    consumer: Any = KafkaConsumer.__new__(KafkaConsumer)
    consumer._fetcher = SimpleNamespace(PartitionRecords=None)
    consumer._coordinator = None
    consumer._cluster = SimpleNamespace(topic_id=None)
    consumer._net = SimpleNamespace(run=None)
    consumer._manager = SimpleNamespace(send=None, cluster=SimpleNamespace(config={}))
    with pytest.raises(InstallationError, match=r"it has no _fetcher\._next_partition_records\. Install"):
        repairs.refuse_unknown_version(consumer)
    consumer._fetcher._next_partition_records = None
    repairs.refuse_unknown_version(consumer)


def test_the_list_has_every_private_name_of_a_client_that_is_used() -> None:
    used = set(_private_names(ast.parse(inspect.getsource(repairs))))
    listed = {part for names in repairs.PRIVATE_NAMES.values() for name in names for part in name.split(".")}
    of_classes = {name for names in OF_CLASSES.values() for name in names}
    written_only = {"_headers"}  # a slot of a record: that it is still one, the tests of records see
    assert used - listed - of_classes - written_only == set()


def _private_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id == "self"):
                yield node.attr
