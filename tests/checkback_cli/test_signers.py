"""``checkback access signers``, on a real Kafka."""

from pathlib import Path

from typer.testing import CliRunner

from checkback import Message, SigningKey, TransactionProducer
from checkback_cli import app
from tests.place import Place

KEYS = [SigningKey(name, name * 8) for name in ("shop-1", "shop-2")]


def said(place: Place, folder: Path, *words: str) -> str:
    file = folder / "checkback.toml"
    kafka = f'bootstrap_servers = "{place.bootstrap_servers}"\ntopic_prefix = "{place.topics.prefix}"'
    file.write_text(f"[kafka]\n{kafka}\n", encoding="utf-8")
    found = CliRunner().invoke(app, ["access", "signers", "--config", str(file), *words], catch_exceptions=False)
    assert found.exit_code == 0
    return found.output


def test_who_does_not_sign_is_seen_before_it_matters(place: Place, tmp_path: Path) -> None:
    for group, key, number in (("shop", KEYS[0], 3), ("shop", KEYS[1], 1), ("shop", None, 2), ("till", None, 1)):
        with TransactionProducer(place.bootstrap_servers, group, topics=place.topics, signing=key) as producer:
            halves = [producer.prepare(Message(place.real_topic, b"v")) for _ in range(number)]
            producer.commit(halves[0])
    rows = [line.split() for line in said(place, tmp_path).splitlines() if line.strip()]
    assert rows == [
        ["shop", "(not", "signed)", "2", "1"],
        ["shop", "shop-1", "3", "1"],
        ["shop", "shop-2", "1", "1"],
        ["till", "(not", "signed)", "1", "1"],
    ]
    before = said(place, tmp_path, "--since", "0s")
    assert "shop" not in before
