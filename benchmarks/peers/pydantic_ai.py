"""pydantic-ai with its history in a JSON file, which its documentation names as the way to keep one."""

from __future__ import annotations

from pathlib import Path

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import workload
from driver import Turn, main


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for the tool after a user's message and answer in text after a tool's."""
    if isinstance(messages[-1].parts[-1], ToolReturnPart):
        return ModelResponse(parts=[TextPart(workload.answer(len(messages)))])
    return ModelResponse(parts=[ToolCallPart("search", {"query": workload.query(len(messages))})])


def make_agent() -> Agent:
    """Return the agent with its one tool."""
    agent = Agent(FunctionModel(respond))

    @agent.tool_plain
    def search(query: str) -> str:
        """Search the survey."""
        return workload.found(len(query))

    return agent


class Contender:
    """One history file, read at the start and rewritten after each turn."""

    async def seed(self, root: Path, messages: int) -> None:
        result = await make_agent().run(workload.question(0))
        copies = result.all_messages() * (messages // workload.MESSAGES_PER_TURN)
        (root / "history.json").write_bytes(ModelMessagesTypeAdapter.dump_json(copies))

    async def open(self, root: Path) -> Turn:
        agent, file = make_agent(), root / "history.json"
        history = ModelMessagesTypeAdapter.validate_json(file.read_bytes())

        async def turn(number: int) -> None:
            nonlocal history
            result = await agent.run(workload.question(number), message_history=history)
            history = result.all_messages()
            file.write_bytes(result.all_messages_json())

        return turn

    async def close(self) -> None:
        pass


if __name__ == "__main__":
    main(Contender())
