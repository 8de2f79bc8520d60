"""Lines whose seal is sound and whose data is not what this program writes (R22): refused by name, never a crash."""

from __future__ import annotations

import copy
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_time.doctor import examine
from dsh_time.errors import BadPayload, DshTimeError
from dsh_time.folds import Surface
from dsh_time.log import Draft, Log, Record, SessionHeader, scan
from dsh_time.session import Session

from .test_crash_points import BUSY_LIFE, SESSION, assert_accepted_messages, live

HEADER = SessionHeader(id=SESSION, created_at=1, writer="w")


def write(directory: Path, *events: tuple[str, bytes]) -> None:
    with Log.create(directory, HEADER) as log:
        log.append([Draft(1, kind, data) for kind, data in events])


@pytest.mark.parametrize(
    ("kind", "role", "content"),
    [
        ("tool/result", "tool", []),
        ("tool/result", "tool", [{"type": "text", "text": "x"}]),
        ("tool/result", "tool", [{"type": "tool-result", "id": "c", "text": ""}] * 2),
        ("tool/result", "user", [{"type": "tool-result", "id": "c", "text": ""}]),
        ("assistant/message", "tool", [{"type": "text", "text": "x"}]),
        ("assistant/message", "assistant", [{"type": "tool-result", "id": "c", "text": ""}]),
        ("assistant/message", "assistant", [{"type": "tool-call", "id": "c", "name": "n", "arguments": ""}] * 2),
        ("user/message", "assistant", [{"type": "text", "text": "x"}]),
        ("steering/message", "user", [{"type": "tool-call", "id": "c", "name": "n", "arguments": ""}]),
    ],
)
def test_a_message_that_its_event_cannot_bring_is_refused_naming_type_and_seq(
    tmp_path: Path, kind: str, role: str, content: list[object]
) -> None:
    message: dict[str, object] = {"id": "m", "role": role, "content": content, "source": {}}
    data = message if kind in ("user/message", "steering/message") else {"turn": 1, "step": 1, "message": message}
    write(tmp_path / SESSION, (kind, msgspec.json.encode(data)))
    with pytest.raises(BadPayload, match=rf"event 0 \({kind}\).*dsh-time salvage {SESSION}"):
        Session.open(tmp_path / SESSION)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    """Type and data of all events of a session in which everything happened."""
    root = tmp_path_factory.mktemp("payloads")
    live(root, BUSY_LIFE)
    records: list[Record] = []
    scan(root / SESSION, records.append)
    return [(record.type, msgspec.json.decode(record.data)) for record in records]


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "type", "text"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def _disturb(data: Any, draw: st.DataObject) -> Any:
    """Change one place of a payload, at any depth."""
    if isinstance(data, dict) and data and draw.draw(st.integers(0, 4)):
        key = draw.draw(st.sampled_from(sorted(data)))
        if not draw.draw(st.integers(0, 5)):
            del data[key]
        else:
            data[key] = _disturb(data[key], draw)
        return data
    if isinstance(data, list) and data and draw.draw(st.integers(0, 4)):
        at = draw.draw(st.integers(0, len(data) - 1))
        data[at] = _disturb(data[at], draw)
        return data * draw.draw(st.integers(1, 2))
    return draw.draw(_values)


@settings(max_examples=150)
@given(data=st.data())
def test_no_payload_crashes_a_session_or_reaches_a_model_in_a_shape_it_refuses(
    events: list[tuple[str, Any]], data: st.DataObject
) -> None:
    disturbed = copy.deepcopy(events)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(disturbed) - 1))
        disturbed[at] = disturbed[at][0], _disturb(disturbed[at][1], data)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / SESSION
        write(directory, *((kind, msgspec.json.encode(payload)) for kind, payload in disturbed))
        examine(directory)
        with suppress(DshTimeError), Session.open(directory) as session:
            assert_accepted_messages(session.fold(Surface).messages)
