"""One line of the log: bytes in, values out."""

import json
import time
from contextlib import suppress
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs import SurfaceReplace
from dsh_time.log.format import (
    DEPTH_LIMIT,
    LINE_LIMIT,
    BadLine,
    Draft,
    OtherVersion,
    Record,
    SessionHeader,
    check_limits,
    clean_text,
    decode_header,
    encode_header,
    encode_record,
    read_record,
    restamp,
    seal,
)

HEADER = SessionHeader(id="s1", created_at=1_790_000_000_000, writer="dsh-time 0.1.0")


def sealed(text: str | bytes, b: int = 0) -> bytes:
    """A line with a sound seal around whatever is given: what a foreign writer could leave."""
    return seal(text.encode() if isinstance(text, str) else text, b)


def line(data: str, b: int = 0) -> bytes:
    return sealed('{"seq":0,"time":1,"type":"t","data":' + data, b)


def closed(text: str) -> bytes:
    """A header with a sound checksum around whatever is given."""
    body = text.encode()
    return body + b',"crc":"%08x"}' % crc32(body)


# -- records


def test_a_record_is_the_documented_bytes() -> None:
    written, record = encode_record(0, Draft(1_790_000_000_012, "turn/start", b'{"turn":1}'), 0)
    body = b'{"seq":0,"time":1790000000012,"type":"turn/start","data":{"turn":1},"b":0'
    assert written == body + b',"crc":"%08x"}' % crc32(body)
    assert record == read_record(written)
    assert (record.seq, record.time, record.type, bytes(record.data), record.b) == (
        0,
        1_790_000_000_012,
        "turn/start",
        b'{"turn":1}',
        0,
    )


def test_optional_fields_stand_before_the_seal_and_only_when_given() -> None:
    draft = Draft(1, "user/message", b"{}", SurfaceReplace(3, 5), (1, 2), ignorable=True)
    written, record = encode_record(7, draft, 2)
    assert (
        b'"surfaceOp":{"op":"replace","start":3,"end":5},"sourceEventSeqs":[1,2],"ignorable":true,"b":2,"crc"'
        in written
    )
    assert (record.surface_op, record.source_event_seqs, record.ignorable) == (SurfaceReplace(3, 5), (1, 2), True)


def test_the_word_append_is_accepted_when_reading() -> None:
    record = read_record(sealed('{"seq":0,"time":1,"type":"t","data":{},"surfaceOp":"append"'))
    assert record.surface_op == "append"


def test_text_is_written_as_utf_8_not_escaped() -> None:
    written, _ = encode_record(0, Draft(1, "t", msgspec.json.encode({"text": "时间 \u2028 \u0085"})), 0)
    assert "时间 \u2028 \u0085".encode() in written


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(data=json_values, stamp=st.integers(-(2**63), 2**63 - 1), b=st.integers(0, 2**62), seq=st.integers(0, 2**62))
def test_what_is_encoded_reads_back_equal(data: Any, stamp: int, b: int, seq: int) -> None:
    payload = msgspec.json.encode(data)
    written, record = encode_record(seq, Draft(stamp, "t", payload), b)
    assert (record.seq, record.time, record.b, bytes(record.data)) == (seq, stamp, b, payload)
    assert b"\n" not in written
    assert json.loads(written)["data"] == data


@given(where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_is_read(where: int, bit: int) -> None:
    written = bytearray(encode_record(3, Draft(1, "user/message", b'{"text":"hello"}'), 1)[0])
    written[where % len(written)] ^= 1 << bit
    with pytest.raises(BadLine):
        read_record(bytes(written))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_line_are_refused_and_never_crash(garbage: bytes) -> None:
    with pytest.raises(BadLine):
        read_record(garbage)
    with pytest.raises(BadLine):
        decode_header(garbage)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("NaN", "malformed"),
        ("Infinity", "malformed"),
        ("-Infinity", "malformed"),
        ('{"x":1e999}', "1e999 is out of range"),
        ('{"x":-1E+0999 }', "out of range"),
        ("9223372036854775808", "integer 9223372036854775808 is out of range"),
        ("-9223372036854775809", "out of range"),
        ("9" * 5000, "out of range"),
        ("[" * DEPTH_LIMIT + "1" + "]" * DEPTH_LIMIT, "nested deeper than 200"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper than 200"),
        ('"\\ud800 lone surrogate"', "hex escape"),
        ("", "malformed"),
    ],
)
def test_values_out_of_range_are_damage_even_under_a_sound_seal(data: str, reason: str) -> None:
    """R21 to R23."""
    with pytest.raises(BadLine, match=reason):
        read_record(line(data))


@pytest.mark.parametrize(
    "data",
    [
        "9223372036854775807",
        "-9223372036854775808",
        '{"x":1.5e300}',
        '{"x":1e-999}',
        '"12345678901234567890123456789"',
        '["1e999, ","\\"1e999,"]',
        json.dumps("[" * 1000),
        "[" * (DEPTH_LIMIT - 1) + "]" * (DEPTH_LIMIT - 1),
    ],
)
def test_values_within_the_limits_are_read(data: str) -> None:
    assert bytes(read_record(line(data)).data).decode() == data


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"seq":true,"time":1,"type":"t","data":{}', "Expected `int`, got `bool`"),
        ('{"seq":1.0,"time":1,"type":"t","data":{}', "Expected `int`, got `float`"),
        ('{"seq":"1","time":1,"type":"t","data":{}', "Expected `int`, got `str`"),
        ('{"seq":-1,"time":1,"type":"t","data":{}', "seq"),
        ('{"seq":1,"time":99999999999999999999,"type":"t","data":{}', "out of range"),
        ('{"seq":1,"time":1,"data":{}', "missing required field `type`"),
        ('{"seq":1,"time":1,"type":"t","data":{},"surfaceOp":"insert"', "surfaceOp"),
        (b'{"seq":1,"time":1,"type":"t","data":"\xff"', "UTF-8"),
        (b'\xef\xbb\xbf{"seq":1,"time":1,"type":"t","data":{}', "byte order mark"),
        ("[1", "Expected `object`"),
    ],
)
def test_a_wrong_envelope_is_damage_even_under_a_sound_seal(text: str | bytes, reason: str) -> None:
    """R18, R24."""
    with pytest.raises(BadLine, match=reason):
        read_record(sealed(text))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "seal"),
        (b"\0" * 400, "seal"),
        (line("{}").replace(b'"b":0', b'"b":00'), "seal"),
        (line("{}")[:-1], "seal"),
        (line("{}") + b"\0", "seal"),
        (line("{}").upper(), "seal"),
        (line("{}").replace(b'"time":1', b'"time":2'), "checksum"),
        (line("{}") + line("{}"), "checksum"),
        (line("{}").decode().encode("utf-16"), "seal"),
        (b" " * LINE_LIMIT, "longer than"),
    ],
)
def test_bytes_without_a_sound_seal_are_damage(raw: bytes, reason: str) -> None:
    with pytest.raises(BadLine, match=reason):
        read_record(raw)


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (Draft(1, "t", b"{"), "no JSON"),
        (Draft(1, "t", b'{},"seq":5'), "no JSON"),
        (Draft(1, "t", b"[" * 100_000 + b"]" * 100_000), "no JSON"),
        (Draft(1, "t\ud800", b"{}"), "no JSON"),
        (Draft(1, "t", b'{"a":\n1}'), "newline"),
        (Draft(1, "t", b'"\xff"'), "UTF-8"),
        (Draft(2**63, "t", b"{}"), "out of range"),
        (Draft(1, "t", b"", ignorable=True), "no JSON"),
        (Draft(1, "t", b'"' + b"x" * LINE_LIMIT + b'"'), "longer than"),
        (Draft(1, "t", b"{}", source_event_seqs=(-1,)), "sourceEventSeqs"),
    ],
)
def test_a_draft_that_could_not_be_read_back_is_not_encoded(draft: Draft, reason: str) -> None:
    with pytest.raises(BadLine, match=reason):
        encode_record(0, draft, 0)


@pytest.mark.parametrize(
    "hostile",
    [
        b'["' + b'\\"' * 50_000 + b'",12345678901234567890]',
        b'["' + b'\\"' * 50_000 + b"1e999,",
        b'"' * 100_000 + b"0" * 20,
        b"0e" * 50_000 + b"0" * 20,
        b"-" * 100_000 + b"0" * 20,
        b"[" * 100_000,
    ],
)
def test_the_careful_checks_are_linear_on_hostile_input(hostile: bytes) -> None:
    """D16: 100 KB in less than 50 ms of processor time."""
    started = time.process_time()
    with suppress(BadLine, ValueError):
        check_limits(hostile)
    assert time.process_time() - started < 0.05


def test_a_fork_stamps_the_seal_anew_and_keeps_every_other_byte() -> None:
    original = sealed('{"seq":4,"time":1,"type":"t","unknown":[1, 2],"data":{"b":3,"x":",\\"b\\":9"}', 17)
    again = restamp(original, 0)
    assert again.partition(b',"b":0,"crc"')[0] == original.partition(b',"b":17,"crc"')[0]
    assert read_record(again).b == 0


# -- headers


def test_a_header_is_the_documented_bytes() -> None:
    header = SessionHeader(
        id="c1",
        created_at=1_790_000_000_000,
        parent_session="p1",
        ancestor_seqs=(41,),
        delegation_depth=1,
        origin="subagent",
        writer="dsh-time 0.1.0",
    )
    body = (
        b'{"type":"session","version":1,"id":"c1","createdAt":1790000000000,"parentSession":"p1","ancestorSeqs":[41],'
        b'"delegationDepth":1,"origin":"subagent","writer":"dsh-time 0.1.0"'
    )
    assert encode_header(header) == body + b',"crc":"%08x"}' % crc32(body)
    assert decode_header(encode_header(header)) == (header, {})


def test_fields_of_a_header_that_are_not_ours_are_kept() -> None:
    """R29."""
    found, unknown = decode_header(
        closed('{"type":"session","version":1,"id":"s1","createdAt":1790000000000,"cwd":"/x","writer":"dsh-time 0.1.0"')
    )
    assert found == msgspec.structs.replace(HEADER, id="s1")
    assert decode_header(encode_header(found, unknown)) == (found, unknown)
    assert b'"cwd":"/x"' in encode_header(found, unknown)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "truncated"),
        (line("{}"), "no session header"),
        (encode_header(HEADER).replace(b'"s1"', b'"s2"'), "checksum"),
        (b"\xef\xbb\xbf" + encode_header(HEADER), "byte order mark"),
        (encode_header(HEADER).decode().encode("utf-16"), "UTF-8"),
        (closed('{"type":"session","version":1,"id":"../x","createdAt":1,"writer":"w"'), "no session id"),
        (closed('{"type":"session","version":1,"id":"s1\\n","createdAt":1,"writer":"w"'), "no session id"),
        (
            closed('{"type":"session","version":1,"id":"s1","parentSession":"","createdAt":1,"writer":"w"'),
            "no session id",
        ),
        (
            closed('{"type":"session","version":1,"id":"s1","forkedFrom":"a/b","createdAt":1,"writer":"w"'),
            "no session id",
        ),
        (closed('{"type":"session","id":"s1","createdAt":1,"writer":"w"'), "no version"),
        (closed('{"type":"session","version":"1","id":"s1","createdAt":1,"writer":"w"'), "version"),
        (closed('{"type":"session","version":true,"id":"s1","createdAt":1,"writer":"w"'), "version"),
        (closed('{"type":"session","version":1,"id":"s1","createdAt":1e999,"writer":"w"'), "out of range"),
        (closed('{"type":"session","version":1,"id":"s1","createdAt":1'), "writer"),
    ],
)
def test_what_is_no_header_is_refused(raw: bytes, reason: str) -> None:
    """R18, R25, R28, D5."""
    with pytest.raises(BadLine, match=reason):
        decode_header(raw)


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        (closed('{"type":"session","version":2,"whatever":[]'), 2),
        (b'{"type":"session","version":9,"another":"seal"}', 9),
        (closed('{"type":"session","version":0,"id":"s1"'), 0),
    ],
)
def test_another_version_is_told_from_damage_before_anything_else_is_read(raw: bytes, version: int) -> None:
    """R28."""
    with pytest.raises(OtherVersion) as caught:
        decode_header(raw)
    assert caught.value.found == version


# -- text at the door


@pytest.mark.parametrize(
    ("text", "clean", "lossy"),
    [
        ("plain", "plain", False),
        ("时间 \ufffd", "时间 \ufffd", False),
        ("a\ud800b\udfffc", "a\ufffdb\ufffdc", True),
        (b"plain \xc3\xa9", "plain é", False),
        (b"bad \xff\xfe", "bad \ufffd\ufffd", True),
    ],
)
def test_text_that_is_no_unicode_is_replaced_and_said_to_be_lossy(text: str | bytes, clean: str, lossy: bool) -> None:
    """R19."""
    assert clean_text(text) == (clean, lossy)


@given(st.text() | st.binary())
def test_clean_text_can_always_be_logged_and_is_stable(text: str | bytes) -> None:
    clean, _ = clean_text(text)
    assert clean_text(clean) == (clean, False)
    encode_record(0, Draft(1, "t", msgspec.json.encode(clean)), 0)


def test_a_kept_record_holds_its_own_line_in_memory_and_no_more() -> None:
    record = read_record(line('{"x":1}'))
    assert isinstance(record, Record)
    assert len(memoryview(record.data)) == len('{"x":1}')
