"""Families in real loops on one disk: whatever happens to them, each change is told exactly once.

`DSH_TIME_FAMILIES` says how many lives are led; 60 when it is not set.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from attrs import evolve
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsh_hookspecs import Message, Relative
from dsh_time import lineage
from dsh_time.errors import LogError
from dsh_time.folds import Turns
from dsh_time.log import Tail
from dsh_time.models.scripted import Answer, call
from dsh_time.plugin_host import PluginHost
from dsh_time_reminder import plugin, relatives
from dsh_time_reminder.fold import TimeState

from .world import CLOSED, MOST, World, counter, hosts, joined

#: How many lives are led.
EXAMPLES = int(os.environ.get("DSH_TIME_FAMILIES", "60"))
#: States of the disk that are tried after each loss of power: all unsynced changes are gone, then other ones.
STATES = 3

#: Bytes that get through before the disk is full: a part of a line, and one, two or three lines.
ROOMS = (100, 250, 400, 600)

NAMES = st.sampled_from("ab")
#: What comes first is what is told to most.
SCOPE = {"toParents": st.sampled_from([True, False]), "depth": st.sampled_from([3, 2, 1])}
START = st.fixed_dictionaries(
    {"action": st.just("start"), "name": NAMES, **SCOPE}, optional={"toChildren": st.booleans()}
)
#: Arguments of `time_counter`.
COUNTER = st.one_of(
    START,
    START,
    st.fixed_dictionaries({"action": st.sampled_from(["reset", "remove", "lapse"]), "name": NAMES}),
    st.fixed_dictionaries({"action": st.just("note"), "name": NAMES, "note": st.sampled_from(["n", ""])}),
    st.fixed_dictionaries({"action": st.just("scope"), "name": NAMES, "toChildren": st.booleans()}, optional=SCOPE),
)
#: What a step does: counters; a new child (None); a session that is asked to go on, if it is a child.
CALLS = st.lists(st.one_of(COUNTER, COUNTER, COUNTER, st.none(), st.integers(0, MOST)), min_size=1, max_size=3)
STEPS = st.lists(CALLS, min_size=1, max_size=3)
WHO, WHERE = st.integers(0, MOST), st.integers(0, 1)
TURN = st.tuples(st.just("turn"), WHO, WHERE, STEPS)
#: Whether the power fails: so many changes of the disk later, leaving this of the states it may leave.
POWER = st.none() | st.tuples(st.integers(0, 20), st.sampled_from([1, 0]) | st.integers(0, 40))
MOVES = st.lists(
    st.one_of(
        *[TURN] * 6,
        st.tuples(st.just("user"), WHO, WHERE, COUNTER),
        st.tuples(st.just("close"), WHO),
        st.tuples(st.just("fork"), WHO),
        st.tuples(st.just("stranger")),
        st.tuples(st.just("plugin"), WHERE, st.booleans()),
        st.tuples(st.just("gate"), st.booleans()),
        st.tuples(st.just("rest"), st.integers(1, 90)),
        *[st.tuples(st.just("meanwhile"), WHO, WHERE, STEPS, st.integers(1, 30), WHO, STEPS, POWER)] * 4,
    ),
    min_size=4,
    max_size=16,
)
BUILD = {"action": "start", "name": "a", "toParents": True, "depth": 3}
#: Three generations: the first turn's steps, its child's among them.
FAMILY = [[BUILD, None], [BUILD, None], [BUILD]]


def answers(world: World, steps: Sequence[Sequence[Any]]) -> list[Answer]:
    ids = world.ids()

    def played(wanted: Any) -> Answer:
        if isinstance(wanted, dict):
            return counter(**wanted)
        if wanted is None and len(ids) < MOST:
            return call("subagent", prompt="go")
        return call("subagent", prompt="go on", resume=ids[(wanted or 0) % len(ids)])

    return [joined(map(played, step)) for step in steps]


def each(*actions: Callable[[], object]) -> None:
    for action in actions:
        action()


async def live(world: World, moves: Sequence[Sequence[Any]]) -> int:
    world.processes[0].create()
    for move, *how in [("turn", 0, 0, FAMILY), *moves]:
        ids = world.ids()
        if move in ("turn", "user", "close", "fork", "meanwhile"):
            how[0] = ids[how[0] % len(ids)]
        match move:
            case "turn":
                await world.turn(how[0], *answers(world, how[2]), process=how[1])
            case "user":
                await world.call(how[0], counter(**how[2]), process=how[1])
            case "close":
                await world.close(how[0])
            case "fork" if len(ids) < MOST:
                world.processes[0].fork(how[0])
            case "stranger" if len(ids) < MOST:
                world.processes[0].create()
            case "plugin":
                (world.plugins[how[0]].enable if how[1] else world.plugins[how[0]].disable)("time-reminder")
            case "gate":
                CLOSED[:] = ["x"] * how[0]
            case "rest":
                world.clock.now += how[0] * 86_400_000
            case "meanwhile":
                who, process, steps, changes, other, others_steps, power = how
                process = world.place(who, process)
                act = partial(world.meanwhile, 1 - process, ids[other % len(ids)], *answers(world, others_steps))
                fails = partial(world.after, power[0], partial(world.power_fails, power[1])) if power else each
                world.after(changes, partial(each, act, fails))
                await world.turn(who, *answers(world, steps), process=process)
                world.forget()
                if power:
                    await world.power_is_back()
    return await world.settle()


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> list[PluginHost]:
    return hosts(tmp_path_factory.mktemp("hosts"))


@pytest.fixture(scope="module")
def waking(tmp_path_factory: pytest.TempPathFactory) -> list[PluginHost]:
    return hosts(tmp_path_factory.mktemp("hosts"), counterNotice="steer")


def prove(plugins: list[PluginHost], examples: int = 100, **how: Any) -> None:
    """Lead so many lives, each to its end, where everybody was told everything once."""

    @settings(max_examples=examples, report_multiple_bugs=False, **how)
    @given(MOVES)
    def holds(moves: Sequence[Sequence[Any]]) -> None:
        async def run() -> None:
            async with World(plugins) as world:
                await live(world, moves)

        asyncio.run(run())

    holds()


def test_every_change_is_told_exactly_once_to_each_that_may_see_it(plugins: list[PluginHost]) -> None:
    """Trees that grow at random, in two processes, with swaps, rejections, forks, strangers, and losses of power."""
    prove(plugins, EXAMPLES)


def test_it_is_so_too_where_news_wakes(waking: list[PluginHost]) -> None:
    """With counterNotice steer, turns that nobody prompted take part."""
    prove(waking, EXAMPLES // 3)


async def prove_power_loss(plugins: list[PluginHost], reader: str) -> None:
    """Let `reader` look at every moment of a turn of `s1`, and let the power fail right after."""
    async with World(plugins) as world:
        await live(world, [])
        tree, clock = world.disk.tree(), world.clock.now
    told = 0
    for changes, state in itertools.product(range(1, 1000), range(1, STATES + 1)):
        async with World(plugins, tree) as world:
            world.clock.now = clock
            fails = partial(world.after, 0, partial(world.power_fails, state))
            world.after(changes, partial(each, partial(world.meanwhile, 1, reader), fails))
            await world.turn("s1", counter(action="start", name="b", toParents=True))
            if finished := bool(world.due):
                break
            await world.power_is_back()
            await world.turn("s1", counter(action="remove", name="a"))
            told = max(told, await world.settle())
    assert finished
    assert changes > 10
    assert told


@pytest.mark.parametrize("reader", ["s0", "s2"])
def test_what_was_told_is_not_lost_with_the_power(plugins: list[PluginHost], reader: str) -> None:
    """A parent, or a child, in another process reads a change that was just written; then the power goes.

    What is told of is on the disk before that: else its number could be that of another change later.
    """
    asyncio.run(prove_power_loss(plugins, reader))


async def prove_full_disk(plugins: list[PluginHost]) -> None:
    """Let the disk be full, and the parent look at what got through, at every moment of two turns of `s1`."""
    async with World(plugins) as world:
        await live(world, [])
        tree, clock = world.disk.tree(), world.clock.now
    failed = 0
    for changes, room in itertools.product(range(1, 1000), ROOMS):
        async with World(plugins, tree) as world:
            world.clock.now = clock
            disk = world.disk
            agent = world.agent("s1")
            await world.turn("s1", counter(action="start", name="b", toParents=True))
            world.after(changes, partial(setattr, disk, "room", room))
            full, free = partial(setattr, disk, "room", 0), partial(setattr, disk, "room", None)
            world.after(changes + 1, partial(each, free, partial(world.meanwhile, 1, "s0"), full))
            with suppress(LogError):
                agent.followup("one")
                agent.followup("two")
            with suppress(LogError):
                await agent.idle()
            free()
            if finished := bool(world.due):
                break
            failed += agent.session.fold(Turns).open
            await agent.call_tool("time_counter", '{"action": "reset", "name": "b"}')
            await world.settle()
    assert finished
    assert failed


def test_what_was_taken_back_is_not_told_and_hides_nothing(plugins: list[PluginHost]) -> None:
    """Lines of a failed batch, which another process saw before they were taken back, count for nothing."""
    asyncio.run(prove_full_disk(plugins))


def tell_what_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lineage._relative
    monkeypatch.setattr(lineage, "_relative", lambda *given: evolve(real(*given), sync=lambda: None))


def forget_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimeState, "_was_told", lambda state, sender, up_to: state)


def hear_of_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lineage._relative
    monkeypatch.setattr(lineage, "_relative", lambda *given: evolve(real(*given), since=-1))


def keep_old_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tail, "changed", lambda tail: tail._found is None)


def keep_what_was_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tail, "_is_where_it_was", lambda tail, descriptor: True)


def know_the_newest_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told is remembered as all that was read, though it may be taken back."""
    real = relatives.relays

    def relays(near: Sequence[Relative], told: Mapping[str, int]) -> Iterator[Message]:
        newest = {relative.session.id: relative.last_seq for relative in near}
        for message in real(near, told):
            yield evolve(message, data={**message.data, "upTo": newest[str(message.data["senderSessionId"])]})

    monkeypatch.setattr(plugin, "relays", relays)


def lives(plugins: list[PluginHost]) -> None:
    prove(plugins, phases=[Phase.generate])


def power_loss(plugins: list[PluginHost]) -> None:
    asyncio.run(prove_power_loss(plugins, "s0"))


def full_disk(plugins: list[PluginHost]) -> None:
    asyncio.run(prove_full_disk(plugins))


@pytest.mark.parametrize(
    ("mutate", "proof"),
    [
        (forget_what_was_told, lives),
        (hear_of_what_was_before, lives),
        (keep_old_logs, lives),
        (tell_what_may_be_lost, power_loss),
        (keep_what_was_taken_back, full_disk),
        (know_the_newest_event, full_disk),
    ],
)
def test_the_proof_finds_what_tells_twice_or_never(
    plugins: list[PluginHost],
    mutate: Callable[[pytest.MonkeyPatch], None],
    proof: Callable[[list[PluginHost]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of these breaks the promise, and is noticed."""
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        proof(plugins)
