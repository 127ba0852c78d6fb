"""Signatures of records: what they are, and that nothing of a record can be changed under one."""

import hashlib
import hmac
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import SIGNATURE, Headers
from checkback.wire.signed_records import (
    MOST_PLAIN_BYTES,
    WORDS,
    SigningKey,
    WrittenSignature,
    parted,
    place_of,
    signature_header,
    spelled,
    spelled_content,
)

KEY = SigningKey("shop-1", "s" * 32)
CONTENTS = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.sampled_from(["cb-id", "cb-group", "cb-reason", "trace", "x"]), st.binary(max_size=9)))


@given(st.binary(min_size=32, max_size=200), st.lists(st.binary(max_size=100)))
def test_the_code_is_hmac_sha256(secret: bytes, parts: list[bytes]) -> None:
    whole = hmac.digest(secret, b"".join(parts), hashlib.sha256)
    assert b64decode(SigningKey("a", secret).code(b"".join(parts))) == whole[:16]


def test_what_is_signed_byte_by_byte() -> None:
    """As docs/protocol.md has it, for clients in other languages."""
    headers: Headers = [("cb-id", b"tx"), ("trace", b"1"), ("cb-reason", b"late"), ("cb-group", b"shop")]
    _, said = signature_header(KEY, place_of("cb.half", 3), 1_764_000_000_000, (None, b"value"), headers)
    key_id, time, code = said.split(b" ")
    assert (key_id, time) == (b"shop-1", b"1764000000000")
    begins, ours = b"7:cb.half,1:3,6:shop-1,13:1764000000000,", b"5:cb-id,2:tx,8:cb-group,4:shop,"
    content = b"-,5:value,5:trace,1:1,9:cb-reason,4:late,"
    assert b64decode(code) == hmac.digest(b"s" * 32, begins + b"-," + content + ours, hashlib.sha256)[:16]

    large = b"v" * MOST_PLAIN_BYTES
    _, said = signature_header(KEY, place_of("cb.half", 3), 1_764_000_000_000, (None, large), headers)
    key_id, time, hashed, code = said.split(b" ")
    content = b"-,4096:%b,5:trace,1:1,9:cb-reason,4:late," % large
    assert b64decode(hashed) == hashlib.sha256(content).digest()
    assert b64decode(code) == hmac.digest(b"s" * 32, begins + b"44:%b," % hashed + ours, hashlib.sha256)[:16]


@pytest.mark.parametrize("bytes_of_value", [MOST_PLAIN_BYTES - 8, MOST_PLAIN_BYTES - 7])
def test_content_is_hashed_from_one_byte_more_on(bytes_of_value: int) -> None:
    content = spelled_content(None, b"v" * bytes_of_value, b"")
    _, said = signature_header(KEY, place_of("cb.half", 3), 1_000, (None, b"v" * bytes_of_value), [])
    assert (len(content) > MOST_PLAIN_BYTES) == (len(said.split(b" ")) == WORDS + 1)


@given(HEADERS, CONTENTS, CONTENTS, st.integers(0, 5), st.sampled_from([b"", b"x" * MOST_PLAIN_BYTES]), st.data())
def test_any_change_is_seen(
    headers: list[tuple[str, bytes]],
    key: bytes | None,
    value: bytes | None,
    partition: int,
    more: bytes,
    data: st.DataObject,
) -> None:
    place = place_of("cb.half", partition)
    value = (value or b"") + more if more else value
    header = signature_header(KEY, place, 1_000, (key, value), headers)
    said = WrittenSignature.parse(header[1])
    assert said is not None
    assert (said.hashed is not None) == bool(more)

    def holds(
        signing: SigningKey, place: bytes, headers: list[tuple[str, bytes]], content: tuple[bytes | None, bytes | None]
    ) -> bool:
        ours, others = parted([*headers, header])
        whole = spelled_content(*content, spelled(others))
        return said.fits(signing, place, spelled(ours), whole) and said.same_content(whole)

    assert holds(KEY, place, headers, (key, value))
    other_key, other_value = data.draw(CONTENTS), data.draw(CONTENTS)
    assert holds(KEY, place, headers, (other_key, other_value)) == ((other_key, other_value) == (key, value))
    others = data.draw(HEADERS)
    assert holds(KEY, place, others, (key, value)) == (parted(others) == parted(headers))
    assert not holds(KEY, place_of("cb.half", partition + 1), headers, (key, value))
    assert not holds(KEY, place_of("cb.op", partition), headers, (key, value))
    assert not holds(SigningKey("shop-1", "t" * 32), place, headers, (key, value))


def test_a_hash_can_stand_for_no_content_nor_content_for_a_hash() -> None:
    """Words that are added or taken away from a signature fit no code, whatever the content is made to be."""
    headers, place = [("cb-id", b"tx")], place_of("cb.half", 0)
    large = spelled_content(None, b"v" * 5_000, b"")
    said = WrittenSignature.parse(signature_header(KEY, place, 1_000, (None, b"v" * 5_000), headers)[1])
    assert said is not None
    assert said.hashed is not None
    without = said._replace(hashed=None)
    for content in (large, said.hashed, spelled_content(said.hashed, None, b""), b"44:%b," % said.hashed, None, b""):
        assert not without.fits(KEY, place, spelled(headers), content)


@given(st.binary(max_size=150))
def test_what_is_no_signature(written: bytes) -> None:
    assert WrittenSignature.parse(written) is None
    assert WrittenSignature.parse(None) is None


@pytest.mark.parametrize(
    ("key_id", "secret", "said"),
    [("a b", "s" * 32, "key's id has"), ("", "s" * 32, "key's id has"), ("a", "s" * 31, "32 to 1024 bytes")],
)
def test_what_cannot_be_a_key(key_id: str, secret: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        SigningKey(key_id, secret)
    assert "sss" not in str(raised.value)


def test_nobody_sees_the_secret() -> None:
    assert "sss" not in repr(KEY) + str(KEY) + KEY.fingerprint + repr(vars(KEY))


def test_a_signature_covers_no_other_signature() -> None:
    """So that the header may stand anywhere, and is not part of what it signs."""
    assert parted([(SIGNATURE, b"x"), ("cb-id", b"1")]) == ([("cb-id", b"1")], [])
