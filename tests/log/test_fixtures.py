"""Bytes of which each kind was read wrongly once, or would be if one line of the log were different."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from dsh_time.errors import DshTimeError
from dsh_time.log import Log, Record, scan

FOLDER = Path(__file__).parent / "fixtures"
INDEX: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "index.toml").read_text("utf-8"))


def test_every_fixture_is_described() -> None:
    assert sorted(INDEX) == sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("name", INDEX)
def test_these_bytes_are_what_they_are_known_to_be(name: str, tmp_path: Path) -> None:
    """Read, they give so many events and this state; opened for writing, they are refused, or cut and told."""
    known = INDEX[name]
    content = (FOLDER / f"{name}.jsonl").read_bytes()
    directory = tmp_path / "s1"
    directory.mkdir()
    (directory / "log.jsonl").write_bytes(content)
    records: list[Record] = []
    try:
        state = str(scan(directory, records.append).state)
    except DshTimeError:
        state = "refused"
    assert (state, len(records)) == (known["state"], known["events"]), known["what"]
    if state in ("refused", "damaged") or b"\r\n" in content:
        with pytest.raises(DshTimeError, match=known.get("says", "dsh-time salvage s1")):
            Log.open(directory, lambda record: None)
        assert (directory / "log.jsonl").read_bytes() == content
    else:
        with Log.open(directory, lambda record: None) as log:
            assert log.repaired is not None
            assert log.path.read_bytes() + log.repaired.saved.read_bytes() == content
            assert log.next_seq == known["events"]
