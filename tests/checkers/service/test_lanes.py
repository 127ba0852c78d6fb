"""The check service and lanes, on a real Kafka: what it writes of what a producer may have delivered itself."""

from contextlib import closing
from typing import Any

from prometheus_client import CollectorRegistry

from checkback import CheckEndpoint
from checkback.kafka.librdkafka.lanes import LaneLostError, LaneRecord
from checkback.wire.lanes import LaneFact, new_lane, stating
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import Action, HalfPosition, Source, op_headers
from checkers import CheckService
from tests.checkers.service.scene import ROLLBACK, Answerer, answers, put, request, running
from tests.kafka.lanes import opened
from tests.place import Place, wait_until

DONE, OPEN, UNKNOWABLE = (HalfPosition(1, offset) for offset in (7, 8, 9))


def op(name: str, half: HalfPosition, action: Action, fact: LaneFact | None, group: str = "orders") -> Any:
    return stating(op_headers(name, group, half, action, Source.CHECK), fact)


def test_what_a_lane_has_delivered_is_committed_and_the_rest_is_as_was_answered(place: Place) -> None:
    lane, gone = new_lane(), new_lane()
    asked = [
        *(request(name, half=half, lane=lane) for name, half in (("done", DONE), ("open", OPEN))),
        request("unknowable", half=UNKNOWABLE, lane=gone),
        request("away", "nobody", half=DONE, lane=lane),
    ]
    registry = CollectorRegistry()
    with (
        closing(opened(place, lane)) as writer,
        CheckEndpoint(place.bootstrap_servers, "orders", Answerer(ROLLBACK), topics=place.topics),
    ):
        message = LaneRecord(place.real_topic, None, None, b"v", [("cb-id", b"done")])
        writer.deliver([message], Ledger([DONE]))
        service = CheckService(place.settings(), registry=registry)
        with running(service):
            put(place, *asked)
            wait_until(lambda: len(answers(place)) == len(asked), "answers")
        found = {name: list(record.headers) for name, record in answers(place).items()}
        fenced = False
        try:
            writer.deliver([message], Ledger([DONE, OPEN]))
        except LaneLostError:
            fenced = True
    assert found == {
        "done": op("done", DONE, Action.COMMIT, LaneFact.DELIVERED),
        "open": op("open", OPEN, Action.ROLLBACK, LaneFact.SETTLED),
        "unknowable": op("unknowable", UNKNOWABLE, Action.UNKNOWN, None),
        # the same name under another group is another lane, of which there is no ledger
        "away": op("away", DONE, Action.UNREACHABLE, None, "nobody"),
    }
    assert fenced, "nothing that a check has settled may be delivered any more"
    assert len(place.read(place.real_topic)) == 1
    told = {(one.labels["group"], one.labels["result"]): one.value for one in _samples(registry, "check_lanes_total")}
    assert told == {("orders", "settled"): 1, ("orders", "no_ledger"): 1, ("nobody", "no_ledger"): 1}
    assert [one.value for one in _samples(registry, "check_rollbacks_of_delivered_total")] == [1]


def _samples(registry: CollectorRegistry, name: str) -> list[Any]:
    return [one for family in registry.collect() for one in family.samples if one.name == f"checkback_{name}"]
