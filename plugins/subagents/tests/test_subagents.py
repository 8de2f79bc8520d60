"""The tool `subagent` in a real loop."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_hookspecs import ModelRequest, ToolCall, ToolResult
from dsh_subagents import Subagents
from dsh_time.deployment import load_deployment
from dsh_time.errors import PluginLoadError
from dsh_time.harness import Harness
from dsh_time.models.scripted import Answer, ScriptedModel, call, fail, pause, say
from dsh_time.plugin_host import PluginHost


def harness(root: Path, model: ScriptedModel, **config: Any) -> Harness:
    patch = root / "patch.yaml"
    patch.write_text(f"- insert:\n  - name: dsh-subagents\n    config: {config}\n")
    deployment = load_deployment(
        patches=[patch], disable=["time-reminder"], installed=["dsh-subagents", "dsh-time-reminder"]
    )
    numbers = iter(range(1, 100))
    return Harness(
        deployment,
        root=root / "sessions",
        plugins=PluginHost(deployment),
        model=model,
        now_ms=lambda: 1_784_017_800_000,
        new_id=lambda: f"c{next(numbers)}",
    )


def by_depth(*answers: Callable[[ModelRequest], Answer]) -> Callable[[ModelRequest], Answer]:
    """Answer a tool's results with their text, and a prompt by how deep it says it is."""

    def answer(request: ModelRequest) -> Answer:
        last = request.messages[-1]
        if last.role == "tool":
            results = [message.text for message in request.messages if message.role == "tool"]
            return say(" | ".join(results))
        return answers[last.text.count(">")](request)

    return answer


def results(root: Path, session: str) -> list[ToolResult]:
    from dsh_time.fold_set import decode_event
    from dsh_time.log import Record, scan

    found: list[ToolResult] = []

    def on_record(record: Record) -> None:
        event = decode_event(record, root)
        if event is not None and isinstance(event.data, ToolResult):
            found.append(event.data)

    scan(root / "sessions" / session, on_record)
    return found


async def test_a_child_does_the_task_in_its_own_session_and_its_answer_comes_back(tmp_path: Path) -> None:
    model = ScriptedModel(then=by_depth(lambda r: call("subagent", prompt=">dig"), lambda r: say("dug")))
    async with harness(tmp_path, model) as h:
        result = await h.create("top").prompt("dig")
    assert result.text == "dug\n\n[child session c1]"
    assert [message.text for message in model.requests[1].request.messages] == [">dig"]


async def test_several_children_run_side_by_side(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    class Meeting(ScriptedModel):
        async def stream(self, request: ModelRequest, /) -> Any:
            if [message.text for message in request.messages if message.role == "user"] in ([">a"], [">b"]):
                await both.wait()
            async for delta in super().stream(request):
                yield delta

    model = Meeting(
        then=by_depth(
            lambda r: call("subagent", prompt=">a") + call("subagent", prompt=">b"),
            lambda r: say(r.messages[-1].text.upper()),
        )
    )
    async with harness(tmp_path, model) as h:
        await h.create("top").prompt("both")
    assert [result.result.text[:2] for result in results(tmp_path, "top")] == [">A", ">B"]


async def test_children_can_go_only_so_deep(tmp_path: Path) -> None:
    deeper = [lambda r: call("subagent", prompt=">" + r.messages[-1].text)] * 3
    model = ScriptedModel(then=by_depth(*deeper, lambda r: say("bottom")))
    async with harness(tmp_path, model, maxDepth=2) as h:
        await h.create("top").prompt("go")
    (refused,) = results(tmp_path, "c2")
    assert refused.result.is_error
    assert refused.result.text == "No child agent can be made 2 levels down. Do the task here."
    assert sorted(path.name for path in (tmp_path / "sessions").iterdir()) == ["c1", "c2", "top"]


async def test_a_child_made_earlier_goes_on(tmp_path: Path) -> None:
    prompts = iter([call("subagent", prompt=">one"), call("subagent", prompt=">two", resume="c1")])
    model = ScriptedModel(then=by_depth(lambda r: next(prompts), lambda r: say(f"{len(r.messages)} messages")))
    async with harness(tmp_path, model) as h:
        top = h.create("top")
        await top.prompt("a")
        await top.prompt("b")
    assert [result.result.text.split("\n")[0] for result in results(tmp_path, "top")] == ["1 messages", "3 messages"]


async def test_a_child_that_does_not_finish_is_an_error_that_says_why(tmp_path: Path) -> None:
    model = ScriptedModel(
        then=by_depth(lambda r: call("subagent", prompt=">x"), lambda r: say("I tr") + fail(ValueError("lost")))
    )
    async with harness(tmp_path, model) as h:
        await h.create("top").prompt("go")
    (result,) = results(tmp_path, "top")
    assert result.result.is_error
    assert result.result.text.startswith(
        "The child agent did not finish: error (ValueError: lost). It had said: I tr\n\n[child session c1]"
    )


async def test_an_unknown_child_is_an_error_the_model_can_read(tmp_path: Path) -> None:
    model = ScriptedModel(then=by_depth(lambda r: call("subagent", prompt="x", resume="nobody")))
    async with harness(tmp_path, model) as h:
        await h.create("top").prompt("go")
    (result,) = results(tmp_path, "top")
    assert result.result.text == "There is no child session 'nobody' of this one."


async def test_cancelling_the_parent_ends_its_children_and_keeps_what_they_said(tmp_path: Path) -> None:
    reached = asyncio.Event()
    model = ScriptedModel(
        then=by_depth(
            lambda r: call("subagent", prompt=">x"),
            lambda r: say("half") + pause(asyncio.Event(), reached) + say("never"),
        )
    )
    async with harness(tmp_path, model) as h:
        top = h.create("top")
        waiting = asyncio.create_task(top.prompt("go"))
        await reached.wait()
        top.cancel()
        assert (await waiting).reason.kind == "aborted"
    (result,) = results(tmp_path, "top")
    assert "did not finish: aborted (parent). It had said: half" in result.result.text


async def test_no_child_starts_for_a_call_whose_turn_was_cancelled_meanwhile(tmp_path: Path) -> None:
    class Late(ScriptedModel):
        """Cancels the turn when the call is on its way, before the tool's body asks for a child."""

        def stream(self, request: ModelRequest, /) -> Any:
            top.subscribe(lambda event: top.cancel() if isinstance(getattr(event, "data", None), ToolCall) else None)
            return super().stream(request)

    model = Late(then=by_depth(lambda r: call("subagent", prompt=">x"), lambda r: say("never")))
    async with harness(tmp_path, model) as h:
        top = h.create("top")
        assert (await top.prompt("go")).reason.kind == "aborted"
    (result,) = results(tmp_path, "top")
    assert result.result.text == "The turn was cancelled; no child agent is started."
    assert [path.name for path in (tmp_path / "sessions").iterdir()] == ["top"]


@pytest.mark.parametrize("config", [{"maxDepth": 0}, {"maxDepth": 9}, {"timeoutS": 0}, {"depth": 1}])
def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises(PluginLoadError, match=next(iter(config))):
        harness(tmp_path, ScriptedModel(), **config)


def test_the_plugin_keeps_nothing() -> None:
    assert Subagents().register_tools()[0].parallel
