"""What a log says of the past: any step's request, and where a copy of the session may end. Reading never writes."""

from __future__ import annotations

from pathlib import Path

from attrs import define, field

from dsh_hookspecs import AssistantMessage, ModelRequest, StepEnd, TurnEnd, TurnEndReason

from .errors import DamagedLog, NoSuchRequest
from .fold_set import FoldSet, decode_event
from .folds import HeaderState, Surface, Turns
from .log import FILES, FileIo, Record, Verdict, scan


def rebuild_request(directory: Path, turn: int, step: int) -> ModelRequest:
    """Return the request that the model was given in a step, byte for byte (see `ModelRequest.encode`).

    Raises NoSuchRequest when there was none, and LogError when the log cannot be read.
    """
    past = _Past(directory, turn, step)
    verdict = scan(directory, on_record=past.take)
    if past.waiting and verdict.state == "damaged":
        raise _damage(verdict)
    if past.waiting and past.in_step:
        past.found = past.request()  # the log ends while the model is being asked
    if past.found is None:
        raise NoSuchRequest(directory.name, turn, step, past.newest, past.rejected_by)
    return past.found


def newest_turn(directory: Path) -> int:
    """Return the number of the newest turn, 0 when there is none.

    Raises LogError, also when the log is damaged anywhere: a newer turn may stand behind the damage.
    """
    states = FoldSet(directory, host_folds=(Turns,))
    verdict = scan(directory, on_record=states.apply_record)
    if verdict.state == "damaged":
        raise _damage(verdict)
    return states.state(Turns).turn


def last_settled_seq(directory: Path, *, io: FileIo = FILES) -> int:
    """Return the newest seq of a log that no open turn holds, -1 when there is none. Raises LogError."""
    states = FoldSet(directory)
    last = -1

    def on_record(record: Record) -> None:
        nonlocal last
        last = record.seq
        states.apply_record(record)

    verdict = scan(directory, on_record=on_record, io=io)
    if verdict.state == "damaged":
        raise _damage(verdict)
    turns = states.state(Turns)
    return turns.started_at - 1 if turns.open else last


def _damage(verdict: Verdict) -> DamagedLog:
    return DamagedLog(verdict.path, verdict.end.offset, verdict.end.line, verdict.reason)


@define
class _Past:
    """Folds a log until the request of one step is complete: just before its answer, or its end, was logged."""

    directory: Path
    turn: int
    step: int
    found: ModelRequest | None = None
    waiting: bool = True
    answered: bool = False
    rejected_by: str = ""
    _states: FoldSet = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._states = FoldSet(self.directory)

    @property
    def newest(self) -> tuple[int, int]:
        """Turn and step of the newest step seen."""
        turns = self._states.state(Turns)
        return turns.turn, turns.step

    @property
    def in_step(self) -> bool:
        """Whether the step in question is open."""
        return self.newest == (self.turn, self.step) and self._states.state(Turns).step_open

    def request(self) -> ModelRequest | None:
        """The request as it would be sent now; None when the log broke off before there was a header."""
        header = self._states.state(HeaderState).header
        return None if header is None else ModelRequest(header, self._states.state(Surface).messages)

    def take(self, record: Record) -> None:
        """Look at the next line of the log."""
        if self.waiting:
            if self.in_step and record.type in (AssistantMessage.type, StepEnd.type):
                self.found, self.waiting = self.request(), False
                self.answered = record.type == AssistantMessage.type
            else:
                self._states.apply_record(record)
        elif self.found is not None and not self.answered and record.type == TurnEnd.type:
            event = decode_event(record, self.directory)
            match event.data if event is not None else None:
                case TurnEnd(turn=self.turn, reason=TurnEndReason(kind="rejected", plugin=plugin)):
                    self.found, self.rejected_by = None, plugin
