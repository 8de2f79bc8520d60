"""llm with its own log store (SQLite), each response logged as its command line logs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import llm
import sqlite_utils
from llm.logs import LogStore

import workload
from driver import Turn, main


def search(query: str) -> str:
    """Search the survey."""
    return workload.found(len(query))


class InstantModel(llm.Model):
    """Asks for the tool after a user's message and answers in text after a tool's."""

    model_id = "instant"
    supports_tools = True
    turn = 0

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        if prompt.tool_results:
            yield workload.answer(self.turn)
        else:
            self.turn += 1
            response.add_tool_call(llm.ToolCall(name="search", arguments={"query": workload.query(self.turn)}))


class Contender:
    """One conversation in a database file."""

    async def seed(self, root: Path, messages: int) -> None:
        await (await self.open(root))(0)
        store = LogStore(self.database)
        once = store.thread_messages("bench")
        with self.database.atomic():
            for _ in range(messages // workload.MESSAGES_PER_TURN - 1):
                store.append("bench", once)
        await self.close()

    async def open(self, root: Path) -> Turn:
        self.database = sqlite_utils.Database(root / "logs.db")
        store = LogStore(self.database)
        conversation = llm.Conversation(InstantModel(), id="bench", tools=[search])
        with suppress(KeyError):  # there is none yet
            conversation.loaded_messages = store.thread_messages("bench")

        async def turn(number: int) -> None:
            chain = conversation.chain(workload.question(number))
            chain.text()
            chain.log_to_db(self.database)

        return turn

    async def close(self) -> None:
        self.database.close()


if __name__ == "__main__":
    main(Contender())
