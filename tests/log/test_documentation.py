"""The page about the log tells the truth."""

import re
from pathlib import Path

from dsh_hookspecs import _events
from dsh_time.log import Record, scan

PAGE = (Path(__file__).parents[2] / "docs" / "log-format.md").read_text("utf-8")


def test_the_example_on_the_page_is_a_valid_log(tmp_path: Path) -> None:
    match = re.search(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    (tmp_path / "c1").mkdir()
    (tmp_path / "c1" / "log.jsonl").write_bytes(match[1].encode())
    records: list[Record] = []
    verdict = scan(tmp_path / "c1", records.append)
    assert (verdict.state, len(records), verdict.end.b) == ("ok", 3, 1)


def test_the_page_lists_every_event_type() -> None:
    types = {kind.type for kind in vars(_events).values() if isinstance(getattr(kind, "type", None), str)}
    section = PAGE.partition("## Event types")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`([a-z]+/[a-z/-]+)`", section))
    assert types == listed


def test_the_page_states_every_promise() -> None:
    assert re.findall(r"^- \*\*C(\d+)\.", PAGE, re.MULTILINE) == [str(number) for number in range(1, 11)]
