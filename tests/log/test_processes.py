"""Several processes and one log: a single writer, and readers that see what it wrote."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsh_time.errors import SessionLocked
from dsh_time.log import Log, SessionHeader

from .victims import draft
from .victims_program import Victims

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def programs() -> Iterator[list[Victims]]:
    """Three programs, whose processes can live at the same time."""
    started = [Victims() for _ in range(3)]
    yield started
    for program in started:
        program.close()


def test_of_several_writers_one_gets_the_log_and_when_it_dies_another_does(
    programs: list[Victims], tmp_path: Path
) -> None:
    """C4, R14."""
    Log.create(tmp_path / "s1", SessionHeader(id="s1", created_at=1, writer="w")).close()
    for _ in range(5):
        for program in programs:
            program.start("hold", tmp_path / "s1")
        answers = [program.line()[0] for program in programs]
        assert sorted(answers) == ["SessionLocked", "SessionLocked", "open"]
        holder = programs[answers.index("open")]
        with pytest.raises(SessionLocked) as caught:
            Log.open(tmp_path / "s1", lambda record: None)
        assert caught.value.pid == holder.pid
        holder.kill()
        for program in programs:
            if program is not holder:
                program.end()


def test_a_stopped_writer_keeps_its_log(programs: list[Victims], tmp_path: Path) -> None:
    """C4: a process that does nothing for long is no dead one."""
    program = programs[0]
    program.start("hold", tmp_path / "s1")
    assert program.line()[0] == "open"
    os.kill(program.pid, signal.SIGSTOP)
    with pytest.raises(SessionLocked):
        Log.open(tmp_path / "s1", lambda record: None)
    program.kill()
    Log.open(tmp_path / "s1", lambda record: None).close()


def test_readers_in_other_processes_see_the_same_events_while_they_are_written(
    programs: list[Victims], tmp_path: Path
) -> None:
    """R16."""
    with Log.create(tmp_path / "s1", SessionHeader(id="s1", created_at=1, writer="w")) as log:
        for program in programs:
            program.start("follow", tmp_path / "s1", 600)
            assert program.line() == ["following"]
        for number in range(0, 600, 2):
            log.append([draft(number, size=50), draft(number + 1, size=3000)])
            if number % 50 == 0:
                log.sync()
        streams = [program.end() for program in programs]
    assert [status for _, status in streams] == [0, 0, 0]
    expected = [
        [str(number), bytes(draft(number, size=3000 if number % 2 else 50).data).decode()] for number in range(600)
    ]
    assert all(said == expected for said, _ in streams)
