"""What the bytes of a log are: `python -m cells.bytes ROOT` prints bytes per message of the last turn, part by part."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

import ours
import workload
from driver import emit

#: What the fields of a payload are, in the order in which they are taken out of it.
_FIELDS = {
    "message and call ids": ("id",),
    "who said it: role, source, owner": ("role", "source", "owner"),
    "turn and step of a message, call or result": ("turn", "step"),
    "stop reason and timing of an answer": ("stopReason", "timing"),
}
_TEXTS = ("text", "arguments")


def main(root: Path) -> None:
    """Read the last turn and print it."""
    lines = (root / ours.SESSION / "log.jsonl").read_bytes().splitlines(keepends=True)
    first = max(number for number, line in enumerate(lines) if b'"type":"turn/start"' in line)
    found: dict[str, int] = {}

    def count(part: str, size: int) -> None:
        found[part] = found.get(part, 0) + size

    for line in lines[first:]:
        event = msgspec.json.decode(line)
        kind, data = event["type"], event["data"]
        if kind.startswith(("turn/", "step/")):
            count("lines for the begin and end of turns and steps", len(line))
            continue
        count("envelope and seal: seq, time, type, b, crc", len(line) - _size(data))
        plain = _map(data, lambda key, value: "" if key in _TEXTS else value)
        texts = "a call's arguments again, in `tool/call`" if kind == "tool/call" else "what was said"
        count(texts, _size(data) - _size(plain))
        for part, names in _FIELDS.items():
            less = _map(plain, lambda key, value, names=names: None if key in names else value)
            count(part, _size(plain) - _size(less))
            plain = less
        count("names and brackets around all that", _size(plain))
    emit(**{part: size / workload.MESSAGES_PER_TURN for part, size in found.items()})


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))


def _map(value: Any, change: Any) -> Any:
    """Return the value with each field as `change(name, field)` gives it, left out where that is None."""
    if isinstance(value, list):
        return [_map(item, change) for item in value]
    if isinstance(value, dict):
        changed = {key: change(key, item) for key, item in value.items()}
        return {key: _map(item, change) for key, item in changed.items() if item is not None}
    return value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
