"""Asks one endpoint over HTTP what became of a transaction."""

from dataclasses import dataclass

import httpx

from checkback.check_protocol import CheckRequest
from checkback.protocol import Action

_VERDICTS = {"commit": Action.COMMIT, "rollback": Action.ROLLBACK, "unknown": Action.UNKNOWN}
_REMARK_CHARACTERS = 512


@dataclass(frozen=True)
class Verdict:
    """What an endpoint said: ``commit``, ``rollback``, ``unknown``, or that nobody was there to say anything."""

    action: Action
    remark: str


class Asker:
    """A pooled HTTP client. Everything but a plain verdict is *unknown*; no connection is *unreachable*."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, url: str, request: CheckRequest) -> Verdict:
        """Ask once. Never raises for what an endpoint does or fails to do."""
        try:
            response = await self._client.post(url, json=request.to_json())
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Verdict(Action.UNREACHABLE, f"{url}: {error!r}")
        except httpx.HTTPError as error:
            return Verdict(Action.UNKNOWN, f"{url}: {error!r}")
        except Exception as error:  # noqa: BLE001  (a URL that is none fails in many ways, before anything is sent)
            return Verdict(Action.UNREACHABLE, f"{url}: {error!r}")
        return _read(url, response)


def _read(url: str, response: httpx.Response) -> Verdict:
    if response.status_code != httpx.codes.OK:
        return Verdict(Action.UNKNOWN, f"{url} answered with status {response.status_code}")
    try:
        body = response.json()
        action = _VERDICTS[body["state"]]
        remark = str(body.get("remark") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        said = response.content[:100].decode(errors="replace")  # .text would trust the charset it names
        return Verdict(Action.UNKNOWN, f"{url} answered with no verdict: {said!r}")
    return Verdict(action, remark[:_REMARK_CHARACTERS])
