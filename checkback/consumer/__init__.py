"""Consumers: offsets by a sliding window, retries with delay levels, dead letters; pull, and resetting."""

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
from checkback.consumer.offsets.partitions import ResetPlace
from checkback.consumer.pull.consumer import PullConsumer, PullResult
from checkback.consumer.pull.status import PullStatus
from checkback.consumer.push import AsyncPushConsumer, Extension, PushConsumer
from checkback.consumer.settings import (
    RETRY_LEVELS,
    ConsumerSettings,
    Mode,
    Order,
    StartAt,
    WhenOffsetIsGone,
)
from checkback.consumer.tags import TagExpression

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
