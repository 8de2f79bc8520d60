"""openai-agents with SQLiteSession, as its documentation shows it; its tracing, which calls home, is off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.testing.model import assistant_message, function_call
from agents.usage import Usage

import workload
from driver import Turn, main

set_tracing_disabled(True)


@function_tool
def search(query: str) -> str:
    """Search the survey."""
    return workload.found(len(query))


class InstantModel(Model):
    """Asks for the tool after a user's message and answers in text after a tool's."""

    turn = 0

    async def get_response(self, *rest: Any, input: Any, **more: Any) -> ModelResponse:  # noqa: A002 the base's name
        if input[-1].get("type") == "function_call_output":
            item = assistant_message(workload.answer(self.turn))
        else:
            self.turn += 1
            arguments = json.dumps({"query": workload.query(self.turn)})
            item = function_call("search", arguments, call_id=f"call_{self.turn}")
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *rest: Any, **more: Any) -> Any:
        raise NotImplementedError


class Contender:
    """One session in a database file."""

    async def seed(self, root: Path, messages: int) -> None:
        sample = SQLiteSession("sample", ":memory:")
        await Runner.run(Agent("bench", tools=[search], model=InstantModel()), workload.question(0), session=sample)
        items = await sample.get_items()
        session = SQLiteSession("bench", root / "session.db")
        for _ in range(messages // workload.MESSAGES_PER_TURN):
            await session.add_items(items)
        session.close()

    async def open(self, root: Path) -> Turn:
        self.session = SQLiteSession("bench", root / "session.db")
        agent = Agent("bench", tools=[search], model=InstantModel())

        async def turn(number: int) -> None:
            await Runner.run(agent, workload.question(number), session=self.session)

        return turn

    async def close(self) -> None:
        self.session.close()


if __name__ == "__main__":
    main(Contender())
