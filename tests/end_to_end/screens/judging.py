"""Each statement of a screen against what was true: a list of those that were true at no moment."""

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter

from checkback_cli.on_call.status import UNKNOWN, summary
from status_page.facts import JobFacts
from tests.end_to_end.screens.sampling import COMMAND
from tests.end_to_end.screens.truth import Bounds, Truth

TTL_MS = 60_000
"""``checks.endpoint_ttl``."""
HEARD_MS = 1_000
"""A heartbeat is heard this much after Kafka has got it, at most."""
NOBODY, LIVING = "gone", "shop"
"""The group that has never announced an endpoint, and the one whose endpoint lives and answers *unknown*."""
_FACTS = TypeAdapter(JobFacts)
_ANSWER = re.compile(
    r'<div class="answer (\w+)">\s*<dt>(.*?)</dt>\s*<dd>\s*<p class="word">(.*?)</p>\s*<p class="detail">(.*?)</p>',
    re.DOTALL,
)
_GROUP = re.compile(r'<th role="rowheader".*?<bdi class="id">(.*?)</bdi>(.*?)</tr>', re.DOTALL)
_CELL = re.compile(r'<td role="cell" data-label="([^"]*)"[^>]*>(.*?)</td>', re.DOTALL)
_FIGURE = re.compile(r"<figcaption><span>(.*?)</span> <b>(.*?)</b>", re.DOTALL)
_NOTHING_CAME = ("nothing has come", "nothing is taken in yet", "no batch has ended", "No batch has ended")


def wrong(screen: str, said: str, truth: Truth) -> Iterator[str]:
    """What a screen said that was not so."""
    if screen == "/":
        yield from _overview(said, truth)
    elif screen == "/groups":
        yield from _groups(said, truth)
    elif screen == "/api/v1/status":
        facts = _FACTS.validate_json(said)
        yield from _facts(facts, truth)
        yield from _lists(json.loads(said), truth)
        yield from _summary(dict(summary(facts)), truth)
    elif screen == "/api/v1/transactions":
        yield from _transactions(json.loads(said), truth)
    elif screen == "/metrics":
        yield from _metrics(said, truth)
    elif screen == COMMAND:
        yield from _command(json.loads(said), truth)


def text_of(page: str) -> str:
    """What one sees who looks at it."""
    seen = re.sub(r'<svg.*?</svg>|<span class="unseen">.*?</span>', "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", seen)).split())


def _outside(what: str, number: float, bounds: Bounds) -> Iterator[str]:
    if not bounds.have(number):
        yield f"{what} is {number:g}, and was {bounds.low} to {bounds.high}"


def _overview(page: str, truth: Truth) -> Iterator[str]:
    answers = {
        question: (level, text_of(word), text_of(detail)) for level, question, word, detail in _ANSWER.findall(page)
    }
    assert len(answers) == 4, page
    level, word, detail = answers["Is the job behind?"]
    if word in {"No", "Yes", "Starting"}:
        yield from _outside(f"page: {level}, {word}, {detail}: records", _first_number(detail), truth.backlog)
    elif word == "Held back" and not (truth.before.held_back or truth.after.held_back):
        yield f"page: {word}, {detail}, and nobody holds anything back"
    level, word, detail = answers["Do transactions flow?"]
    if level == "well" and not truth.batch_may_have_ended:
        yield f"page: {level}, {word} before a batch has ended"
    if word == "Quiet" and truth.came:
        yield f"page: {level}, {word}, {detail}, but {truth.came} records have"
    if word == "Starting" and truth.batch_has_ended:
        yield f"page: {word}, {detail}, but batch {truth.before.batch} has"
    level, word, detail = answers["Which are in doubt?"]
    if word != "Not known yet":
        yield from _outside(
            f"page: {level}, {word}, {detail}: in doubt", 0 if word == "None" else _first_number(word), truth.in_doubt
        )
    if answers["Is anything parked?"][1] not in {"Nothing", "Not known yet"}:
        yield f"page: parked {answers['Is anything parked?'][1]}, but nothing is"
    yield from _charts(page, truth)
    yield from _denials(text_of(page), truth)


def _charts(page: str, truth: Truth) -> Iterator[str]:
    figures = dict(_FIGURE.findall(page))
    if figures and not truth.batch_may_have_ended:
        yield f"page: {figures} before a batch has ended"
    names = (("Half messages", "half"), ("Committed", "committed"), ("Rolled back", "rolled_back"))
    for title, name in names:
        if title in figures:
            yield from _outside(f"page: {title}", _first_number(figures[title]), truth.flow[name])


def _denials(text: str, truth: Truth) -> Iterator[str]:
    """That nothing has happened yet."""
    for said in _NOTHING_CAME:
        if said.lower() in text.lower() and truth.taken_in:
            yield f"page: {said!r}, but {truth.taken_in} records have been taken in"


def _groups(page: str, truth: Truth) -> Iterator[str]:
    if "nothing has come yet" in text_of(page) and truth.came:
        yield f"groups: nothing has come yet, but {truth.came} records have"
    living = truth.announced(truth.after.ended * 1000 - TTL_MS / 2)
    for group, cells in _GROUP.findall(page):
        said = {label: text_of(cell) for label, cell in _CELL.findall(cells)}
        if said["Open"] != UNKNOWN:
            yield from _outside(f"groups: open of {group}", _first_number(said["Open"]), truth.open_of(group))
        none = re.match(r"none|no endpoint|endpoint skipped", said["Endpoints"])
        if (none and group in living) or (group == NOBODY and " well" in said["Endpoints"]):
            yield f"groups: endpoints of {group}: {said['Endpoints']}"


def _facts(facts: JobFacts, truth: Truth) -> Iterator[str]:
    yield from _backlog_and_batch(facts, truth)
    for group in facts.groups:
        if facts.counted:
            yield from _outside(f"open of {group.group}", group.open or 0, truth.open_of(group.group))
        elif group.open is not None or group.delayed is not None:
            yield f"{group} is said before it was counted"
        if group.delayed:
            most = truth.most_committed(group.group)
            yield from _outside(f"delayed of {group.group}", group.delayed, Bounds(0, most))
        yield from _endpoints(group, truth)
    if facts.flow:
        for name, bounds in truth.flow.items():
            yield from _outside(f"flow: {name}", sum(getattr(point, name) for point in facts.flow), bounds)
    elif truth.batch_has_ended:
        yield "there is no flow, but a batch has ended"
    yield from _denials(" ".join(facts.notes), truth)


def _backlog_and_batch(facts: JobFacts, truth: Truth) -> Iterator[str]:
    if facts.backlog is not None:
        yield from _outside("backlog", sum(one.records for one in facts.backlog), truth.backlog)
        for one in facts.backlog:
            bounds = truth.backlog_of(one.topic, one.partition)
            yield from _outside(f"backlog of {one.topic} {one.partition}", one.records, bounds)
    if facts.batch is not None:
        yield from _outside("batch", facts.batch.number, truth.batches)
    elif truth.batch_has_ended:
        yield f"no batch has ended, but {truth.before.batch} has"
    if facts.running_ms is None and truth.batch_has_ended:
        yield "it is starting, but a batch has ended"


def _endpoints(group: Any, truth: Truth) -> Iterator[str]:
    for one in group.endpoints:
        bounds = truth.heard_ms(group.group, one.url)
        if bounds is None:
            yield f"{one.url} of {group.group} has never announced itself"
        elif one.heard_seconds is not None:
            youngest = int(truth.before.ended * 1000) - bounds.high - HEARD_MS
            ages = Bounds(youngest, int(truth.after.began * 1000) - bounds.low)
            yield from _outside(f"ms since {group.group} was heard", round(one.heard_seconds * 1000), ages)
            if one.state == "well" and ages.low > TTL_MS:
                yield f"{group.group} is well, but was heard {ages.low} ms ago"
    young = truth.announced(truth.after.ended * 1000 - TTL_MS / 2)
    if group.unasked and group.group in young:
        yield f"nobody of {group.group} can be asked: {group.unasked}"


def _lists(said: dict[str, Any], truth: Truth) -> Iterator[str]:
    if said["in_doubt"] is not None:
        yield from _outside("in_doubt", said["in_doubt"], truth.in_doubt)
    if said["parked"]:
        yield f"parked is {said['parked']}, but nothing is"


def _summary(lines: dict[str, str], truth: Truth) -> Iterator[str]:
    if not lines["backlog"].startswith(UNKNOWN):
        yield from _outside(
            f"status: backlog {lines['backlog']}: records", _first_number(lines["backlog"]), truth.backlog
        )
    if not lines["open"].startswith(UNKNOWN):
        bounds = [truth.open_of(group) for group in truth.halves.groups]
        both = Bounds(sum(one.low for one in bounds), sum(one.high for one in bounds))
        yield from _outside(f"status: open {lines['open']}: number", _first_number(lines["open"]), both)
    if not lines["parked"].startswith(UNKNOWN):
        yield from _outside(f"status: parked {lines['parked']}: number", _first_number(lines["parked"]), Bounds(0, 0))
    if lines["last batch"] == "none has ended yet" and truth.batch_has_ended:
        yield f"status: last batch {lines['last batch']}, but {truth.before.batch} has"
    known_now = lines["flow now"]
    if known_now == "nothing" and truth.taken_in and truth.flow["half"].low:
        yield f"status: flow now nothing, but {truth.flow['half'].low} half messages have been taken in since the start"


def _transactions(said: dict[str, Any], truth: Truth) -> Iterator[str]:
    if said["lists"]["complete"]:
        yield from _outside("transactions: total", said["total"], truth.in_doubt)
    known = truth.in_doubt_rows()
    for row in said["rows"] if said["lists"]["complete"] else ():
        may_be = [one for one in known.get(row["half"], ()) if one is not None]
        same = ("transaction_id", "group", "topic", "attempt", "last_answer")
        if not any(all(one.get(name, "") == row[name] for name in same) for one in may_be):
            yield f"transactions: {row} is not one of {may_be}"
        nobody = "Nobody" in row["why"]
        if (nobody and row["group"] == LIVING) or (not nobody and row["group"] == NOBODY and row["last_answer"]):
            yield f"transactions: why {row['half']} of {row['group']} is in doubt: {row['why']}"


def _metrics(said: str, truth: Truth) -> Iterator[str]:
    samples = [one for family in text_string_to_metric_families(said) for one in family.samples]
    yield from (f"metrics: {one}" for one in _of_batches({one.name: one.value for one in samples}, truth))
    yield from (f"metrics: {one}" for one in _of_places_and_groups(samples, truth))
    events = {one.labels["event"]: one.value for one in samples if one.name == "checkback_events_total"}
    for name, bounds in truth.flow.items():
        yield from _outside(f"metrics: events {name}", events[name], bounds)


def _of_batches(values: dict[str, float], truth: Truth) -> Iterator[str]:
    ended = "checkback_batch_end_timestamp_seconds" in values
    if (ended and not truth.batch_may_have_ended) or (truth.batch_has_ended and not ended):
        yield f"a batch has ended: {ended}, but {truth.batch_has_ended}"
    if "checkback_batch" in values:
        yield from _outside("batch", values["checkback_batch"], truth.batches)
    if truth.batch_has_ended and "checkback_running_timestamp_seconds" not in values:
        yield "not running, but a batch has ended"


def _of_places_and_groups(samples: Sequence[Any], truth: Truth) -> Iterator[str]:
    open_now = Counter[str]()
    endpoints = dict[str, dict[str, float]]()
    living = truth.announced(truth.after.ended * 1000 - TTL_MS / 2)
    for one in samples:
        group = one.labels.get("group")
        if one.name == "checkback_backlog_records":
            topic, partition = one.labels["topic"], int(one.labels["partition"])
            yield from _outside(f"backlog of {topic} {partition}", one.value, truth.backlog_of(topic, partition))
        elif one.name == "checkback_open_transactions":
            open_now[group] += one.value
        elif one.name == "checkback_check_endpoints":
            endpoints.setdefault(group, {})[one.labels["state"]] = one.value
    for group, states in endpoints.items():
        # one that was too slow once, on a busy machine, is "tried": it is there, and asked
        there = states["well"] or (states["tried"] and group != NOBODY)
        if group in ({NOBODY} if there else living):
            yield f"endpoints of {group}: {states}"
    for group, number in open_now.items():
        yield from _outside(f"open of {group}", number, truth.open_of(group))


def _command(said: dict[str, Any], truth: Truth) -> Iterator[str]:
    if said["job"] is not None:
        yield from (f"command: {one}" for one in _facts(_FACTS.validate_python(said["job"]), truth))
    elif said.get("behind") is not None:
        at_most = Bounds(truth.backlog.low, sum(truth.after.ends.values()))
        yield from _outside("command, of a job that does not answer: behind", said["behind"], at_most)


def _first_number(text: str) -> int:
    found = re.search(r"\d[\d,]*", text)
    return int(found[0].replace(",", "")) if found else 0
