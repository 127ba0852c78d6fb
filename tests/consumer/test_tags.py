"""Which messages a subscription wants, and who in a group wants something else."""

import os
import platform
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer import TagExpression
from checkback.consumer.clients.base import Member
from checkback.consumer.engine import Given
from checkback.consumer.offsets.partitions import Subscription
from checkback.consumer.settings import ConsumerSettings
from checkback.consumer.tags import client_id, wants_otherwise
from checkback.exceptions import ConfigurationError

_TAGS = st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]), min_size=1).filter(
    lambda tag: tag.strip() not in {"", "*"} and "&&" not in tag
)


@pytest.mark.parametrize("text", ["*", "", "  ", " * "])
def test_a_star_wants_all_with_and_without_a_tag(text: str) -> None:
    everything = TagExpression.parse(text)
    assert everything.admits_all
    assert everything.admits(None)
    assert everything.admits(b"paid")
    assert str(everything) == "*"


@given(st.sets(_TAGS, min_size=1, max_size=4), _TAGS)
def test_it_wants_what_it_names_and_nothing_else(tags: set[str], other: str) -> None:
    wanted = TagExpression.parse(" || ".join(tags))
    named = {tag.strip() for tag in tags}
    assert all(wanted.admits(tag.encode()) for tag in named)
    assert wanted.admits(other.strip().encode()) == (other.strip() in named)
    assert not wanted.admits(None)
    assert TagExpression.parse(str(wanted)) == wanted


def test_two_texts_of_one_hash_are_told_apart() -> None:
    one, other = b"plumless", b"buckeroo"  # a pair that is known for it
    assert crc32(one) == crc32(other)
    assert TagExpression.parse("plumless").admits(one)
    assert not TagExpression.parse("plumless").admits(other)


@pytest.mark.parametrize("text", ["a ||", "|| a", "a || * ", "a | b", "a ||| b"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="A tag expression is"):
        TagExpression.parse(text)


def test_who_wants_something_else_of_a_topic_is_found() -> None:
    paid, everything = TagExpression.parse("paid"), TagExpression.parse("*")
    ours = {"orders": paid, "invoices": everything}
    same = Member(client_id("a", ours), "/10.0.0.1")
    another = Member(client_id("b", {"orders": everything, "returns": paid}), "/10.0.0.2")
    other_topics = Member(client_id("c", {"returns": paid}), "/10.0.0.3")
    stranger = Member("rdkafka", "/10.0.0.4")
    assert wants_otherwise([same, another, other_topics, stranger], ours) == [(another, "orders")]
    reordered = {"orders": TagExpression.parse("b || a")}
    assert wants_otherwise([Member(client_id("d", {"orders": TagExpression.parse("a||b")}), "")], reordered) == []


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, f"checkback-consumer-{platform.node()}-{os.getpid()}"),
        ({"client.id": "mine"}, "mine"),
    ],
    ids=["none", "mine"],
)
def test_a_client_id_says_which_host_and_process_it_is_unless_one_is_given(options: dict[str, Any], name: str) -> None:
    wanted = {"orders": TagExpression.parse("paid")}
    given = Given("nowhere:1", "points", Subscription(wanted), ConsumerSettings(), kafka_options=options)
    assert given.connection.client_id == client_id(name, wanted)
