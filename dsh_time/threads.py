"""Threads that wait so that the event loop need not: for tools' bodies, and for the disk."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from attrs import define, field

from .errors import text_of

T = TypeVar("T")

#: Tells the event loop of a job's outcome; what a job returns.
_Tell = Callable[[], None]

#: Threads that are kept without work. More are started when more is to be done at once.
_KEPT: Final = 32


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a daemon thread that does nothing else meanwhile.

    There is always another one: work that hangs keeps neither other work nor the process's end waiting.
    """
    loop = asyncio.get_running_loop()
    if (outcomes := _here.outcomes) is None or outcomes.loop is not loop:
        outcomes = _here.outcomes = _Outcomes(loop)
    future: asyncio.Future[T] = loop.create_future()
    variables = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def job() -> _Tell:
        result: Any = None
        error: BaseException | None = None
        try:
            result = variables.run(work)
        except BaseException as raised:
            error = raised
        if isinstance(error, StopIteration) or not isinstance(error, Exception | None):
            # A future cannot carry the one, and would end the process with the others: only this thread is meant.
            error = RuntimeError(f"{type(error).__name__}: {text_of(error)}")
        return lambda: outcomes.tell(lambda: settle(result, error))

    _threads.put(job)
    return await future


@define
class _Outcomes:
    """What threads have to tell one event loop.

    Waking the loop is what costs. So the first outcome wakes it, and all that come until it looks go with that one.
    """

    loop: asyncio.AbstractEventLoop
    _untaken: deque[Callable[[], None]] = field(factory=deque, init=False)
    _woken: bool = field(default=False, init=False)

    def tell(self, settle: Callable[[], None]) -> None:
        """Let the loop call `settle` soon."""
        self._untaken.append(settle)
        if not self._woken:
            self._woken = True
            try:
                self.loop.call_soon_threadsafe(self._take)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self._woken = False
                self._untaken.clear()

    def _take(self) -> None:
        self._woken = False  # before looking: what comes from now on wakes the loop again
        while self._untaken:
            self._untaken.popleft()()


@define
class _Threads:
    """Threads that take jobs from one queue: one that is awake need not be woken for the next job."""

    _jobs: SimpleQueue[Callable[[], _Tell]] = field(factory=SimpleQueue, init=False)
    #: An entry for each thread that comes back to the queue and that no job there counts on. A list, since its
    #: `append` and `pop` need no lock.
    _free: list[None] = field(factory=list, init=False)

    def put(self, job: Callable[[], _Tell]) -> None:
        """Have a job done. It can count on one thread for itself, though another may be quicker to take it."""
        try:
            self._free.pop()
        except IndexError:
            threading.Thread(target=self._serve, daemon=True, name="dsh-time work").start()
        self._jobs.put(job)

    def _serve(self) -> None:
        """Do jobs. The thread is free before an outcome is told: who hears of it finds it free."""
        while True:
            tell = self._jobs.get()()
            if keeps := len(self._free) < _KEPT:
                self._free.append(None)
            tell()
            del tell  # nothing of finished work is kept alive by waiting
            if not keeps:
                return


class _Here(threading.local):
    """What a thread that runs an event loop remembers of it, until it runs another one."""

    outcomes: _Outcomes | None = None


_here: Final = _Here()
_threads = _Threads()


def _start_anew() -> None:
    """Forget the parent's threads: a forked child has none of them."""
    global _threads
    _threads = _Threads()


os.register_at_fork(after_in_child=_start_anew)
