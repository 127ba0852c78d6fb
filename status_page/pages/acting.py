"""The pages that do something: signing in, and deciding. Each needs a form that one of our own pages sent."""

import re
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request
from starlette.responses import Response

from checkback.exceptions import CheckbackError
from checkback.wire.protocol import Action
from status_page.http.signing_in import Session, same
from status_page.pages.forms import FormError, admit, form_of
from status_page.pages.rendering import Pages, link, redirect
from status_page.site import Site
from status_page.transactions.deciding import (
    MOST_AT_ONCE,
    SEEN,
    WHO_CHARACTERS,
    WHY_CHARACTERS,
    NobodyKnowsError,
    problems,
)
from status_page.transactions.receipts import OperatorDecision

_WAIT_SECONDS = 5


class Acting:
    """Answers ``GET`` and ``POST``. What writes to Kafka runs in a thread of its own."""

    def __init__(self, site: Site, pages: Pages) -> None:
        self._site = site
        self._pages = pages

    async def sign_in(self, request: Request) -> Response:
        """Ask for the token, and begin a session for who has it."""
        if request.method == "GET":
            onward = _local(request.query_params.get("next", ""))
            return await run_in_threadpool(self._asking, request, onward, "", 200)
        form = await form_of(request)
        onward = _local(form.get("next", ""))
        known = request.cookies.get(self._before, "")
        if not known or not same(form.get("form_token", ""), known):
            return await run_in_threadpool(
                self._asking, request, onward, "That form was too old. Try again; this page needs cookies.", 403
            )
        try:
            admit(self._site.signing_in, form.get("token", ""), request)
        except FormError as error:
            answer = await run_in_threadpool(self._asking, request, onward, error.sentence, error.status)
            answer.headers.update(error.headers)
            return answer
        answer = redirect(request, onward)
        self._set_cookie(request, answer, self._site.cookie, self._site.signing_in.begin().name)
        answer.delete_cookie(self._before, "", httponly=True, samesite="strict")
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        session, _ = await self._form(request)
        self._site.signing_in.end(session.name)
        answer = redirect(request, "/")
        answer.delete_cookie(self._site.cookie, "", httponly=True, samesite="strict")
        return answer

    def confirm(self, request: Request) -> Response:
        """Show what would be done, and ask who does it and why."""
        names, action = request.query_params.getlist("what"), request.query_params.get("action", "")
        if not self._site.signing_in.possible:
            return self._pages.page(request, "no_token.html", "Nobody can act here", {}, status=403)
        if self._site.session(request) is None:
            here = f"{request.url.path}?{request.url.query}"
            return redirect(request, link("/sign-in", {"next": here}))
        chosen, missing = self._site.deciding.chosen(names)
        wrong = problems(action, chosen, "who", "why")
        if len(names) > MOST_AT_ONCE:
            wrong.append(f"At most {MOST_AT_ONCE} at once.")
        shown = {"chosen": chosen, "missing": missing, "who": "", "why": ""}
        return self._confirming(request, action, wrong if names else [_NONE], 200, **shown)

    async def decide(self, request: Request) -> Response:
        """Do it."""
        _, form = await self._form(request)
        return await run_in_threadpool(self._decide, request, form)

    def decided(self, request: Request) -> Response:
        """What was written, and what of it the job has judged."""
        receipt = self._site.receipt(request.path_params["receipt"])
        waiting, rejected = self._site.outcome(receipt)
        shown = {"receipt": receipt, "waiting": waiting, "rejected": rejected}
        refresh = _WAIT_SECONDS if waiting else 0
        return self._pages.page(request, "decided.html", "Written", shown, refresh=refresh)

    def refused(self, request: Request, error: Any) -> Response:
        """A :class:`FormError`."""
        title = "Not done" if request.method == "POST" else "Not shown"
        return self._pages.page(request, "refused.html", title, {"sentence": error.sentence}, status=error.status)

    @property
    def _before(self) -> str:
        """The cookie of a browser that has not signed in yet: its form says the same, which no other site's can."""
        return f"{self._site.cookie}-form"

    async def _form(self, request: Request) -> tuple[Session, ImmutableMultiDict[str, str]]:
        session = self._site.session(request)
        if session is None:
            raise FormError(401, "Your session has ended. Sign in again.")
        form = await form_of(request)
        if not same(form.get("form_token", ""), session.form_token):
            raise FormError(403, "That form is not of this session. Go back, load the page again, and try again.")
        return session, form

    def _decide(self, request: Request, form: ImmutableMultiDict[str, str]) -> Response:
        action, names = form.get("action", ""), form.getlist("what")
        who, why, seen = form.get("who", "").strip(), form.get("why", "").strip(), form.get("seen", "")
        chosen, missing = self._site.deciding.chosen(names)
        shown = {"chosen": chosen, "missing": missing, "who": who, "why": why, "seen": seen}
        wrong = problems(action, chosen, who, why, seen)
        if missing and chosen and not wrong:
            return self._confirming(request, action, [_CHANGED], 409, **shown)
        if wrong:
            return self._confirming(request, action, wrong, 422, **shown)
        try:
            decision = OperatorDecision(Action(action), tuple(chosen), who, why, SEEN.get(seen))
            receipt = self._site.deciding.write(decision)
        except NobodyKnowsError as error:
            return self._confirming(request, action, [str(error)], 409, unclear=True, **shown)
        except CheckbackError as error:
            return self._confirming(request, action, [f"{error} Doing it twice does no harm."], 502, **shown)
        return redirect(request, f"/decided/{receipt.name}")

    def _confirming(self, request: Request, action: str, wrong: Sequence[str], status: int, **more: Any) -> Response:
        """``unclear``: nobody can know of one whether it was delivered."""
        title = f"{action.capitalize()}?" if action else "Nothing chosen"
        limits = {"who_characters": WHO_CHARACTERS, "why_characters": WHY_CHARACTERS}
        back = _LISTS.search(_local(request.headers.get("referer", "")))
        unclear = any(one.contested for one in more["chosen"])
        shown = {"action": action, "wrong": wrong, "unclear": unclear, "seen": "", **limits, **more}
        shown["back"] = back[0] if back else "/transactions"
        return self._pages.page(request, "confirm.html", title, shown, status=status)

    def _asking(self, request: Request, onward: str, problem: str, status: int) -> Response:
        if not self._site.signing_in.possible:
            return self._pages.page(request, "no_token.html", "Nobody can act here", {}, status=403)
        form_token = request.cookies.get(self._before) or secrets.token_urlsafe(32)
        shown = {"onward": onward, "problem": problem, "form_token": form_token}
        answer = self._pages.page(request, "sign_in.html", "Sign in", shown, status=status)
        self._set_cookie(request, answer, self._before, form_token)
        return answer

    @staticmethod
    def _set_cookie(request: Request, answer: Response, name: str, value: str) -> None:
        # behind something that speaks TLS for us
        secure = "https" in {request.url.scheme, request.headers.get("x-forwarded-proto")}
        # without a path it is of the folder of this page: of all our pages, and of no others behind the same proxy
        answer.set_cookie(name, value, path=None, httponly=True, samesite="strict", secure=secure)


_NONE = "Choose at least one transaction: go back, and tick it."
_LISTS = re.compile(r"/(transactions|parked)\b.*")
"""A proxy's path may stand before it."""
_CHANGED = "Some of them are decided meanwhile, and left out now. Look again, and confirm."


def _local(address: str) -> str:
    """The path and query of one of our own pages; the first page for anything else."""
    parts = urlsplit(address) if address.isascii() and address.isprintable() else urlsplit("")
    path = parts.path if parts.path.startswith("/") and not parts.path.startswith(("//", "/\\")) else "/"
    return f"{path}?{parts.query}" if parts.query else path
