"""README's example is real."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.place import Place

README = Path(__file__).parents[1] / "README.md"


def test_the_example_sends_an_order(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    kafka = '"localhost:9092", "shop", shop'
    assert found[1].count(kafka) == 2
    source = found[1].replace(kafka, f'"{place.bootstrap_servers}", "shop", shop, topics=topics')
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"topics": place.topics}
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102  (that is the test)
    names["engine"].dispose()
    (half,) = place.read(place.topics.half)
    (op,) = place.read(place.topics.op)
    assert (half.key, half.value) == (b"customer-7", b'{"order": 1}')
    assert dict(op.headers)["cb-action"] == b"commit"
    assert [record.value is None for record in place.read(place.topics.producers)] == [False, True]
