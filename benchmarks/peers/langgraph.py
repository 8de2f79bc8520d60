"""LangChain's agent on LangGraph with SqliteSaver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

import workload
from driver import Turn, main

CONFIG: Any = {"configurable": {"thread_id": "bench"}}


@tool
def search(query: str) -> str:
    """Search the survey."""
    return workload.found(len(query))


class InstantModel(BaseChatModel):
    """Asks for the tool after a user's message and answers in text after a tool's."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], *rest: Any, **more: Any) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            message = AIMessage(workload.answer(len(messages)))
        else:
            call = {"name": "search", "args": {"query": workload.query(len(messages))}, "id": f"c{len(messages)}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


class Contender:
    """One thread in a database file; a checkpoint is written after every superstep."""

    def _agent(self, root: Path) -> Any:
        self._saver = SqliteSaver.from_conn_string(str(root / "checkpoints.db"))
        return create_agent(InstantModel(), tools=[search], checkpointer=self._saver.__enter__())

    async def seed(self, root: Path, messages: int) -> None:
        agent = self._agent(root)
        result = agent.invoke({"messages": [HumanMessage(workload.question(0))]}, CONFIG)
        copies = [
            message.model_copy(update={"id": f"{message.id}-{turn}"})
            for turn in range(messages // workload.MESSAGES_PER_TURN - 1)
            for message in result["messages"]
        ]
        if copies:
            agent.update_state(CONFIG, {"messages": copies}, as_node="model")
        await self.close()

    async def open(self, root: Path) -> Turn:
        agent = self._agent(root)

        async def turn(number: int) -> None:
            agent.invoke({"messages": [HumanMessage(workload.question(number))]}, CONFIG)

        return turn

    async def close(self) -> None:
        self._saver.__exit__(None, None, None)


if __name__ == "__main__":
    main(Contender())
