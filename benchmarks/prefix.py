"""How much of a request a server's prompt cache can keep: the bytes that consecutive requests begin with alike.

    python benchmarks/prefix.py

A session of 30 steps (6 turns of a prompt and five requests, 40 s between them, a timer that is shown) in each mode of
time-reminder, with time-context, and with neither. The bytes are those of each provider's wire; the marks for the
prompt cache, which are no content, are taken out of Anthropic's. Two bytes of each request are its closing brackets.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from attrs import frozen

import ours
import workload
from dsh_hookspecs import ModelRequest
from dsh_time.harness import Harness
from dsh_time.models.scripted import Answer, ScriptedModel, call, say

STEPS_A_TURN = 5
TURNS = 6
SECONDS_BETWEEN = 40
_MARK = b',"cache_control":{"type":"ephemeral"}'
_START_MS = 1_784_017_800_000

#: The plugin that tells the time, and its config.
CASES: Mapping[str, tuple[str, Mapping[str, str]] | None] = {
    "neither": None,
    **{
        f"time-reminder, {mode}": ("dsh-time-reminder", {"defaultMode": mode})
        for mode in ("off", "cron", "turn", "fine")
    },
    "time-context": ("dsh-time-context", {}),
}


def openai_bytes() -> Callable[[ModelRequest], bytes]:
    """Return what turns requests into chat completions bodies."""
    from dsh_openai import OpenAISettings
    from dsh_openai._wire import Converter

    return Converter(OpenAISettings("m"), "api.openai.com").body


def anthropic_bytes() -> Callable[[ModelRequest], bytes]:
    """Return what turns requests into Messages API bodies, without cache marks."""
    from dsh_anthropic import AnthropicSettings
    from dsh_anthropic._wire import Converter

    convert = Converter(AnthropicSettings("m")).body
    return lambda request: convert(request)[0].replace(_MARK, b"")


WIRES = {"openai": openai_bytes, "anthropic": anthropic_bytes}


@frozen
class Measured:
    """One session on one wire. `shared[i]`: the bytes that request `i` and the next one begin with alike."""

    sizes: Sequence[int]
    shared: Sequence[int]

    @property
    def lost(self) -> list[int]:
        """Of each request but the last, the bytes that the next one does not begin with: read again, or never more."""
        return [size - shared for size, shared in zip(self.sizes, self.shared, strict=False)]


def common_prefix(one: bytes, other: bytes) -> int:
    """Return how many bytes two requests begin with alike."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low


async def requests(case: str) -> list[ModelRequest]:
    """Run the session of a case; return what the model was asked."""
    now = [_START_MS]

    def answer(request: ModelRequest) -> Answer:
        now[0] += SECONDS_BETWEEN * 1000
        step = len(model.requests)
        if step == 1 and any(tool.name == "time_counter" for tool in request.header.tools):
            return call("time_counter", action="start", name="deploy", inject=True)
        if step % STEPS_A_TURN:
            return call("search", query=workload.query(step))
        return say(workload.answer(step))

    model = ScriptedModel(then=answer)
    chosen = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        entries = [] if chosen is None else [{"name": chosen[0], "config": chosen[1]}]
        file.write_text(json.dumps({"plugins": entries}), encoding="utf-8")
        host = ours.plugin_host({"search": ours.Search}, [] if chosen is None else [chosen[0]], file)
        root = Path(folder) / "sessions"
        harness = Harness(
            host.deployment, root=root, plugins=host, model=model, now_ms=lambda: now[0], io=ours.NoSync()
        )
        async with harness:
            agent = harness.create("s")
            for turn in range(TURNS):
                await agent.prompt(workload.question(turn))
    return [recorded.request for recorded in model.requests]


def measure(asked: Sequence[ModelRequest], convert: Callable[[ModelRequest], bytes]) -> Measured:
    """Return the sizes of the requests and of their common beginnings."""
    bodies = [convert(request) for request in asked]
    return Measured([len(body) for body in bodies], [common_prefix(*pair) for pair in pairwise(bodies)])


async def main() -> None:
    """Print the table."""
    print("| time | wire | last request | beginning kept, mean | least kept | bytes lost, mean | most lost |")
    print("|---|---|---|---|---|---|---|")
    for name in CASES:
        asked = await requests(name)
        assert len(asked) == STEPS_A_TURN * TURNS
        for wire, converter in WIRES.items():
            measured = measure(asked, converter())
            kept = [shared / size for shared, size in zip(measured.shared, measured.sizes, strict=False)]
            lost = measured.lost
            print(
                f"| {name} | {wire} | {measured.sizes[-1]:,} B | {sum(kept) / len(kept):.1%} | {min(kept):.1%} |"
                f" {sum(lost) / len(lost):,.0f} | {max(lost):,} |"
            )


if __name__ == "__main__":
    asyncio.run(main())
