"""Three generations in three processes on one home, killed at any moment: each change is told exactly once.

`DSH_TIME_KILLS` says how much the loops kill; 100 when it is not set.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import START_MS
from tests.log.victims_program import Victims

from .oracle import check, read_all

pytestmark = pytest.mark.process

KILLS = int(os.environ.get("DSH_TIME_KILLS", "100"))
ROUNDS = max(KILLS // 10, 1)
#: Of the touches of a file at which a process can die, each so many-th is tried: every one from 2000 kills on.
STRIDE = max(2_000 // KILLS, 1)
GENERATIONS = ("parent", "child", "grandchild")
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def programs() -> Iterator[list[Victims]]:
    """Three programs, whose processes live at the same time."""
    started = [Victims(str(Path(__file__).with_name("family_program.py"))) for _ in range(3)]
    yield started
    for program in started:
        program.close()


def logs(home: Path) -> list[Path]:
    """Directories of sessions."""
    return sorted(path.parent for path in home.glob("*/log.jsonl"))


def told(home: Path, *, at_rest: bool) -> int:
    return check(read_all(logs(home)), at_rest=at_rest)


def settled(program: Victims, home: Path, now: int) -> int:
    """How much was told when everybody has heard everything."""
    program.start("settle", home, now)
    assert program.end() == ([], 0)
    return told(home, at_rest=True)


def test_three_generations_in_three_processes_that_are_killed(programs: list[Victims], tmp_path: Path) -> None:
    """Parent, child and grandchild each run and are killed, again and again, with days between; more are born."""
    chance, now = random.Random(3), START_MS
    programs[0].start("found", tmp_path, now, 0, "")
    assert programs[0].end() == ([], 0)
    kills = 0
    for number in range(ROUNDS):
        now += chance.choice([1_000, 3_600_000, chance.randrange(1, 60) * DAY_MS])
        everybody = [path.name for path in logs(tmp_path)]
        running = GENERATIONS if chance.randrange(4) else chance.sample(everybody, 3)
        endless = []
        for program, session in zip(programs, running, strict=True):
            ends = chance.randrange(2)
            how = (3, chance.randrange(1, 300), chance.choice(["before", "after", "half"])) if ends else (0, 0, "")
            program.start("member", tmp_path, session, now, chance.randrange(2**30), *how)
            if not ends:
                endless.append(program)
        for program in programs:
            if program in endless and program.line() == ["open"]:
                for _ in range(chance.randrange(4)):
                    assert program.line() == ["turn"]
                for _ in range(chance.randrange(40_000)):
                    pass
                program.kill()
                kills += 1
            else:
                kills += program.end()[1] < 0
        if number % 10 == 0:
            told(tmp_path, at_rest=False)
    assert settled(programs[0], tmp_path, now + DAY_MS) > ROUNDS
    assert kills > ROUNDS


@pytest.mark.parametrize(("when", "first"), [("before", 1), ("after", 1 + STRIDE // 3), ("half", 1 + STRIDE * 2 // 3)])
def test_a_process_that_dies_at_any_touch_of_a_file(
    programs: list[Victims], tmp_path: Path, when: str, first: int
) -> None:
    """A child hears of both sides and changes counters; wherever that is cut short, nothing is lost or told twice."""
    home = tmp_path / "home"
    programs[0].start("found", home, START_MS, 0, "")
    assert programs[0].end() == ([], 0)
    for number, session in enumerate(GENERATIONS):
        programs[0].start("member", home, session, START_MS + DAY_MS, number, 2, 0, "")
        assert programs[0].end()[1] == 0
    for nth in range(first, 10_000, STRIDE):
        copy = tmp_path / str(nth)
        shutil.copytree(home, copy)
        programs[0].start("member", copy, "child", START_MS + 2 * DAY_MS, 5, 2, nth, when)
        _, status = programs[0].end()
        told(copy, at_rest=False)
        assert settled(programs[0], copy, START_MS + 3 * DAY_MS) > 3
        shutil.rmtree(copy)
        if status == 0:
            break
    assert status == 0
    assert nth > 40


@pytest.mark.parametrize(("when", "first"), [("before", 1), ("after", 1 + STRIDE // 3), ("half", 1 + STRIDE * 2 // 3)])
def test_a_family_whose_founding_is_killed_at_any_touch_of_a_file(
    programs: list[Victims], tmp_path: Path, when: str, first: int
) -> None:
    """However far parent, child and grandchild came, those that are there know each what it missed."""
    for nth in range(first, 10_000, STRIDE):
        home = tmp_path / str(nth)
        programs[0].start("found", home, START_MS, nth, when)
        _, status = programs[0].end()
        settled(programs[0], home, START_MS + DAY_MS)
        if status == 0:
            break
    assert status == 0
    assert nth > 100
    assert settled(programs[0], home, START_MS + 2 * DAY_MS) > 3
