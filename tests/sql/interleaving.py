"""Several threads that work in a database, each let go from one statement to the next in an order drawn by lot."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import Engine, event

_BLOCKED_SECONDS = 0.004
"""Who has not come to the next statement by then waits for a lock, most likely: another is let go meanwhile."""
_STUCK_SECONDS = 60.0


class Interleaving:
    """Statements of several engines, one at a time; each engine is one thread's."""

    def __init__(self, engines: list[Engine]) -> None:
        self._threads = ThreadPoolExecutor(len(engines))
        self._condition = threading.Condition()
        self._places: dict[int, str] = {}
        for number, engine in enumerate(engines):
            self._stop_at_statements(number, engine)

    def run(self, dice: random.Random, works: list[Callable[[], Any]]) -> list[Any]:
        """Run the works, in the order of the engines; gives what they give."""
        self._places = dict.fromkeys(range(len(works)), "runs")
        futures = [self._threads.submit(self._work, number, work) for number, work in enumerate(works)]
        with self._condition:
            while True:
                self._wait(lambda: "stands" in self._places.values() or self._all_done(), _STUCK_SECONDS)
                if self._all_done():
                    break
                self._let_go(dice.choice([number for number, place in self._places.items() if place == "stands"]))
        return [one.result(_STUCK_SECONDS) for one in futures]

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _let_go(self, number: int) -> None:
        self._places[number] = "runs"
        self._condition.notify_all()
        self._condition.wait_for(lambda: self._places[number] != "runs", _BLOCKED_SECONDS)

    def _all_done(self) -> bool:
        return set(self._places.values()) == {"done"}

    def _wait(self, holds: Callable[[], bool], seconds: float) -> None:
        assert self._condition.wait_for(holds, seconds), self._places

    def _work(self, number: int, work: Callable[[], Any]) -> Any:
        try:
            self._stand(number)
            return work()
        finally:
            with self._condition:
                self._places[number] = "done"
                self._condition.notify_all()

    def _stand(self, number: int) -> None:
        with self._condition:
            self._places[number] = "stands"
            self._condition.notify_all()
            self._wait(lambda: self._places[number] == "runs", _STUCK_SECONDS)

    def _stop_at_statements(self, number: int, engine: Engine) -> None:
        def before(*_: Any) -> None:
            if self._places.get(number) == "runs":
                self._stand(number)

        for name in ("before_cursor_execute", "commit", "rollback"):
            event.listen(engine, name, before)
