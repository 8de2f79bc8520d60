"""A file is plain YAML 1.2 of modest size, or one typed error that says where and what to do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.errors import DeploymentError
from dsh_time.yaml_reader import MAX_DEPTH, MAX_FILE_BYTES, Node, Origin, make_node, nearest, plain, read_yaml


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str | bytes], Any]:
    def read_content(content: str | bytes) -> Any:
        path = tmp_path / "f.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        node = read_yaml(path, Origin("f.yaml", path))
        assert node is not None
        return plain(node)

    return read_content


Read = Callable[[str | bytes], Any]


def refusals(read: Read, content: str | bytes) -> list[str]:
    with pytest.raises(DeploymentError) as caught:
        read(content)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("on", "on"),
        ("no", "no"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-17", -17),
        ("010", 10),
        ("0o17", 15),
        ("0xff", 255),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5e3", 500.0),
        ("1.", 1.0),
        ("-.inf", float("-inf")),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("'off'", "off"),
        ('"1"', "1"),
        ("0 0 * * *", "0 0 * * *"),
        ("<<", "<<"),
        ("中文 🕐", "中文 🕐"),
        ("9223372036854775807", 2**63 - 1),
        ("|\n   two\n   lines\n", "two\nlines\n"),
        ("[a, {b: 1}]", ["a", {"b": 1}]),
    ],
)
def test_a_plain_scalar_means_what_the_core_schema_of_yaml_1_2_says(read: Read, text: str, value: object) -> None:
    assert read(f"k: {text}") == {"k": value}


def test_not_a_number_is_read_as_a_float(read: Read) -> None:
    assert str(read("k: .nan")) == "{'k': nan}"


@pytest.mark.parametrize("content", ["", "# only a comment\n", "---\n", "\n\n", b"\xef\xbb\xbf", "---\n...\n"])
def test_an_empty_file_has_no_value(read: Read, content: str | bytes) -> None:
    assert read(content) is None


def test_a_byte_order_mark_is_skipped_and_not_counted(read: Read) -> None:
    assert read(b"\xef\xbb\xbfk: 1\n") == {"k": 1}
    assert refusals(read, b"\xef\xbb\xbf5: 1\n")[0].startswith("f.yaml:1:1: ")


def test_windows_line_ends_are_line_ends(read: Read) -> None:
    assert read("a: 1\r\nb: x\r\n") == {"a": 1, "b": "x"}


def test_each_value_knows_the_line_and_column_of_its_key(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a:\n  b: 1\n  c:\n    - x\n    - y\n")
    node = read_yaml(path, Origin("x.yaml", path))
    assert node is not None
    assert nearest(node, ("a", "b")).place == "x.yaml:2:3"
    assert nearest(node, ("a", "c")).place == "x.yaml:3:3"
    assert nearest(node, ("a", "c", 1)).place == "x.yaml:5:7"
    assert nearest(node, ("a", "nowhere", "z")).place == "x.yaml:1:1"


@pytest.mark.parametrize("expression", ["* * * * *", "*/5 * * * *", "*/5 9-17 * * 1-5", "* 0 * * *"])
def test_an_unquoted_cron_expression_gets_a_hint_to_quote_it(read: Read, expression: str) -> None:
    for content, place in ((f"a: 1\ncron: {expression}\n", "f.yaml:2:"), (f"- {expression}\n", "f.yaml:1:")):
        (message,) = refusals(read, content)
        assert message.startswith(place)
        assert "cron: '*/5 * * * *'" in message


@pytest.mark.parametrize(
    ("content", "place", "part"),
    [
        ("a: &x 1\nb: 2", "f.yaml:1:4: a", "an anchor (&) is not allowed"),
        ("a: &x [1]", "f.yaml:1:4: a", "an anchor"),
        ("a: !!str 1", "f.yaml:1:4: a", "a tag (!) is not allowed"),
        ("a: ! 1", "f.yaml:1:4: a", "a tag"),
        ("a: !!python/object/apply:os.system [x]", "f.yaml:1:4: a", "a tag"),
        ("a: *x", "f.yaml:1:4: a", "*x is a YAML alias"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1", "the key 'a' stands here twice, first on line 1"),
        ("x:\n  - {a: 1, a: 2}", "f.yaml:2:12: x[0]", "twice"),
        ("1: x", "f.yaml:1:1", "a key must be text, not 1"),
        ("true: x", "f.yaml:1:1", "a key must be text, not true"),
        ("? [a]\n: x", "f.yaml:1:3", "a key must be text, not a list"),
        ("%YAML 1.1\n---\na: off", "f.yaml:2:1", "directives"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1", "a second document"),
        ("a: @daily", "f.yaml:1:4", "quote text that starts with such a character"),
        ("a: `x`", "f.yaml:1:4", "quote text"),
        ("a:\n\tb: 1", "f.yaml:2:1", "indent with blanks, not with tabs"),
        ("a: 'x", "f.yaml:1:6", "not valid YAML"),
        ("a: b: c", "f.yaml:1:5", "not valid YAML"),
        ("a: [1", "f.yaml:1:6", "not valid YAML"),
        ('a: "\\U00110000"', "f.yaml", "not valid YAML"),
        ('a: "\\ud800"', "f.yaml:1:4: a", "cannot be stored"),
        ('a: "\\0"', "f.yaml:1:4: a", "cannot be stored"),
        ("a: 1\nb: '\x07'", "f.yaml:2:5", "a control character"),
        ("a: 9223372036854775808", "f.yaml:1:4: a", "too large"),
        ("a: " + "9" * 5000, "f.yaml:1:4: a", "too large"),
        ("a: 0x" + "f" * 5000, "f.yaml:1:4: a", "too large"),
    ],
)
def test_what_is_refused_is_named_with_its_place(read: Read, content: str, place: str, part: str) -> None:
    message = refusals(read, content)[0]
    assert message.startswith(place)
    assert part in message


def test_problems_are_collected_up_to_the_one_that_ends_parsing(read: Read) -> None:
    messages = refusals(read, "a: &x 1\nb: *x\n1: 2\nb: 3\nc: 'x")
    assert [message.split(":")[1] for message in messages] == ["1", "2", "3", "4", "5"]


def test_nesting_is_bounded(read: Read) -> None:
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    assert "nested more than 20 levels" in refusals(read, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))[0]


def test_size_is_bounded(read: Read) -> None:
    assert read("#" * MAX_FILE_BYTES) is None
    assert refusals(read, "#" * (MAX_FILE_BYTES + 1)) == ["f.yaml: is larger than 64 KiB"]


def _billion_laughs() -> str:
    lines = ["a0: &a0 lol"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "content",
    [
        "k: x\n" * 250_000,
        "[" * 60_000,
        "{a: " * 15_000,
        "- " * 30_000,
        "? " * 30_000,
        _billion_laughs(),
        "&a " * 20_000,
    ],
    ids=["1 MB", "brackets", "braces", "dashes", "question marks", "billion laughs", "anchors"],
)
def test_hostile_files_are_refused_quickly(read: Read, content: str) -> None:
    start = time.process_time()
    assert refusals(read, content)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("content", [b"a: \xff", b"\xff\xfea\0", "é".encode("latin-1"), b"ok: 1\n\xed\xa0\x80"])
def test_bytes_that_are_not_utf_8_are_refused(read: Read, content: bytes) -> None:
    (message,) = refusals(read, content)
    assert message.endswith("is not UTF-8 text")


def test_no_file_gives_none(tmp_path: Path) -> None:
    assert read_yaml(tmp_path / "none.yaml", Origin("x")) is None
    (tmp_path / "file").touch()
    assert read_yaml(tmp_path / "file" / "below.yaml", Origin("x")) is None


def test_a_link_is_followed_and_one_to_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("a: 1")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "broken").symlink_to("nowhere")
    node = read_yaml(tmp_path / "link", Origin("link"))
    assert node is not None
    assert plain(node) == {"a": 1}
    with pytest.raises(DeploymentError, match="broken: is a link to a file that does not exist"):
        read_yaml(tmp_path / "broken", Origin("broken"))


def test_a_folder_or_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(DeploymentError, match="is not a regular file"):
            read_yaml(path, Origin("x"))


def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DeploymentError, match="x: cannot be read: Too many levels of symbolic links"):
        read_yaml(tmp_path / "loop", Origin("x"))
    with pytest.raises(DeploymentError, match="x: cannot be read"):
        read_yaml(Path("nul\0byte"), Origin("x"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    with pytest.raises(DeploymentError, match="cannot be read: Permission denied"):
        read_yaml(path, Origin("x"))


def test_plain_data_survives_becoming_a_tree() -> None:
    data = {"a": [1, {"b": None}], "c": "x", "d": {}}
    node = make_node(data, Origin("built in"))
    assert plain(node) == data
    assert nearest(node, ("a", 1, "b")).place == "built in"


_yaml_like = st.lists(
    st.sampled_from(["a", "b: ", "- ", "\n", "  ", "\t", "*", "&x ", "!", "'", '"', "[", "]", "{", "}", ",", "|", ">",
                     "%", "#", "? ", ": ", "---\n", "...\n", "0", "\\", "\r", "\x85", "\u2028", "\ufeff", "é", "\0"]),
    max_size=40,
).map("".join)  # fmt: skip


@given(
    st.binary(max_size=200) | _yaml_like.map(str.encode) | st.text().map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_give_a_tree_or_the_one_typed_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    result: Any
    try:
        result = read_yaml(path, Origin("any.yaml", path))
    except DeploymentError as error:
        result = str(error)
    assert isinstance(result, Node) or result.startswith("the deployment cannot be used:\n  any.yaml")
