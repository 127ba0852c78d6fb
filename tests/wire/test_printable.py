"""Names that others have chosen, as people see them."""

import sys
import unicodedata

from checkback.wire.printable import printable


def test_no_two_names_look_alike_because_a_character_is_invisible() -> None:
    """All format characters are spelled; so are fillers and variation selectors, which other categories have."""
    formats = {chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"}
    visible = {one for one in formats if unicodedata.name(one, "").startswith(("ARABIC", "KAITHI", "SYRIAC", "EGYPT"))}
    others = {"\u034f", "\u115f", "\u1160", "\u3164", "\ufe0f", "\uffa0", "\U000e0100", "\u2028", "\x00", "\x9f", "\r"}
    for one in (formats - visible) | others:
        assert printable(f"pay{one}").isascii(), hex(ord(one))


def test_visible_text_stays_as_it_is() -> None:
    for text in ("tx-αβγ-42", "zahlung/eu-west?x=1", "注文", "naïve", "\N{RIGHT-POINTING MAGNIFYING GLASS}"):
        assert printable(text) == text
