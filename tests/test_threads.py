"""Threads for work that waits: kept and used again, never waited for, and holding on to nothing."""

import asyncio
import contextvars
import functools
import gc
import os
import threading
import weakref
from collections.abc import Callable

import pytest

from dsh_time.threads import in_thread


def thread() -> threading.Thread:
    assert threading.current_thread() is not threading.main_thread()
    return threading.current_thread()


async def test_threads_that_have_ended_their_work_do_the_next() -> None:
    await in_thread(thread)
    started = set(threading.enumerate())
    assert {await in_thread(thread) for _ in range(20)} <= started


async def test_every_outcome_comes_back_however_many_come_at_once() -> None:
    def work(number: int) -> int:
        return number

    for _ in range(20):
        works = [in_thread(functools.partial(work, number)) for number in range(100)]
        assert await asyncio.gather(*works) == list(range(100))


async def test_work_that_hangs_keeps_back_no_outcome_of_work_before_it() -> None:
    release = threading.Event()
    before = [asyncio.ensure_future(in_thread(thread)) for _ in range(10)]
    hanging = asyncio.ensure_future(in_thread(release.wait))
    await asyncio.gather(*before)
    assert not hanging.done()
    release.set()
    assert await hanging


def test_loops_in_several_threads_each_hear_of_their_own_work() -> None:
    async def sums(base: int) -> int:
        return sum(await asyncio.gather(*(in_thread(functools.partial(int, base)) for _ in range(100))))

    async def several() -> list[int]:
        return await asyncio.gather(*(in_thread(functools.partial(asyncio.run, sums(base))) for base in range(4)))

    assert asyncio.run(several()) == [0, 100, 200, 300]


async def test_work_that_hangs_holds_up_no_other_work() -> None:
    release = threading.Event()
    hanging = [asyncio.ensure_future(in_thread(release.wait)) for _ in range(100)]
    await asyncio.sleep(0)
    assert (await in_thread(thread)).daemon
    release.set()
    assert await asyncio.gather(*hanging) == [True] * 100


async def test_errors_come_to_who_waits() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_thread(fails)


@pytest.mark.parametrize("error", [StopIteration("over"), SystemExit("out"), KeyboardInterrupt("stop")])
async def test_what_would_end_more_than_the_thread_becomes_an_ordinary_error(error: BaseException) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(RuntimeError, match=f"{type(error).__name__}: {error}"):
        await in_thread(fails)


async def test_work_sees_the_context_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    assert await in_thread(variable.get) == "set"


async def test_an_idle_thread_holds_on_to_nothing_of_its_last_work() -> None:
    class Result:
        pass

    def work() -> Result:
        return Result()

    gone = [threading.Event(), threading.Event()]
    weakref.finalize(await in_thread(work), gone[0].set)
    weakref.finalize(work, gone[1].set)
    del work
    await in_thread(thread)  # the same thread, or at least some time later
    assert all(event.wait(5) for event in gone)


async def test_a_cancelled_wait_leaves_the_work_going_on() -> None:
    started, release, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait()
        done.set()

    waiting = asyncio.ensure_future(in_thread(work))
    await asyncio.sleep(0)
    assert started.wait(5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert done.wait(5)


def test_a_loop_that_has_ended_is_told_nothing() -> None:
    release, done = threading.Event(), threading.Event()

    def work() -> None:
        release.wait()
        done.set()

    async def leave() -> None:
        _ = asyncio.ensure_future(in_thread(work))  # noqa: RUF006 the loop ends first
        await asyncio.sleep(0)

    asyncio.run(leave())
    release.set()
    assert done.wait(5)


def late_outcome(loop: asyncio.AbstractEventLoop) -> None:
    """Work ends after its loop does."""
    release, done = threading.Event(), threading.Event()

    async def leave() -> None:
        waiting = asyncio.ensure_future(in_thread(functools.partial(release.wait)))
        await asyncio.sleep(0)
        waiting.cancel()

    loop.run_until_complete(leave())
    loop.close()
    release.set()
    asyncio.run(in_thread(done.set))


def untaken_outcome(loop: asyncio.AbstractEventLoop) -> None:
    """Work ends while its loop runs, but the loop looks at nothing more."""
    done = threading.Event()

    async def leave() -> None:
        waiting = asyncio.ensure_future(in_thread(done.set))
        await asyncio.sleep(0)
        done.wait()
        waiting.cancel()

    loop.run_until_complete(leave())
    loop.close()


@pytest.mark.parametrize("leave", [late_outcome, untaken_outcome])
def test_a_loop_that_has_ended_is_not_kept_alive(leave: Callable[[asyncio.AbstractEventLoop], None]) -> None:
    gone = []
    for _ in range(3):
        loop = asyncio.new_event_loop()
        gone.append(threading.Event())
        weakref.finalize(loop, gone[-1].set)
        leave(loop)
        del loop
    asyncio.run(in_thread(thread))
    gc.collect()
    assert all(event.wait(5) for event in gone)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own() -> None:
    asyncio.run(in_thread(thread))
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(asyncio.wait_for(in_thread(lambda: 7), 5)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
