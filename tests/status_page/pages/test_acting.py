"""Signing in and deciding, with the forms that the pages give."""

import json
import re
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from checkback.exceptions import KafkaUnreachableError, OperatorError
from checkback.operations.lanes import NO_LEDGER, LaneFinding
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import CONTESTED, Action, HalfPosition
from status_page.pages.forms import MOST_BYTES
from tests.status_page.browser import TOKEN, Browser, Place, doubtful, field, given_up, target
from tests.status_page.pages.test_pages import checked, text_of


def stuck() -> Place:
    place = Place()
    place.doubt(*map(doubtful, range(3)))
    place.park(given_up(5), given_up(6, undecided=False), given_up(7, undecided=False, kept=False))
    return place


def signed_in(place: Place) -> Browser:
    browser = place.browser()
    assert browser.sign_in().status_code == 303
    return browser


def test_who_has_the_token_gets_a_session_that_scripts_and_other_sites_cannot_use() -> None:
    browser = stuck().browser()
    answer = browser.sign_in(onward="/transactions?group=orders")
    assert (answer.status_code, target(answer)) == (303, "/transactions?group=orders")
    (cookie,) = (one for one in answer.headers.get_list("set-cookie") if one.startswith("checkback-9464="))
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert TOKEN not in str(answer.headers)
    assert "Sign out" in browser.get("/").text


def test_behind_tls_the_cookie_goes_over_tls_only() -> None:
    browser = stuck().browser()
    browser.headers["x-forwarded-proto"] = "https"
    assert "Secure" in browser.get("/sign-in").headers["set-cookie"]


@pytest.mark.parametrize(
    "onward", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "\\\\evil", "x", ""]
)
def test_signing_in_leads_to_our_own_pages_only(onward: str) -> None:
    answer = stuck().browser().sign_in(onward=onward)
    assert target(answer) == "/"


def test_a_wrong_token_is_told_so_and_soon_has_to_wait() -> None:
    place = stuck()
    browser = place.browser()
    for _ in range(5):
        answer = browser.sign_in("wrong")
        assert answer.status_code == 401
        assert "That is not the token." in answer.text
        checked(answer.text)
    answer = browser.sign_in(TOKEN)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert "Wait 2 s" in answer.text
    assert place.browser(client="192.0.2.9").sign_in().status_code == 303
    place.clock += 1
    assert browser.sign_in().status_code == 303


def test_a_sign_in_form_of_another_browser_is_refused() -> None:
    place = stuck()
    theirs = place.browser().get("/sign-in")
    ours = place.browser()
    ours.get("/sign-in")
    fields = {"form_token": field(theirs, "form_token"), "token": TOKEN}
    assert ours.post("/sign-in", data=fields).status_code == 403
    assert place.browser().post("/sign-in", data=fields).status_code == 403
    assert place.browser().post("/sign-in", data={"token": TOKEN}).status_code == 403


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/decide"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused(path: str, headers: dict[str, str]) -> None:
    place = stuck()
    browser = signed_in(place)
    page = browser.get("/decide", params={"action": "commit", "what": "0:0 tx-0"})
    fields = {"form_token": field(page, "form_token"), "action": "commit", "what": "0:0 tx-0", "who": "a", "why": "b"}
    answer = browser.post(path, data=fields, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert place.ops.written == []
    assert "Sign out" in browser.get("/").text


def test_our_own_form_is_taken_with_what_browsers_say_of_it() -> None:
    place = stuck()
    browser = signed_in(place)
    browser.headers.update({"origin": "http://127.0.0.1:9464", "sec-fetch-site": "same-origin"})
    assert browser.decide("commit", "0:0 tx-0").status_code == 303


@pytest.mark.parametrize("form_token", ["", "wrong", None])
def test_a_form_without_the_sessions_own_token_is_refused(form_token: str | None) -> None:
    place = stuck()
    browser = signed_in(place)
    fields = {"action": "commit", "what": "0:0 tx-0", "who": "a", "why": "b"}
    given = fields if form_token is None else {**fields, "form_token": form_token}
    answer = browser.post("/decide", data=given)
    assert answer.status_code == 403
    assert "Nothing was done" in answer.text
    assert place.ops.written == []


def test_a_form_token_of_another_session_is_refused() -> None:
    place = stuck()
    theirs, ours = signed_in(place), signed_in(place)
    form_token = field(theirs.get("/decide", params={"action": "commit", "what": "0:0 tx-0"}), "form_token")
    assert ours.decide("commit", "0:0 tx-0", form_token=form_token).status_code == 403
    assert place.ops.written == []


def test_nobody_decides_without_a_session() -> None:
    place = stuck()
    browser = place.browser()
    answer = browser.get("/decide?action=commit&what=0:0+tx-0")
    onward = quote("/decide?action=commit&what=0:0+tx-0", safe="")
    assert (answer.status_code, target(answer)) == (303, f"/sign-in?next={onward}")
    assert browser.post("/decide", data={"action": "commit"}).status_code == 401
    for name in ("checkback-9464", "checkback-9464-form"):
        browser.cookies.set(name, "made up")
    assert browser.post("/decide", data={"action": "commit", "form_token": "made up"}).status_code == 401
    assert place.ops.written == []


def test_a_session_ends_with_its_time_and_by_signing_out() -> None:
    place = stuck()
    browser = signed_in(place)
    form_token = field(browser.get("/"), "form_token")
    assert browser.post("/sign-out", data={"form_token": "wrong"}).status_code == 403
    cookies = dict(browser.cookies)
    assert browser.post("/sign-out", data={"form_token": form_token}).status_code == 303
    browser.cookies.update(cookies)
    assert "Sign out" not in browser.get("/").text, "the session is gone, not only its cookie"
    again = signed_in(place)
    place.clock += 8 * 3_600
    assert again.decide("commit", "0:0 tx-0").status_code == 401


def test_who_has_not_signed_in_reads_what_could_be_done_there() -> None:
    place = Place()
    place.doubt(doubtful())
    place.park(given_up(5))
    browser = place.browser()
    assert "Sign in</a> to commit or roll back some of these." in browser.get("/transactions").text
    assert "Sign in</a> to resume, commit, roll back or redeliver some of these." in browser.get("/parked").text


def test_without_a_token_there_are_no_buttons_and_the_page_says_how_to_get_them() -> None:
    place = Place(token="")
    place.doubt(doubtful())
    place.park(given_up(5))
    browser = place.browser()
    for path in ("/transactions", "/parked", "/transactions/0:0"):
        page = browser.get(path).text
        assert "CHECKBACK_HTTP__TOKEN" in page
        assert "Sign in" not in page
        assert 'name="action"' not in page
        assert 'type="checkbox"' not in page
    for path in ("/sign-in", "/decide?action=commit&what=0:0+tx-0"):
        answer = browser.get(path)
        assert answer.status_code == 403
        assert "CHECKBACK_HTTP__TOKEN" in answer.text
    assert browser.sign_in("").status_code == 403


def test_a_confirmation_names_exactly_what_would_be_done() -> None:
    browser = signed_in(stuck())
    page = browser.get("/decide", params={"action": "rollback", "what": ["0:0 tx-0", "2:2 tx-2", "0:0 tx-0"]})
    said = text_of(page.text)
    assert "Roll back 2 transactions?" in said
    assert "None of these messages is ever delivered. That cannot be taken back" in said
    assert "tx-0 0:0 orders shop.orders tx-2 2:2 orders shop.orders" in said
    assert "tx-1" not in said
    assert re.findall(r'name="what" value="([^"]*)"', page.text) == ["0:0 tx-0", "2:2 tx-2"]
    checked(page.text)


def test_an_op_says_who_and_why() -> None:
    place = stuck()
    browser = signed_in(place)
    answer = browser.decide("commit", "0:0 tx-0", "1:5 px-5", who=" Ada ", why='she "looked"\n')
    assert answer.status_code == 303
    remark = json.dumps({"who": "Ada", "why": 'she "looked"', "by": "status page"})
    assert place.ops.written == [
        (("tx-0", "orders", HalfPosition(0, 0)), Action.COMMIT, remark),
        (("px-5", "orders", HalfPosition(1, 5)), Action.COMMIT, remark),
    ]
    page = browser.get(target(answer))
    assert "commit of 2 transactions" in text_of(page.text)
    assert "2 of 2 wait for that" in text_of(page.text)
    assert 'http-equiv="refresh"' in page.text
    checked(page.text)
    place.index.take_status([(HalfPosition(0, 0), None)])
    assert "2 of 2 wait for that" in text_of(browser.get(target(answer)).text), "no batch has begun since"
    place.batch_ends()
    assert "1 of 2 waits for that" in text_of(browser.get(target(answer)).text)
    place.index.take_parked([(HalfPosition(1, 5), "px-5", None)])
    page = browser.get(target(answer))
    assert "The job has judged all of them." in text_of(page.text)
    assert 'http-equiv="refresh"' not in page.text


@pytest.mark.parametrize(
    ("action", "name", "problem"),
    [
        ("resume", "0:0 tx-0", "resume does not apply to 0:0 tx-0."),
        ("redeliver", "1:5 px-5", "redeliver does not apply to"),
        ("commit", "2:6 px-6", "commit does not apply to"),
        ("redeliver", "3:7 px-7", "redeliver does not apply to"),
        ("unknown", "0:0 tx-0", "The action must be one of commit, rollback, resume, redeliver."),
        ("commit", "0:0 tx-1", "Choose at least one transaction."),
        ("commit", "9:9 tx-0", "Neither in doubt nor parked any more"),
        ("commit", "nonsense", "Choose at least one transaction."),
    ],
)
def test_what_is_of_no_use_is_not_written(action: str, name: str, problem: str) -> None:
    place = stuck()
    browser = signed_in(place)
    shown = browser.get("/decide", params={"action": action, "what": name})
    assert problem in text_of(shown.text)
    form_token = field(browser.get("/"), "form_token")
    answer = browser.decide(action, name, form_token=form_token)
    assert answer.status_code == 422
    assert problem in text_of(answer.text)
    assert place.ops.written == []


@pytest.mark.parametrize(
    ("action", "name"), [("resume", "1:5 px-5"), ("redeliver", "2:6 px-6"), ("rollback", "1:5 px-5")]
)
def test_what_is_of_use_is_written(action: str, name: str) -> None:
    place = stuck()
    assert signed_in(place).decide(action, name).status_code == 303
    assert [(str(row[2]), row[0], act) for row, act, _ in place.ops.written] == [(*name.split(), action)]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"who": " "}, "Say who you are."),
        ({"why": ""}, "Say why."),
        ({"who": "x" * 101}, "Say who you are in at most 100 characters."),
        ({"why": "x" * 501}, "Say why in at most 500 characters."),
    ],
)
def test_who_and_why_are_needed(fields: dict[str, str], problem: str) -> None:
    place = stuck()
    answer = signed_in(place).decide("commit", "0:0 tx-0", **fields)
    assert answer.status_code == 422
    assert problem in answer.text
    assert "tx-0" in answer.text, "one goes on from there"
    checked(answer.text)
    assert place.ops.written == []


def test_what_was_decided_meanwhile_is_left_out_after_a_second_look() -> None:
    place = stuck()
    browser = signed_in(place)
    page = browser.get("/decide", params={"action": "commit", "what": ["0:0 tx-0", "1:1 tx-1"]})
    place.index.take_status([(HalfPosition(1, 1), None)])
    fields = {"action": "commit", "what": ["0:0 tx-0", "1:1 tx-1"], "who": "a", "why": "b"}
    answer = browser.post("/decide", data={**fields, "form_token": field(page, "form_token")})
    assert answer.status_code == 409
    assert "Commit 1 transaction?" in text_of(answer.text)
    assert "1:1 tx-1" in text_of(answer.text)
    assert re.findall(r'name="what" value="([^"]*)"', answer.text) == ["0:0 tx-0"]
    assert place.ops.written == []


@pytest.mark.parametrize(
    "error", [OperatorError("The commit of tx-0 did not reach Kafka."), KafkaUnreachableError("No Kafka.")]
)
def test_a_kafka_that_is_away_is_said_and_the_form_is_kept(error: Exception) -> None:
    place = stuck()
    place.ops.fails = error
    answer = signed_in(place).decide("commit", "0:0 tx-0", why="she looked twice")
    assert answer.status_code == 502
    assert str(error) in answer.text
    assert "she looked twice" in answer.text


def test_a_decision_is_in_the_log_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    signed_in(stuck()).decide("commit", "0:0 tx-0", why="first\nsecond \x1b[2J")
    (record,) = [one for one in caplog.records if "An operator acts" in one.getMessage()]
    assert "commit of tx-0 at 0:0 by 'Ada'" in record.getMessage()
    assert not set(record.getMessage()) & {"\n", "\x1b"}


def test_bodies_are_bounded_and_of_the_right_kind() -> None:
    browser = signed_in(stuck())
    form = {"content-type": "application/x-www-form-urlencoded"}
    for path in ("/sign-in", "/decide", "/sign-out"):
        assert browser.post(path, content=b"a=" + b"x" * MOST_BYTES, headers=form).status_code == 413
        assert browser.post(path, content=b"a=b&" * 2_001, headers=form).status_code == 413
        assert browser.post(path, json={}).status_code == 415
        assert browser.post(path, content=b"").status_code == 415


def test_boxes_can_be_ticked_all_at_once_and_each_says_what_it_is_for() -> None:
    browser = signed_in(stuck())
    page = browser.get("/transactions").text
    assert page.count('type="checkbox"') == 3
    assert " checked" not in page
    assert 'aria-label="tx-0 at 0:0"' in page
    assert browser.get("/transactions?ticked=all").text.count(" checked") == 3
    parked = browser.get("/parked?ticked=all").text
    assert (parked.count(" checked"), parked.count(" disabled")) == (2, 1)


def test_a_receipt_that_nobody_has_is_no_page() -> None:
    assert signed_in(stuck()).get("/decided/nothing").status_code == 404


def test_receipts_are_forgotten_at_some_time() -> None:
    place = stuck()
    browser = signed_in(place)
    first = target(browser.decide("commit", "0:0 tx-0"))
    chosen, _ = place.deciding.chosen(["0:0 tx-0"])
    from status_page.transactions.receipts import OperatorDecision  # noqa: PLC0415  (only here)

    for _ in range(200):
        place.deciding.write(OperatorDecision(Action.COMMIT, tuple(chosen), "a", "b"))
    assert browser.get(first).status_code == 404


def test_no_answer_shows_the_token() -> None:
    place = stuck()
    browser = place.browser()
    answers: list[httpx.Response] = [browser.sign_in(TOKEN), browser.get("/"), browser.get("/api/v1/status")]
    answers += [browser.sign_in("wrong"), browser.get("/sign-in"), browser.get("/metrics")]
    shown: Any = [answer.text + str(answer.headers) for answer in answers]
    assert not [one for one in shown if TOKEN in one]


def test_who_has_looked_into_the_real_topic_says_what_it_has() -> None:
    place = stuck()
    place.lanes = {HalfPosition(0, 0): LaneFinding("0" * 32, None, NO_LEDGER)}
    browser = signed_in(place)
    refused = browser.decide("rollback", "0:0 tx-0")
    assert refused.status_code == 409
    assert "Nobody can know whether tx-0 at 0:0 was delivered" in text_of(refused.text)
    assert 'value="not delivered"' in refused.text
    assert 'value="delivered"' not in refused.text, "that is for commit"
    assert place.ops.written == []
    assert browser.decide("rollback", "0:0 tx-0", seen="delivered").status_code == 422
    assert browser.decide("rollback", "0:0 tx-0", seen="not delivered").status_code == 303
    assert place.ops.facts == [LaneFact.SETTLED]


def test_what_its_lane_has_delivered_is_committed_and_the_page_says_so() -> None:
    place = stuck()
    place.lanes = {HalfPosition(0, 0): LaneFinding("0" * 32, LaneFact.DELIVERED)}
    browser = signed_in(place)
    answer = browser.decide("rollback", "0:0 tx-0", "1:1 tx-1")
    assert "its lane had delivered it: committed" in text_of(browser.get(target(answer)).text)
    assert [(row[0], action) for row, action, _ in place.ops.written] == [("tx-0", "commit"), ("tx-1", "rollback")]


def test_a_contested_message_is_asked_about_at_once() -> None:
    place = stuck()
    place.park(given_up(5)._replace(reason=CONTESTED))
    page = signed_in(place).get("/decide", params={"action": "commit", "what": ["1:5 px-5"]})
    assert 'value="delivered"' in page.text
