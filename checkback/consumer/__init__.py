"""Consumers: offsets by a sliding window, retries with delay levels, dead letters; pull, and resetting.

What needs confluent-kafka is loaded when it is first named: inboxes work without it.
"""

from typing import TYPE_CHECKING

from checkback.consumer.listener import (
    AsyncBatchListener,
    AsyncListener,
    BatchListener,
    ConsumeResult,
    Listener,
    ReceivedMessage,
    TopicPartition,
)
from checkback.consumer.metrics import Figures, PartitionFigures, collector_of
from checkback.consumer.offsets.counts import MessageCounts
from checkback.consumer.pull.status import PullStatus
from checkback.consumer.settings import (
    RETRY_LEVELS,
    ConsumerSettings,
    Mode,
    Order,
    StartAt,
    WhenOffsetIsGone,
)
from checkback.consumer.tags import TagExpression
from checkback.installing import extra, loaded_when_named

if TYPE_CHECKING:
    from checkback.consumer.offsets.partitions import ResetPlace
    from checkback.consumer.pull.consumer import PullConsumer, PullResult
    from checkback.consumer.push import AsyncPushConsumer, Extension, PushConsumer

__all__ = [
    "RETRY_LEVELS",
    "AsyncBatchListener",
    "AsyncListener",
    "AsyncPushConsumer",
    "BatchListener",
    "ConsumeResult",
    "ConsumerSettings",
    "Extension",
    "Figures",
    "Listener",
    "MessageCounts",
    "Mode",
    "Order",
    "PartitionFigures",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "ReceivedMessage",
    "ResetPlace",
    "StartAt",
    "TagExpression",
    "TopicPartition",
    "WhenOffsetIsGone",
    "collector_of",
]

__getattr__ = loaded_when_named(
    {
        "ResetPlace": "checkback.consumer.offsets.partitions",
        **dict.fromkeys(("PullConsumer", "PullResult"), "checkback.consumer.pull.consumer"),
        **dict.fromkeys(("AsyncPushConsumer", "Extension", "PushConsumer"), "checkback.consumer.push"),
    },
    needs="confluent_kafka",
    otherwise=f"Consumers need confluent-kafka: {extra('fast')}.",
)
