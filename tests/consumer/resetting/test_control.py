"""The records of the control topic."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer.resetting.control import ResetDone, ResetOrder, is_done, is_order
from checkback.exceptions import ProtocolError

ORDER = ResetOrder("7c1e", "points", "shop.orders", {0: 17, 3: 0})
DONE = ResetDone("7c1e", 3, 40, 0, "web-1, process 4711")


def test_records_are_as_the_protocol_has_them() -> None:
    assert ORDER.key == b"reset/shop.orders/points"
    assert json.loads(ORDER.value) == {
        "id": "7c1e",
        "group": "points",
        "topic": "shop.orders",
        "offsets": {"0": 17, "3": 0},
    }
    assert DONE.key == b"done/7c1e/3"
    assert json.loads(DONE.value) == {
        "id": "7c1e",
        "partition": 3,
        "before": 40,
        "after": 0,
        "consumer": "web-1, process 4711",
    }
    assert (is_order(ORDER.key), is_order(DONE.key), is_order(None)) == (True, False, False)
    assert (is_done(ORDER.key), is_done(DONE.key), is_done(None)) == (False, True, False)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
numbers = st.integers(0, 2**63 - 1)


@given(names, names, names, st.dictionaries(st.integers(0, 10**6), numbers, max_size=20))
def test_an_order_is_read_as_it_was_written(name: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    order = ResetOrder(name, group, topic, offsets)
    assert ResetOrder.parse(order.value) == order


@given(names, numbers, numbers, numbers, names)
def test_a_report_is_read_as_it_was_written(name: str, partition: int, before: int, after: int, who: str) -> None:
    done = ResetDone(name, partition, before, after, who)
    assert ResetDone.parse(done.value) == done


WRONG: list[Any] = [
    *([], 17, "text", {}, {"id": 1, "group": "g", "topic": "t", "offsets": {}}),
    *({"id": "i", "group": "g", "topic": "t"}, {"id": "i", "group": "g", "topic": "t", "offsets": {"x": 1}}),
    *(
        {"id": "i", "group": "g", "topic": "t", "offsets": {"0": wrong}}
        for wrong in (-1, 1.5, True, None, "1", 2**63, [1])
    ),
    *(
        {"id": "i", "group": "g", "topic": "t", "offsets": {name: 1}}
        for name in ("", "-1", "²", str(2**31), "9" * 5_000)
    ),
    {"id": "", "group": "g", "topic": "t", "offsets": {}},
    {"id": "i" * 1_001, "group": "g", "topic": "t", "offsets": {}},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_such_record_is_refused(wrong: Any) -> None:
    for parse in (ResetOrder.parse, ResetDone.parse):
        with pytest.raises(ProtocolError):
            parse(json.dumps(wrong).encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_order(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        ResetOrder.parse(content)


def test_deep_json_is_refused_in_order() -> None:
    with pytest.raises(ProtocolError):
        ResetOrder.parse(b'{"offsets":' + b"[" * 100_000)
