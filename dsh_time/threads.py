"""Threads that wait so that the event loop need not: for tools' bodies, and for the disk."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from .errors import text_of

T = TypeVar("T")

#: Runs in a thread and returns what tells the event loop of the outcome.
_Job = Callable[[], Callable[[], None]]

#: Threads that are kept without work. More are started when more is to be done at once.
_KEPT: Final = 32

#: Where each thread without work waits for its next job.
_idle: Final[list[SimpleQueue[_Job]]] = []
os.register_at_fork(after_in_child=_idle.clear)


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a daemon thread that does nothing else meanwhile.

    There is always another one: work that hangs keeps neither other work nor the process's end waiting.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    variables = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def job() -> Callable[[], None]:
        result: Any = None
        error: BaseException | None = None
        try:
            result = variables.run(work)
        except BaseException as raised:
            error = raised
        if isinstance(error, StopIteration) or not isinstance(error, Exception | None):
            # A future cannot carry the one, and would end the process with the others: only this thread is meant.
            error = RuntimeError(f"{type(error).__name__}: {text_of(error)}")

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result, error)

        return tell

    try:
        _idle.pop().put(job)
    except IndexError:
        threading.Thread(target=_serve, args=(job,), daemon=True, name="dsh-time work").start()
    return await future


def _serve(job: _Job) -> None:
    """Do `job`, then what else comes. The thread is free before its outcome is told: who hears of it finds it idle."""
    jobs: SimpleQueue[_Job] = SimpleQueue()
    while True:
        tell = job()
        del job  # nothing of finished work is kept alive by waiting
        if keeps := len(_idle) < _KEPT:
            _idle.append(jobs)
        tell()
        del tell
        if not keeps:
            return
        job = jobs.get()
