"""Dead letters between which hostile records lie: each is shown, and what can be resent is, with either receiver."""

import json

import pytest

from checkback.operations.topics import TopicAdministration
from tests.hostile.place import GROUP, pollute
from tests.hostile.test_commands import invoke, said
from tests.place import Place, find_by_environment, wait_until


def test_each_is_shown(typed_there: Place, polluted: tuple[Place, dict[str, int]]) -> None:
    count = polluted[1][typed_there.topics.dead(GROUP)]
    for offset in (*range(15), *range(15, count, 61)):
        done = invoke("dlq", "show", f"0:{offset}", "-g", GROUP, *(["--json"] if offset % 2 else []))
        is_mark = "it says that the one" in str(done.exception)
        assert done.exit_code == int(is_mark), (offset, done.output, done.exception)


@pytest.mark.parametrize("to", ["retry", "origin"])
def test_what_can_be_resent_is(place: Place, to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find_by_environment(place, monkeypatch)
    names = (place.topics.retry(GROUP), place.topics.dead(GROUP))
    with TopicAdministration(place.bootstrap_servers) as administration:
        for name in names:
            administration.create_one(name, 1)
        wait_until(lambda: len(administration.partitions(names)) == len(names))
    pollute(place, place.topics.dead(GROUP))
    listed = map(json.loads, said("dlq", "list", "-g", GROUP, "-n", "9999", as_json=True).splitlines())
    good = {one["place"] for one in listed if (one["id"], one["reason"]) == ("first", "why")}
    assert good
    done = invoke("dlq", "resend", "-g", GROUP, "--all", "--to", to, "--yes", "--json")
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == int(any(one["became"] != "resent" for one in outcomes)), (done.output, done.exception)
    assert {one["place"] for one in outcomes if one["became"] == "resent"} >= good
    arrived = place.read(place.topics.later if to == "retry" else place.real_topic)
    assert len(arrived) == sum(one["became"] == "resent" for one in outcomes)
