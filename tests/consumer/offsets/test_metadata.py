"""What is stored beside an offset: nothing is lost that fits, and nothing claimed that is not done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer.offsets.metadata import (
    MOST_BYTES,
    Endings,
    LastingFacts,
    Note,
    Stored,
    decode,
    encode,
    has_begun,
    letters,
)
from checkback.consumer.offsets.window import OffsetWindow

ENDINGS = st.builds(Endings, st.booleans(), st.integers(0, 9), st.integers(0, 9))


@st.composite
def ranges(draw: st.DrawFn, most: int = 200) -> tuple[int, list[range]]:
    """A position, and ranges behind it that do not touch."""
    position = at = draw(st.integers(0, 10**15))
    found = []
    lengths = st.one_of(st.integers(1, 3), st.integers(1, 10**12))
    for waiting, done in draw(st.lists(st.tuples(lengths, lengths), max_size=most)):
        found.append(range(at + waiting, at + waiting + done))
        at += waiting + done
    return position, found


@given(ranges(20), ENDINGS)
def test_what_fits_is_read_as_it_was_written(given_ranges: tuple[int, list[range]], endings: Endings) -> None:
    stored = encode(*given_ranges, endings)
    assert stored.offset == given_ranges[0]
    assert decode(stored) == Note(tuple(given_ranges[1]), endings)


@given(ranges(), ENDINGS, st.integers(30, 200))
def test_where_it_does_not_fit_nothing_is_claimed_that_is_not_done(
    given_ranges: tuple[int, list[range]], endings: Endings, most_bytes: int
) -> None:
    stored = encode(*given_ranges, endings, most_bytes)
    assert len(stored.metadata.encode()) <= most_bytes
    note = decode(stored)
    assert note.endings == endings
    for one in note.done:
        assert any(whole.start <= one.start and one.stop <= whole.stop for whole in given_ranges[1])


def test_it_fits_into_what_brokers_take() -> None:
    each_second = [range(at, at + 1) for at in range(1, 200_001, 2)]
    stored = encode(0, each_second, Endings(running=True, without_a_word=3))
    assert len(stored.metadata) <= MOST_BYTES
    kept = decode(stored).done
    assert [*kept] == each_second[: len(kept)]
    assert len(kept) > 12_000


@given(ranges(20), ENDINGS, st.sets(st.text(max_size=9), min_size=1, max_size=9), st.integers(0, 10**18))
def test_topics_that_were_begun_and_what_was_skipped_are_said_beside_the_rest(
    given_ranges: tuple[int, list[range]], endings: Endings, topics: set[str], skipped: int
) -> None:
    stored = encode(*given_ranges, endings, topics=topics, kept=LastingFacts(skipped, topic=letters("id")))
    begun = frozenset(map(letters, topics))
    assert decode(stored) == Note(tuple(given_ranges[1]), endings, LastingFacts(skipped, begun, letters("id")))
    assert decode(encode(*given_ranges, endings, kept=LastingFacts(skipped))).kept == LastingFacts(skipped)
    more = encode(*given_ranges, endings, topics=["another"], kept=decode(stored).kept)
    assert all(has_begun(more, topic) for topic in (*topics, "another")), "a narrower subscription forgets nothing"
    assert all(has_begun(stored, topic) for topic in topics)
    assert has_begun(stored, "another topic") is False
    assert has_begun(encode(*given_ranges, endings), "orders") is None


def test_of_too_many_topics_nothing_is_said_and_what_fits_is_bounded() -> None:
    each_second = [range(at, at + 1) for at in range(1, 200_001, 2)]
    topics = [str(number) for number in range(201)]
    assert has_begun(encode(0, each_second, topics=topics), "1") is None
    stored = encode(0, each_second, Endings(running=True), topics=topics[:200])
    assert len(stored.metadata) <= MOST_BYTES
    assert has_begun(stored, "199")
    cut = Stored(0, stored.metadata[:-1])
    assert has_begun(cut, "199") is None


@pytest.mark.parametrize("said", ["S", "S-1", "S1_0", "S²", "S" + "9" * 5_000, "s1", "S1"])
def test_what_is_not_a_number_of_offsets_is_none(said: str) -> None:
    assert decode(Stored(7, f"cb1;7;0;0;0;;{said};")).kept.skipped == int(said == "S1")
    assert decode(Stored(7, f"cb1;7;0;0;0;;{said}")).kept.skipped == 0, "cut short, perhaps"


def test_the_shorter_spelling_is_taken() -> None:
    each_second = [range(at, at + 1) for at in range(1, 2_001, 2)]
    assert encode(0, each_second).metadata.split(";")[5].startswith("B")
    assert encode(0, [range(1, 2_001)]).metadata.split(";")[5].startswith("R")


def test_with_nothing_to_say_nothing_is_said() -> None:
    assert encode(812, []) == Stored(812, "")
    assert decode(Stored(812, "")) == Note()


@pytest.mark.parametrize(
    "metadata",
    [
        "somebody else's",
        "cb2;7;0;0;0;RAQE=;",
        "cb1;8;0;0;0;RAQE;",  # written beside another offset, and copied
        "cb1;7;0;0;0;RAQE",  # cut short, perhaps
        "cb1;7;0;0;0",
        "cb1;7;x;0;0;;",
        "cb1;7;0;0;0;XAQE;",
        "cb1;7;0;0;0;RAQ;",
        "cb1;7;0;0;0;R_____________________w;",
        "cb1;7;0;0;0;Rgg;",
        "cb1;7;0;0;0;R☃;",
        "{}",
        "cb1;7;0;0;99999999999999999;;",  # nobody has died so often
    ],
)
def test_what_is_not_ours_says_nothing(metadata: str) -> None:
    assert decode(Stored(7, metadata)) == Note()


@given(st.text(max_size=60))
def test_no_text_is_an_error(text: str) -> None:
    decode(Stored(7, text))
    decode(Stored(7, f"cb1;7;0;0;0;R{text};"))
    decode(Stored(7, f"cb1;7;0;0;0;B{text};"))


@given(ranges(20), ENDINGS, st.text(max_size=20), st.data())
def test_what_a_client_reads_beyond_its_end_changes_nothing_and_what_is_cut_off_is_no_less(
    given_ranges: tuple[int, list[range]], endings: Endings, more: str, data: st.DataObject
) -> None:
    stored = encode(*given_ranges, endings)
    if stored.metadata:
        assert decode(stored._replace(metadata=stored.metadata + more)) == decode(stored)
        cut = data.draw(st.integers(0, len(stored.metadata) - 1))
        assert decode(stored._replace(metadata=stored.metadata[:cut])) == Note()


def test_a_window_goes_from_one_reader_to_the_next() -> None:
    window = OffsetWindow(0)
    for offset in range(10):
        window.taken(offset)
    for offset in (0, 2, 3, 7):
        window.done(offset)
    stored = encode(*window.done_ahead())
    assert stored.offset == 1
    after = OffsetWindow(stored.offset, decode(stored).done)
    assert [offset for offset in range(1, 10) if after.taken(offset)] == [1, 4, 5, 6, 8, 9]
