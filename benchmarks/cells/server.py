"""What a server's prompt cache keeps: `python -m cells.server ROOT URL MODEL TURNS`. Needs the plugin dsh-openai.

Each variant starts with a text of its own, so that none finds the other's in the cache. Prints, for each request after
a session's first, the input tokens, how many of them the server had cached, and ms to the first output.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

import workload
from driver import emit
from dsh_hookspecs import AssistantMessage, Event, ModelDelta
from dsh_time.harness import Harness
from ours import Search, plugin_host

#: Plugin and its config.
VARIANTS = {
    "time-reminder, fine: the time at the end": ("dsh-time-reminder", "{defaultMode: fine}"),
    "time-context: the time in the system prompt": ("dsh-time-context", "{refreshIntervalMs: 0}"),
}


async def requests_of(root: Path, name: str, config: str, url: str, model: str, turns: int) -> list[dict[str, Any]]:
    """Run turns and return what the server reported of each request."""
    file = root / "deployment.yaml"
    provider = msgspec.json.encode({"provider": "openai", "baseUrl": url, "model": model, "maxOutputTokens": 40})
    plugin = f"{{id: bench, name: {name}, config: {config}}}"
    file.write_text(f"plugins:\n  - {plugin}\nmodel: {provider.decode()}\n", "utf-8")
    host = plugin_host({"search": Search}, ("dsh-openai", name), file)
    found: list[dict[str, Any]] = []

    def listen(event: Event | ModelDelta) -> None:
        if isinstance(event, Event) and isinstance(event.data, AssistantMessage):
            usage, timing = event.data.usage, event.data.timing
            if usage is None or timing is None:
                raise SystemExit("the server reports no usage")
            found.append(
                {"input": usage.input_tokens, "cached": usage.cached_tokens, "first_ms": timing.first_output_ms}
            )

    async with Harness(host.deployment, root=root, plugins=host) as harness:
        agent = harness.create()
        agent.subscribe(listen)
        for turn in range(turns):
            result = await agent.prompt(f"{name}: {workload.question(turn)} " * 3 + "Answer in one sentence.")
            if result.reason.kind not in ("completed", "max-tokens"):
                raise SystemExit(f"the server cannot be used: {result.reason.message or result.reason.kind}")
    return found[1:]


def main(root: Path, url: str, model: str, turns: int) -> None:
    """Measure all variants."""
    found: dict[str, object] = {}
    for name, (plugin, config) in VARIANTS.items():
        folder = root / plugin
        folder.mkdir()
        found[name] = asyncio.run(requests_of(folder, plugin, config, url, model, turns))
    emit(**found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
