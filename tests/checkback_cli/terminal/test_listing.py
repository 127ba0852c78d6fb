"""How lists look on terminals of different widths."""

import io
import json

import pytest
from rich.console import Console
from rich.text import Text

from checkback_cli.terminal.listing import note, show_objects, show_rows

ID = "0123456789abcdef0123456789abcdef"
NAMES = ("transaction", "group", "topic", "half", "age", "attempts", "last answer", "next check")
ROW = (ID, "shop", "orders", "3:4711", "12 min 30 s", "15 of 15", "unreachable: nobody listens there", "in 2 min")


def printed(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], title: str | None) -> str:
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", str(width))
    show_rows(NAMES, [ROW, (ID[::-1], *ROW[1:])], title=title)
    return Text.from_ansi(capsys.readouterr().out).plain


def test_a_wide_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(160, monkeypatch, capsys, "In doubt").splitlines()
    assert lines[0].strip() == "In doubt"
    assert sum("transaction" in line and "next check" in line for line in lines) == 1
    assert sum(ID in line and "4711" in line for line in lines) == 1


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_one_gets_lines_whose_ids_can_be_copied(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(width, monkeypatch, capsys, None)
    blocks = [block.splitlines() for block in out.strip().split("\n\n")]
    assert [block[0].split() for block in blocks] == [["transaction", ID], ["transaction", ID[::-1]]]
    assert all(line.startswith(name) for block in blocks for line, name in zip(block, NAMES, strict=True))
    assert max(map(len, out.splitlines())) <= width


def test_in_blocks_the_title_comes_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(80, monkeypatch, capsys, "In doubt").startswith("In doubt:\n\ntransaction")


@pytest.mark.parametrize("width", ["60", "160"])
def test_rows_with_the_same_reason_stand_below_it(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"tx-{number}", "shop", "busy" if number % 3 else "no order") for number in range(5)]
    monkeypatch.setenv("COLUMNS", width)
    show_rows(("transaction", "group", "why"), rows, by="why")
    assert capsys.readouterr().out.splitlines()[1] == "tx-1\tshop\tbusy", "in a pipe nothing is moved"
    monkeypatch.setattr(Console, "is_terminal", True)
    show_rows(("transaction", "group", "why"), rows, by="why")
    out = Text.from_ansi(capsys.readouterr().out).plain
    assert (out.count("busy"), out.count("no order"), "why" in out) == (1, 1, False)
    places = [out.index(text) for text in ("2: no order", "tx-0", "tx-3", "3: busy", "tx-1", "tx-2", "tx-4")]
    assert places == sorted(places)


KEPT = ("cb.rejected", 8, 1, 1, "the last of each key", 1_234_567, "yes")
KEPT_NAMES = ("topic", "partitions", "replicas", "in sync", "kept", "records", "as it should be")


def test_no_word_is_broken_where_there_is_room_for_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "80")
    show_rows(KEPT_NAMES, [KEPT])
    out = Text.from_ansi(capsys.readouterr().out).plain
    words = [
        word for cell in (*KEPT_NAMES, "cb.rejected", "the last of each key", "1,234,567") for word in cell.split()
    ]
    assert [word for word in words if word not in out] == []
    assert max(map(len, out.splitlines())) <= 80


def test_counts_have_separators_on_a_terminal_alone_and_offsets_never(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_rows(("partition", "next", "lag"), [(0, 81923, 12345)])
    assert capsys.readouterr().out == "0\t81923\t12345\n"
    monkeypatch.setattr(Console, "is_terminal", True)
    show_rows(("partition", "next", "lag"), [(0, 81923, 12345)])
    cells = [cell.strip() for cell in capsys.readouterr().out.splitlines()[3].split("│")]
    assert cells[1:-1] == ["0", "81923", "12,345"]


def test_json_is_valid_in_each_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, "latin-1", errors="backslashreplace", write_through=True))
    show_objects([{"group": "k\u00f6nig\u20ac"}])
    assert json.loads(raw.getvalue()) == {"group": "k\u00f6nig\u20ac"}


@pytest.mark.parametrize(("terminal", "lines"), [("1", 3), ("", 1)])
def test_a_sentence_beside_a_list_breaks_no_word_on_a_terminal(
    terminal: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", terminal)
    words = "No job answers at http://localhost:9464 (timed out): check whether it runs. What follows is Kafka's."
    note(words)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    assert " ".join(said) == words
