"""Any history of a session, step by step against a list: what is written, lost, copied and folded."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import ClassVar, Self

import pytest
from attrs import frozen
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dsh_hookspecs import (
    Event,
    InboxEntry,
    InboxSpliced,
    Payload,
    SteeringMessage,
    StepEnd,
    StepStart,
    SurfaceReplace,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from dsh_time.errors import WriteFailed
from dsh_time.fold_set import FoldSet, decode_event
from dsh_time.folds import HOST_FOLDS, Surface
from dsh_time.loadout import Loadout, Plugin
from dsh_time.log import Record, SessionHeader, fork, scan
from dsh_time.session import Session

from .events import assistant, call, result, user
from .log.memory_disk import MemoryDisk
from .test_crash_points import assert_accepted_messages
from .test_folds import entry

ROOT = Path("/home")


@frozen
class Count:
    """A plugin's fold: how many prompts there were."""

    reads: ClassVar[tuple[type[Payload], ...]] = (UserMessage,)
    prompts: int = 0

    def apply(self, event: Event) -> Self:
        return type(self)(self.prompts + 1)


@frozen
class Last:
    """Another: the newest turn."""

    reads: ClassVar[tuple[type[Payload], ...]] = (TurnStart, TurnEnd)
    turn: int = 0

    def apply(self, event: Event) -> Self:
        assert isinstance(event.data, TurnStart | TurnEnd)
        return type(self)(event.data.turn)


LOADOUTS = [
    Loadout(),
    Loadout((Plugin("count", "count", "1", "count", object(), folds=(Count,)),)),
    Loadout((Plugin("last", "last", "1", "last", object(), folds=(Last, Count)),)),
]

_calls = st.sampled_from([f"c{n}" for n in range(40)])


def _splice(target: str, start: int, removed: int, inserted: list[InboxEntry]) -> InboxSpliced:
    assert target in ("next-turn", "next-step")
    return InboxSpliced(target, start, removed, tuple(inserted))  # type: ignore[arg-type]  # just checked


_entries = st.lists(st.builds(entry, st.text(max_size=3), st.sampled_from(["followup", "steer", "inject"])), max_size=2)
_payloads: st.SearchStrategy[Payload] = st.one_of(
    st.text(max_size=5).map(user),
    st.text(max_size=5).map(lambda text: user(text, cls=SteeringMessage)),
    st.text(max_size=5).map(assistant),
    st.builds(result, _calls, st.text(max_size=3)),
    st.builds(result, _calls, code=st.just("TOOL_OUTCOME_UNKNOWN")),
    st.builds(call, _calls),
    st.builds(TurnStart, st.integers(1, 9)),
    st.builds(StepStart, st.integers(1, 9), st.integers(1, 3)),
    st.builds(StepEnd, st.integers(1, 9), st.integers(1, 3)),
    st.builds(TurnEnd, st.integers(1, 9), st.just(TurnEndReason(kind="completed"))),
    st.builds(_splice, st.sampled_from(["next-turn", "next-step"]), st.integers(0, 2), st.integers(0, 2), _entries),
)


class History(RuleBasedStateMachine):
    """The model: a list of what was appended, and how much of it is synced."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk({ROOT: None})
        self.number = 1
        self.logged: list[tuple[Payload, SurfaceReplace | None]] = []
        self.synced = 0
        self.loadout = LOADOUTS[0]
        self.asked = 0
        self.session: Session | None = None

    @property
    def directory(self) -> Path:
        return ROOT / f"s{self.number}"

    def header(self) -> SessionHeader:
        return SessionHeader(id=self.directory.name, created_at=1, writer="w")

    @property
    def live(self) -> Session:
        assert self.session is not None
        return self.session

    @initialize()
    def create(self) -> None:
        self.session = Session.create(self.directory, self.header(), self.loadout, io=self.disk)

    # -- what may happen

    @rule(
        payloads=st.lists(_payloads, min_size=1, max_size=4),
        span=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    )
    def append(self, payloads: list[Payload], span: tuple[int, int] | None) -> None:
        replaces = None if span is None else SurfaceReplace(min(span), max(span))
        if replaces is not None:
            payloads = [user("summary")]
        self.live.append(payloads, len(self.logged), replaces=replaces)
        self.logged += [(payload, replaces) for payload in payloads]

    @rule(count=st.integers(1, 3))
    def ask(self, count: int) -> None:
        """Calls with ids that were not used before."""
        ids = [f"c{self.asked + n}" for n in range(count)]
        self.asked += count
        self._append([assistant("", *ids)])

    def _append(self, payloads: list[Payload]) -> None:
        self.live.append(payloads, len(self.logged))
        self.logged += [(payload, None) for payload in payloads]

    def _append_for_ever(self, payloads: list[Payload]) -> None:
        while True:
            self._append(payloads)

    @rule()
    def sync(self) -> None:
        self.live.sync()
        self.synced = len(self.logged)

    @rule(room=st.integers(0, 500), payloads=st.lists(_payloads, min_size=4, max_size=6))
    def fill_the_disk(self, room: int, payloads: list[Payload]) -> None:
        self.disk.room = room
        with pytest.raises(WriteFailed):
            self._append_for_ever(payloads)
        self.disk.room = None
        self.synced = len(self.logged)

    @rule()
    def reopen(self) -> None:
        self.live.close()
        self._open()

    @rule(torn=st.binary(max_size=40))
    def die(self, torn: bytes) -> None:
        """The process is killed in the middle of a write that nobody was told about."""
        tree = self.disk.tree()
        path = self.directory / "log.jsonl"
        tree[path] = (tree[path] or b"") + torn.replace(b"\n", b"")
        self._restart(MemoryDisk(tree))
        assert self.live.next_seq == len(self.logged)

    @rule(state=st.integers(0, 400))
    def lose_power(self, state: int) -> None:
        states = list(islice(self.disk.after_power_loss(), state + 1))
        self._restart(MemoryDisk(states[-1]))
        assert self.synced <= self.live.next_seq <= len(self.logged)
        del self.logged[self.live.next_seq :]

    @rule(share=st.floats(0, 1))
    def go_on_in_a_fork(self, share: float) -> None:
        keep = int(len(self.logged) * share)
        source = self.directory
        self.live.close()
        self.number += 1
        fork(source, self.directory, self.header(), keep - 1, io=self.disk)
        del self.logged[keep:]
        self._open()

    @rule(which=st.integers(0, len(LOADOUTS) - 1))
    def swap(self, which: int) -> None:
        self.loadout = LOADOUTS[which]
        used, errors = self.live.use(self.loadout)
        assert used is self.loadout
        assert errors == []

    def _restart(self, disk: MemoryDisk) -> None:
        self.live.close()
        self.disk = disk
        self._open()

    def _open(self) -> None:
        self.session = Session.open(self.directory, self.loadout, io=self.disk)
        self.synced = self.live.next_seq  # opening syncs

    # -- what must hold

    @invariant()
    def the_log_is_the_list(self) -> None:
        if self.session is None:
            return
        replayed = FoldSet(self.directory, self.loadout.folds)
        events: list[tuple[Payload, SurfaceReplace | None]] = []

        def on_record(record: Record) -> None:
            event = decode_event(record, self.directory)
            assert event is not None
            events.append((event.data, event.replaces))
            replayed.apply(event)

        assert scan(self.directory, on_record, io=self.disk).state == "ok"
        assert events == self.logged
        for kind in (*HOST_FOLDS, *(kind for _, kind in self.loadout.folds)):
            assert self.live.fold(kind) == replayed.state(kind), kind
        assert_accepted_messages(self.live.fold(Surface).messages)

    def teardown(self) -> None:
        if self.session is not None:
            self.session.close()


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=60, stateful_step_count=25)
