"""The agent loop of one session: turns, steps, model requests, and the inbox.

A turn, as it is logged (S: everything before it is made durable here):

    turn/start, user/message
    per step: step/start, waiting steers and injects, plugins' messages, header if it changed, S,
              assistant/message, then per group of calls: tool/call*, S, tool/result*; step/end
    turn/end, S
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from attrs import field, frozen

from dsh_hookspecs import (
    AssistantMessage,
    Block,
    ChildAnswer,
    Header,
    InboxSpliced,
    Lineage,
    Model,
    ModelError,
    ModelRequest,
    Payload,
    PluginError,
    Prompt,
    SessionSpawned,
    Step,
    StepEnd,
    StepStart,
    ToolCallBlock,
    ToolError,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)
from dsh_hookspecs.timefmt import InstantOutOfRange, instant_at

from .answer import Answer
from .deployment import Limits
from .errors import AgentBusy, text_of
from .folds import Baseline, HeaderState, Inbox, Surface, Turns
from .loadout import Loadout, Rejection
from .log import clean_text
from .messages import Delivery, claimed, model_message, plugin_message, user_entry
from .recorder import AgentEvent, OpenTurns, Recorder
from .recovery import cancelled_inbox, closing_events
from .request import header_change
from .session import Session, View
from .tool_calls import ToolCalls

_logger: Final = logging.getLogger(__name__)

#: Characters of a model error's text that the log keeps: a server may have sent anything in it.
_ERROR_CHARACTERS: Final = 10_000


@frozen
class Runtime:
    """What an agent needs from its process."""

    loadout: Callable[[], Loadout]
    model: Model
    limits: Limits
    #: Epoch ms of the wall clock.
    now_ms: Callable[[], int]
    #: Seconds that never go back.
    monotonic: Callable[[], float]
    #: Wakes the sessions of these ids, those that are live here and idle.
    wake: Callable[[Iterable[str]], None]
    lineage: Callable[[Session], Lineage]
    #: Runs a child of the agent on a prompt; the last argument is the id of a child that goes on.
    spawn: Callable[[Agent, str, str | None], Awaitable[ChildAnswer]]
    open_turns: OpenTurns = field(factory=OpenTurns)


@frozen
class TurnResult:
    """How a turn ended, and the text of its last answer (empty when there is none)."""

    turn: int
    reason: TurnEndReason
    text: str


class Agent:
    """Runs turns on a session. All methods are for the event loop's thread.

    Closes a turn that a crash left open as soon as it is made.
    """

    def __init__(self, session: Session, runtime: Runtime) -> None:
        self.session = session
        self._runtime = runtime
        self._recorder = Recorder(session, runtime.now_ms, runtime.open_turns)
        self._view = View(session)
        self.closed = False
        #: Children that run for a call of this agent.
        self.children: set[Agent] = set()
        #: Plugins whose status line failed.
        self._unasked: set[str] = set()
        self._driver: asyncio.Task[None] | None = None
        self._model_task: asyncio.Task[None] | None = None
        #: Why the running turn has to end; None: it has not.
        self._cancelled: str | None = None
        #: Whether a prompt or a steer came since the driver began, and since the cancelling.
        self._prompted = False
        #: Whether the running turn was opened by a wake: such a turn wakes nobody.
        self._woken = False
        #: The newest answer's text in the running turn, and the prompts the turn answers.
        self._text = ""
        self._answered: list[str] = []
        #: Who waits for a prompt's turn, by message id.
        self._waiters: dict[str, asyncio.Future[TurnResult]] = {}
        if session.next_seq == session.header.seed_length:  # a copy that nobody has opened yet
            self._recorder.append(cancelled_inbox(session.fold(Inbox)), session.last_time)
        self._recover()

    # Giving it something to do

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._driver is not None

    async def prompt(self, text: str, *, client_time_zone: str | None = None) -> TurnResult:
        """Give a prompt like `followup`, and wait for the end of its turn.

        When the agent is cancelled before the prompt's turn came, returns how the cancelled turn ended; the prompt
        stays in the inbox. Raises LogError when the log cannot be written.
        """
        message_id = self.followup(text, client_time_zone=client_time_zone)
        waiter: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self._waiters[message_id] = waiter
        return await waiter

    def followup(self, text: str, *, client_time_zone: str | None = None) -> str:
        """Give a prompt: it opens a turn now, or the next one when a turn runs. Returns the message's id."""
        self._recover()
        if self.busy or self.session.fold(Inbox).next_turn:
            message_id = self._put("followup", text, client_time_zone)
        else:
            message_id = self._recorder.message_id(1)
            entry = user_entry("followup", message_id, text, client_time_zone)
            self._recorder.append([TurnStart(turn=self.session.fold(Turns).turn + 1), claimed(entry)])
            self._answered = [message_id]
        self._start()
        return message_id

    def steer(self, text: str, *, client_time_zone: str | None = None) -> str:
        """Give a message to the next step; opens a turn when none runs. Returns the message's id."""
        self._recover()
        message_id = self._put("steer", text, client_time_zone)
        self._start()
        return message_id

    def inject(self, text: str, *, client_time_zone: str | None = None) -> str:
        """Give a message that rides along with the next step that happens anyway. Returns the message's id."""
        return self._put("inject", text, client_time_zone)

    def wake(self) -> None:
        """Let an idle agent look whether a plugin has something to say; without that no turn opens."""
        if not self.busy:
            self._recover()
            self._start(woken=True)

    async def spawn(self, prompt: str, /, *, resume: str | None = None) -> ChildAnswer:
        """Run a child session on a prompt, to the end of its turn, and return its answer.

        `resume` is the id of a child made earlier, which goes on instead of a new one. Raises ToolError when it is no
        child of this session or cannot be had now, and when this agent's turn was cancelled; that cancels running
        children too.
        """
        if self.busy and self._cancelled is not None:
            raise ToolError("The turn was cancelled; no child agent is started.")
        return await self._runtime.spawn(self, prompt, resume)

    async def call_tool(self, name: str, arguments: str) -> ToolResult:
        """Run a tool for the user, with arguments in JSON. The model does not see it.

        Raises AgentBusy while a turn runs.
        """
        if self.busy:
            raise AgentBusy(self.id)
        return await self._tool_calls(self._take_loadout()).run_for_user(name, arguments)

    def cancel(self, reason: str = "user") -> None:
        """End the running turn as soon as started tools are done; what was streamed and what waits is kept."""
        if self.busy and self._cancelled is None:
            self._cancelled, self._prompted = reason, False
            if self._model_task is not None:
                self._model_task.cancel()
            for child in self.children:
                child.cancel("parent")

    async def idle(self) -> None:
        """Wait until no turn runs. Raises what broke the running turn."""
        while self._driver is not None:
            await asyncio.shield(self._driver)

    async def close(self) -> None:
        """Cancel what runs, wait for it, and close the session. The agent takes nothing more."""
        self.cancel("closed")
        self.closed = True
        try:
            await self.idle()
        finally:
            self.session.close()

    def status_lines(self) -> list[str]:
        """Return what plugins show a person of the session now. A plugin that fails at it is not asked again."""
        loadout = self.session.loadout
        if self._unasked:
            loadout = loadout.without(self._unasked)
        now = instant_at(self._runtime.now_ms())
        return loadout.status_lines(self._view, now, lambda error: self._unasked.add(error.plugin))

    def log_spawned(self, session_id: str) -> None:
        """Make it durable that this session has the child `session_id`, which is about to be made."""
        self._recorder.append([SessionSpawned(id=session_id)])
        self.session.sync()

    def subscribe(self, listener: Callable[[AgentEvent], None]) -> Callable[[], None]:
        """Call `listener` with each event from now on; a failing one is logged. Returns what ends the subscription."""
        return self._recorder.subscribe(listener)

    # The driver: one turn after the other as long as something that wakes is there

    def _start(self, *, woken: bool = False) -> None:
        if self._driver is None:
            self._cancelled, self._prompted = None, not woken
            self._driver = asyncio.get_running_loop().create_task(self._drive(woken))
            self._driver.add_done_callback(self._stopped)
        else:
            self._prompted = True

    async def _drive(self, woken: bool) -> None:
        self._runtime.open_turns.count += 1
        outcome: TurnResult | Exception | None = None
        try:
            if woken:
                outcome = await self._turn(woken=True)
            while self._open_turn():
                outcome = await self._turn()
        except Exception as error:
            outcome = error
            raise
        finally:
            if isinstance(outcome, Exception) and not self._waiters:
                _logger.error("A turn of session %s broke off: %s", self.id, outcome)
            self._release(outcome)
            self._runtime.open_turns.count -= 1
            self._driver = None

    def _stopped(self, driver: asyncio.Task[None]) -> None:
        if self._driver is driver:  # it was cancelled before it ran at all
            self._driver = None
            self._release(None)
        if not driver.cancelled():
            driver.exception()  # whoever waited was given it, or it was logged

    def _goes_on(self) -> bool:
        """Whether somebody wants another turn: entries that were kept in the inbox wake nothing by themselves."""
        if self._prompted:
            self._cancelled = None
        return self._prompted

    def _release(self, outcome: TurnResult | Exception | None) -> None:
        """Tell everybody who still waits for a prompt's turn that it will not come now."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            if waiter.done():
                continue
            if isinstance(outcome, TurnResult):
                waiter.set_result(outcome)
            elif isinstance(outcome, Exception):
                waiter.set_exception(outcome)
            else:
                waiter.cancel()

    def _open_turn(self) -> bool:
        """Open the next turn if none is open; False when nothing that wakes waits, or it was cancelled."""
        turns = self.session.fold(Turns)
        if turns.open:
            return True
        if not self._goes_on():
            return False
        inbox = self.session.fold(Inbox)
        start = TurnStart(turn=turns.turn + 1)
        if inbox.next_turn:
            entry = inbox.next_turn[0]
            splice = InboxSpliced(target="next-turn", start=0, removed_count=1)
            self._recorder.append([start, splice, claimed(entry)])
            self._answered = [entry.message.id]
        elif inbox.steered:
            self._recorder.append([start])
        return self.session.fold(Turns).open

    def _recover(self) -> None:
        """Close a turn that is open and does not run."""
        if self.busy:
            return
        fold = self.session.fold
        if events := closing_events(fold(Turns), fold(Inbox), self.session.next_seq):
            self._recorder.append(events, self.session.last_time)
            self.session.sync()

    # One turn

    async def _turn(self, *, woken: bool = False) -> TurnResult | None:
        """Run the open turn to its end; `woken`: none is open, and one opens only if a plugin has something to say."""
        self._woken, self._text = woken, ""
        turn = self.session.fold(Turns).turn + woken
        reason: TurnEndReason | None = None
        unlogged: list[Payload] = []
        number = 0
        while reason is None:
            number += 1
            if self._cancelled is not None:
                reason = TurnEndReason(kind="aborted", reason=self._cancelled)
            elif number > self._runtime.limits.max_steps:
                reason = TurnEndReason(kind="max-steps")
            else:
                reason, unlogged = await self._step(turn, number)
        if not self.session.fold(Turns).open:
            return None
        self._recorder.append([*unlogged, TurnEnd(turn=turn, reason=reason)])
        await self._recorder.sync()
        result = TurnResult(turn, reason, self._text)
        answered, self._answered = self._answered, []
        for message_id in answered:
            if (waiter := self._waiters.pop(message_id, None)) is not None and not waiter.done():
                waiter.set_result(result)
        return result

    async def _step(self, turn: int, number: int) -> tuple[TurnEndReason | None, list[Payload]]:
        """Run one step. Returns why the turn ends with it, and what is to be logged in one batch with that end.

        The reason is None, and everything logged, when another step has to follow.
        """
        loadout = self._take_loadout()
        prepared = self._prepare(loadout, turn, number)
        if isinstance(prepared, TurnEndReason):
            return prepared, []
        await self._recorder.sync()
        reason, unlogged = await self._request(loadout, turn, number, prepared)
        unlogged.append(StepEnd(turn=turn, step=number))
        if reason is None:
            self._recorder.append(unlogged)
            unlogged = []
        return reason, unlogged

    def _prepare(self, loadout: Loadout, turn: int, number: int) -> Header | TurnEndReason:
        """Log everything a request consists of, at the step's one instant. Returns its header, or why there is none."""
        now = self._runtime.now_ms()
        opened = self.session.fold(Turns).open
        baseline = self.session.fold(Baseline)
        previous = baseline.before_turn if opened else baseline.newest
        if opened:
            self._recorder.append([StepStart(turn=turn, step=number), *self._claims()], now)
        lineage = self._runtime.lineage(self.session)
        step = Step(self._view, turn, number, instant_at(now), _instant(previous), lineage)
        errors: list[PluginError] = []
        added = loadout.before_step(step, errors.append)
        if not opened:
            if isinstance(added, Rejection) or not added:
                return TurnEndReason(kind="completed")
            self._recorder.append([TurnStart(turn=turn), StepStart(turn=turn, step=number), *self._claims()], now)
        self._recorder.append(errors, now)
        if isinstance(added, Rejection):
            self._recorder.append([StepEnd(turn=turn, step=number)], now)
            return TurnEndReason(kind="rejected", plugin=added.plugin, reason=added.reason)
        message_id = self._recorder.message_id
        self._recorder.append([plugin_message(*owned, message_id(at)) for at, owned in enumerate(added)], now)
        return self._assemble(loadout, step, now)

    def _assemble(self, loadout: Loadout, step: Step, now: int) -> Header:
        """Render the header and log it where it differs from the last request's."""
        state = self.session.fold(HeaderState)
        errors: list[PluginError] = []
        header = Header(
            config=dict(self._runtime.model.config),
            system=loadout.sections(Prompt(step, previous=state.previous), errors.append),
            tools=loadout.tool_schemas,
            loadout=loadout.described,
        )
        change = header_change(state.header, header)
        self._recorder.append(errors if change is None else [*errors, change], now)
        logged = self.session.fold(HeaderState).header
        assert logged is not None
        return logged

    async def _request(
        self, loadout: Loadout, turn: int, number: int, header: Header
    ) -> tuple[TurnEndReason | None, list[Payload]]:
        """Ask the model, log its answer and run its calls.

        Returns why the turn ends (None when it goes on), and an answer that is not logged yet: one without calls.
        """
        if self._cancelled is not None:
            return TurnEndReason(kind="aborted", reason=self._cancelled), []
        answer = Answer(self._runtime.monotonic)
        problem = await self._ask(ModelRequest(header, self.session.fold(Surface).messages), answer)
        if problem is not None:
            prefix = answer.prefix()
            return problem, [self._answered_with(turn, number, answer, prefix, interrupted=True)] if prefix else []
        content = answer.content(lambda n: f"t{turn}s{number}c{n}")
        message = self._answered_with(turn, number, answer, content)
        calls = [block for block in content if isinstance(block, ToolCallBlock)]
        cut_off = answer.stop_reason == "max-tokens"
        if not calls:
            return self._ending(calls, cut_off=cut_off), [message]
        self._recorder.append([message])
        tool_calls = self._tool_calls(loadout)
        if cut_off:
            reason = "the answer was cut off at its token limit, so this call may be incomplete. It did not run."
            tool_calls.refuse(turn, number, calls, reason)
        elif left := await tool_calls.run_step(turn, number, calls, lambda: self._cancelled is not None):
            tool_calls.refuse(turn, number, left, "the turn was cancelled before this call started. It did not run.")
        return self._ending(calls, cut_off=cut_off), []

    def _ending(self, calls: Sequence[ToolCallBlock], *, cut_off: bool) -> TurnEndReason | None:
        """Why the turn ends after an answer with these calls, None when another step has to follow."""
        if cut_off:
            return TurnEndReason(kind="max-tokens")
        if self._cancelled is not None:
            return TurnEndReason(kind="aborted", reason=self._cancelled)
        return None if calls or self.session.fold(Inbox).steered else TurnEndReason(kind="completed")

    async def _ask(self, request: ModelRequest, answer: Answer) -> TurnEndReason | None:
        """Let the model fill `answer`. Returns why it could not be completed."""

        async def consume() -> None:
            stream = self._runtime.model.stream(request)
            try:
                async for delta in stream:
                    answer.add(delta)
                    self._recorder.tell(delta)
            finally:
                if (close := getattr(stream, "aclose", None)) is not None:
                    await close()

        task = self._model_task = asyncio.get_running_loop().create_task(consume())
        try:
            await asyncio.wait({task})
        except BaseException:
            task.cancel()
            raise
        finally:
            self._model_task = None
        error = None if task.cancelled() else task.exception()
        if self._cancelled is not None and answer.stop_reason is None:
            return TurnEndReason(kind="aborted", reason=self._cancelled)
        if isinstance(error, Exception):
            name = type(error).__name__
            return TurnEndReason(kind="error", type=name, message=text_of(error)[:_ERROR_CHARACTERS] or name)
        if error is not None:
            raise error
        if answer.stop_reason is None:
            return TurnEndReason(kind="error", type=ModelError.__name__, message="The model's stream ended too early.")
        return None

    def _answered_with(
        self, turn: int, number: int, answer: Answer, content: tuple[Block, ...], *, interrupted: bool = False
    ) -> AssistantMessage:
        message = model_message(self._runtime.model.config, content, self._recorder.message_id())
        self._text = clean_text(message.text)[0]
        return AssistantMessage(
            turn=turn,
            step=number,
            message=message,
            stop_reason=answer.stop_reason or "",
            usage=answer.usage,
            timing=answer.timing,
            interrupted=interrupted,
        )

    def _take_loadout(self) -> Loadout:
        """Return the process's loadout as this session can use it; a step takes one and keeps it."""
        loadout, errors = self.session.use(self._runtime.loadout())
        self._recorder.append(errors)
        return loadout

    def _tool_calls(self, loadout: Loadout) -> ToolCalls:
        lineage = self._runtime.lineage(self.session)
        return ToolCalls(self._recorder, self._view, lineage, self.spawn, loadout, self._runtime.limits, self._wake)

    def _wake(self, sessions: Iterable[str]) -> None:
        if not self._woken:
            self._runtime.wake(sessions)

    # The inbox

    def _put(self, delivery: Delivery, text: str, client_time_zone: str | None) -> str:
        message_id = self._recorder.message_id()
        entry = user_entry(delivery, message_id, text, client_time_zone)
        inbox = self.session.fold(Inbox)
        if delivery == "followup":
            splice = InboxSpliced(target="next-turn", start=len(inbox.next_turn), inserted=(entry,))
        else:
            splice = InboxSpliced(target="next-step", start=len(inbox.next_step), inserted=(entry,))
        self._recorder.append([splice])
        return message_id

    def _claims(self) -> list[Payload]:
        """Take everything that waits for a step."""
        if not (entries := self.session.fold(Inbox).next_step):
            return []
        splice = InboxSpliced(target="next-step", start=0, removed_count=len(entries))
        return [splice, *map(claimed, entries)]


def _instant(epoch_ms: int | None) -> datetime | None:
    """Return the instant, None when there is none or a strange log gives one that no calendar holds."""
    try:
        return None if epoch_ms is None else instant_at(epoch_ms)
    except InstantOutOfRange:
        return None
