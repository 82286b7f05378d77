"""The chat, independent of any terminal: turns, commands, questions and notices, shown on a `ChatView`.

The controller's steps are coroutines on one event loop with the agents (`foldmark.runtime.supervisor`), in a thread
beside that of the terminal. Commands and tools, which may take long and ask the person, run in other threads. While an
answer streams, typed lines wait for the end of the turn, except commands that only display something or concern the
answer.
"""

import asyncio
from asyncio import CancelledError, Task
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from foldmark.chat import live, shell
from foldmark.chat.approvals import Approval
from foldmark.chat.display.turns import relief
from foldmark.chat.imported import ImportNotes
from foldmark.chat.views import ChatView
from foldmark.commands import REGISTRY
from foldmark.commands.messages import add_message, attached_file, mentioned
from foldmark.core.agents import PAGE
from foldmark.core.errors import CommandError, ConflictError, ContextFullError, FoldmarkError, ProviderError, StoreError
from foldmark.core.segments import END, Segment
from foldmark.core.wording import count, listing, one_line
from foldmark.cost.messages import next_messages
from foldmark.cost.misses import newest_turn
from foldmark.editing.answering import question
from foldmark.log import Agent, Result, family
from foldmark.log.family import running
from foldmark.operations.effects import (
    Asking,
    AskModel,
    Decision,
    EditText,
    LeaveChat,
    Permission,
    SwitchAgent,
    WaitForAgents,
)
from foldmark.operations.receipts import Retried
from foldmark.request.planning import planning
from foldmark.request.standing import end_of, state_of
from foldmark.runtime.lease import interrupt, settled
from foldmark.runtime.loop import in_thread
from foldmark.runtime.supervisor import ContextChangedError, Supervisor, TurnInterruptedError
from foldmark.runtime.unprompted import WAKES
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.sending.status import assumed, fullness, has_no_room, repeats, too_long
from foldmark.text.mentions import SHELL
from foldmark.tools.working.paths import may_hold_secrets, resolved_path, working_folder

if TYPE_CHECKING:
    from foldmark.text.attachment import Attachment

_T = TypeVar("_T")

FULL = "⚠️  Context full. Use /clear to continue."


def runs_at_once(line: str) -> bool:
    """Return True if a line runs while an answer streams; all other lines wait for the end of the turn."""
    return line.lstrip().startswith("/") and REGISTRY.at_once(line)


class ChatController:
    """A chat: the agent that the person talks to, the lines that wait, oldest first, and whether the chat is over. It
    is the supervisor's audience (`foldmark.runtime.supervisor.Audience`). `opening` is shown before everything else.
    `obstacle` returns why an agent's model cannot answer. `broken` is the error of the database that has ended the
    chat, or empty."""

    agents: Supervisor

    def __init__(self, agent: Agent, view: ChatView, opening: str = "") -> None:
        self.agent, self.view, self._opening = agent, view, opening
        self.left, self.code, self.broken = False, 0, ""
        self.waiting: deque[str] = deque()
        self.woken = asyncio.Event()
        self.obstacle: Callable[[Agent], str | None] = lambda _: None
        self._failed = self._running = False
        self._assumption: str | None = None
        self._imported = ImportNotes()
        self._cursor = agent.log.changes().cursor
        self._work, self._dropped = Interruption(), 0
        view.waiting, view.woken = self.waiting, self.woken

    async def talk(self) -> None:
        """Carry out a person's lines until the input ends or a command leaves the chat, and wait for the agents that
        are still working."""
        while not self.left and (line := await self.view.next_line()) is not None:
            self.view.show_typed(line, waited=False)
            await self.carry_out(partial(self._line, line))
        if not self.broken:
            await self.carry_out(self._settle)

    async def carry_out(self, step: Callable[[], Awaitable[object]]) -> None:
        """Carry out a step, then the lines typed while it ran. Show any error."""
        await self._attempt(step)
        while self.waiting and not self.left:
            try:
                line = self.waiting.popleft()
            except IndexError:  # the person has just withdrawn it
                break
            if not line.lstrip().startswith("/") and self._offered():
                self.view.give_back(line)  # an unseen offer is neither accepted nor passed over
            else:
                self.view.show_typed(line, waited=True)
                await self._attempt(partial(self._line, line))
        self.view.show_prompt(self.agent, self._offered())

    async def _attempt(self, step: Callable[[], Awaitable[object]]) -> None:
        self.begin_work()
        await self._guarded(step)
        if self._dropped:
            self.view.show(f"({count(self._dropped, 'waiting line')} dropped)")

    async def _guarded(self, step: Callable[[], Awaitable[object]]) -> None:
        try:
            await step()
        except FoldmarkError as error:
            self.code = error.exit_code
            wrong = f"foldmark: {self.agent.log.secrets.hidden(str(error))}"
            self.view.show(wrong, error=True)
            if self._failed:
                self.view.show("(/retry asks again)")
                self._failed = False
            if isinstance(error, ConflictError):
                self.agent.context()
            elif isinstance(error, StoreError):
                self.left, self.broken = True, wrong
        except KeyboardInterrupt:
            self.view.show("\n(interrupted)")

    def interrupt(self) -> None:
        """Interrupt what runs, and drop the lines that wait; called on the loop."""
        self._dropped += len(self.waiting)
        self.waiting.clear()
        self._work.happen()

    def begin_work(self) -> None:
        """Begin work of this thread that `interrupt` ends."""
        self._work, self._dropped = Interruption(), 0
        CURRENT.set(self._work)

    async def _do(self, work: Callable[[], _T]) -> _T:
        """Do work that may take long or ask the person, where the view wants it done."""
        return await in_thread(self.view.executor or self.agents.threads, work)

    async def _while(self, work: Coroutine[Any, Any, _T], end: Callable[[Task[_T]], object]) -> _T:
        """Wait for work that Ctrl-C ends, and carry out the commands typed meanwhile that run at once."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self.woken.set())
        try:
            with self._work.ended_by(partial(end, task)):  # `interrupt` runs on this loop
                while not task.done():
                    self.woken.clear()
                    for line in filter(runs_at_once, [*self.waiting]):
                        try:
                            self.waiting.remove(line)
                        except ValueError:  # the person has just withdrawn it
                            continue
                        self.view.show_typed(line, waited=False)
                        await self._guarded(partial(self._command, line))
                    if not task.done():
                        await self.woken.wait()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return task.result()

    def _offered(self) -> str:
        """Return the open offer in a few words; empty if no offer is open."""
        with suppress(FoldmarkError):  # already shown
            if not self.broken:
                with self.agent.reading() as (moment, at):
                    return question(moment, at)
        return ""

    def start_in(self, line: str) -> None:
        """Start in the conversation to which a command goes. Raises CommandError."""
        effect = self.agent.do(line).effect
        assert isinstance(effect, SwitchAgent)
        self.agent = self.agent.log.agent(effect.agent)

    async def greet(self) -> None:
        """Show the agent, the newest turns and how full the context is."""
        agent = self.agent
        if self._opening:
            self.view.show(self._opening)
            self._opening = ""
        self.agents.attended, self.agents.takes_up = agent.id, True
        agent.context()  # takes in events that others have appended
        with agent.reading() as (moment, at):
            what = next_messages(agent, moment, at).counts()
        model, label = agent.standing().config.model, family.label(agent)
        self.view.show(f"{label[0].upper()}{label[1:]}, {what}; model: {model}. /help lists the commands.")
        if live.is_live(agent):
            self.view.show(live.GREETING)
        elif (lease := running(agent)) is not None:
            self.view.show(f"Another program is answering at the moment, {lease.state}.")
        elif agent.open_turn is not None:
            self.view.show("The last turn was cut off; what was recorded of it is kept.")
        for line in self._imported.greeting(agent):
            self.view.show(line)
        if why := self.obstacle(agent):
            others = "/model PROVIDER/MODEL chooses another one."
            self.view.show(f"Commands work here, but {model} cannot answer. {others} {why}")
        self._show_context(turns=True)

    def _show_context(self, *, turns: bool) -> None:
        """Show how full the context is. Say once if the size of the model's window is an assumption."""
        agent, request = self.agent, self.agent.next_request()
        text = live.fullness(agent) if live.is_live(agent) else fullness(agent, request)
        self.view.show_context(agent, request.manifest.edge, text, turns=turns)
        assumption = assumed(agent)
        if assumption not in (None, self._assumption):
            self.view.show(f"({assumption})")
        self._assumption = assumption

    async def _settle(self) -> None:
        """Wait for agents that are still working and for their summaries; Ctrl-C ends them."""
        if working := len(self.agents.working):
            self.view.show(f"({count(working, 'agent')} still at work; Ctrl-C ends that)")
        await self._settled()

    async def _settled(self) -> None:
        await self._while(self.agents.settled(), lambda _: self.agents.cancel_all())

    @property
    def farewell(self) -> str:
        """The closing remark for a person who leaves the chat; empty if there is none."""
        return "" if self.broken else self._imported.farewell(self.agent)

    async def _line(self, line: str) -> None:
        if line.lstrip().startswith("/"):
            await self._command(line)
        elif line.lstrip().startswith(SHELL) and self.view.confirm is not None:
            await self._shell(line)
        elif line.strip() and live.is_live(self.agent):
            done = live.answered(self.agent, line)
            self.view.show(live.ELSEWHERE) if done is None else self.view.show_result(done)
        elif line.strip():
            await self._send(line)

    # Commands

    async def _command(self, line: str) -> None:
        if REGISTRY.interrupts(line):
            running = self._running
            # End the agent's turn, here or in another process: the command changes the turn's basis [SPEC 3].
            if not await self.agents.interrupt(self.agent):
                await self._do(partial(interrupt, self.agent))
            if running and not self._is_planning():
                return  # the command only had to end the streaming turn
        result = await self._do(partial(self._done, line))
        if isinstance(result.effect, WaitForAgents):
            await self._settled()
            await self._do(partial(settled, map(self.agent.log.agent, result.effect.agents)))
        self.view.show_result(result)
        if (remark := self._imported.after(self.agent, result)) is not None:
            self.view.show(remark)
        if not self._running:
            await self._follow(result)

    def _done(self, line: str) -> Result:
        agent = self.agent
        agent.context()
        with live.session_model(agent) as model:
            result = agent.do(line, asking=replace(self.asking(agent), in_chat=True, answers=True))
        if model is not None and model.remark:
            self.view.show(model.remark)
        return result

    async def _follow(self, result: Result) -> None:
        """Perform the effect that a command delegates to the interface."""
        match result.effect:
            case EditText() as edit:
                command = edit.recorded_by(await self._do(partial(self.view.edit, edit.text)))
                if command is None:
                    self.view.show("Nothing was changed.")
                else:
                    self.view.show_result(await self._do(partial(self._done, command)))
            case SwitchAgent(agent):
                self.agent = self.agent.log.agent(agent)
                await self.greet()
            case AskModel():
                await self._send(None)
            case Retried(text=text):
                await self._send(text)
            case LeaveChat():
                self.left = True

    async def _shell(self, line: str) -> None:
        """Run a person's shell command, and record it with its output as a message that no model answers."""
        if line.strip() == SHELL:
            self.view.show(shell.HELP)
            return
        agent = self.agent
        agent.context()
        command = shell.ShellCommand(agent, line)

        async def run() -> str:
            return await in_thread(self.agents.threads, command.run)

        turn = self.view.begin_turn()
        turn.shown().call(command.call)
        try:
            output = await self._while(run(), lambda _: None)  # the command itself watches the interruption
            add_message(agent, command.message(output), None, "human")
            self.view.show_output(output)
        finally:
            self.view.end_turn()
        self._show_context(turns=False)

    # Turns

    async def _send(self, text: str | None) -> None:
        """Send a text to the agent. Without a text, or if it repeats the text whose answer failed, ask again."""
        self.agent.context()  # takes in events that others have appended
        if text is not None and repeats(self.agent, text):
            text = None
        # An answer to an offer may free space, and needs no request.
        if not self._offered() and has_no_room(self.agent):
            self._show_full()
            self._give_back(text)
        elif text is None:
            await self._answer(None)
        else:
            try:
                files = await self._do(partial(self._attached, text)) if "@" in text else []
            except CommandError:
                self.view.give_back(text)
                raise
            if await self._may_send(text, files):
                await self._answer(text, files)

    def _give_back(self, text: str | None) -> None:
        """Give back a text that was not recorded, if a person typed one."""
        if text is not None and self.view.confirm is not None:
            self.view.give_back(text)

    def _attached(self, text: str) -> "list[Attachment]":
        """Read the files that a person's text mentions, after a question where one may hold secrets: the text may have
        been pasted. Raises CommandError if one cannot be attached, or the person does not agree."""
        confirm = self.view.confirm
        if confirm is None:
            return []
        folder = working_folder(self.agent.log)
        named = mentioned(text, folder)
        for each in named:
            is_secret = may_hold_secrets(resolved_path(each, folder))
            if is_secret and not confirm(f"Attach {each}, which may hold secrets?"):
                raise CommandError(f"{each} is not attached, and nothing was sent; send the text without @{each}")
        return [attached_file(each, folder) for each in named]

    def _show_full(self) -> None:
        """Say that the context is full, and what frees space here."""
        self.view.show(FULL)
        with suppress(FoldmarkError):  # shown by the next command
            self.view.show(f"({relief(self.agent)})")

    async def _may_send(self, text: str, files: "list[Attachment]") -> bool:
        """Return True if a text fits into the model's window together with its files, or if the person agrees to send
        it nevertheless. Otherwise, give the text back to the prompt."""
        confirm = self.view.confirm
        whole = "\n".join([text, *(file.content for file in files)])
        over = too_long(self.agent, whole) if confirm is not None else None
        if confirm is None or over is None:
            return True
        within = "" if over.text == over.request else f", and the request with it ~{over.request:,}"
        model = one_line(self.agent.standing().config.model)
        what = f"This text with {count(len(files), 'file')}" if files else "This text"
        question = f"{what} has ~{over.text:,} tokens{within}; {model} takes {over.limit:,}. Send it?"
        if await self._do(partial(confirm, question)):
            return True
        self.view.give_back(text)
        self.view.show("(not sent)")
        return False

    def _is_planning(self) -> bool:
        with self.agent.reading() as (moment, at):
            return planning(moment, at) is not None

    async def _answer(self, text: str | None, files: "Sequence[Attachment]" = ()) -> None:
        agent, view = self.agent, self.view
        if agent.id in self.agents.working:
            view.show(f"({family.label(agent)} is at work; this waits for the end of its turn)")
        before = agent.standing().newest
        turn, self._running = view.begin_turn(), True
        asking = replace(self.asking(agent), operated=turn.operated)
        try:
            await self._while(self.agents.say(agent, text, turn.shown(), asking, files), Task.cancel)
            if turn.blank:
                empty = (
                    "the model answered nothing"
                    if self._new_state(before) is None
                    else "a state block only; /state shows it"
                )
                view.show(f"({empty})")
        except ContextChangedError as error:
            view.show(f"({error})")
        except ContextFullError:
            self._show_full()
        except (CancelledError, TurnInterruptedError):
            if (chat := asyncio.current_task()) is not None and chat.cancelling():
                raise
            turn.interrupted(kept=text is None or self._has_text(before))
        except ProviderError:
            self._failed = True
            raise
        except StoreError:  # whether the text was recorded is not known
            raise
        except FoldmarkError:
            if not self._has_text(before):
                self._give_back(text)
            raise
        finally:
            self._running = False
            view.end_turn()
        if (state := self._new_state(before)) is not None:
            from foldmark.text.state import missing  # takes 2 ms, and few answers contain a block

            if lacking := missing(state):
                view.show(f"(the state block has no {listing(lacking)}; /state shows it)")
        agent.context()
        self._show_context(turns=False)
        cached = newest_turn(agent)
        if cached is not None and cached.missed:
            view.show(f"({cached.text})")

    def _new_state(self, before: int) -> str | None:
        """Return the state block that was recorded after event `before`."""
        with self.agent.reading() as (moment, at):
            state = state_of(moment, at)
        return None if state is None or state.id <= before else state.content

    def _has_text(self, before: int) -> bool:
        """Return True if a text from a person was recorded after event `before`."""
        with self.agent.log.store.read() as moment:
            since = moment.select((Segment(self.agent.id, before + 1, END),))
            return any(event.kind == "user" and event.actor == "human" for event in since)

    # Events of other programs

    def committed(self) -> None:
        """Show a person the events that other programs have recorded in the conversation."""
        agent = self.agent
        if self.view.confirm is None:
            return
        while (page := agent.log.changes(self._cursor, PAGE)).changes:
            timeline = [each for each in page.changes if each.agent_id == agent.id and not each.about_request]
            events = [each.event_id for each in timeline if each.event_id is not None]
            if foreign := [each for each in events if not agent.timeline.wrote(each)]:
                self.view.follow(agent, foreign)
            self._cursor = page.cursor

    # Agents in the background

    def asking(self, agent: Agent) -> Asking:
        """Return how an agent's tools reach the person; only the agent they talk to may ask for a yes or no."""
        attended = agent == self.agent
        if self.view.confirm is None:
            return Asking(progress=self.view.progress()) if attended else Asking()
        approve = partial(self._approve, agent)
        return Asking(self.view.confirm, self.view.progress(), approve) if attended else Asking(approve=approve)

    def _approve(self, agent: Agent, permission: Permission) -> Decision:
        return self.view.approve(Approval(agent, permission))

    def began(self, agent: Agent) -> None:
        """Show nothing: `/agents` lists the child."""

    def ended(self, agent: Agent, error: Exception | None) -> None:
        """Report that a background agent is idle again or has ended."""
        with agent.log.store.read() as moment:
            end = end_of(moment, agent.id)
        how = "is idle" if error is None else f"ended its turn: {error}"
        if end is not None:
            how = f"is {end.how_at(agent.log.given.minute(end.at))}"
        self._notify(f"({family.label(agent)} {how})")

    def mail(self, agent: Agent) -> None:
        """Report mail that does not wake its recipient."""
        if agent == self.agent:
            self._notify("(mail has come; /check-mail reads it)")
        else:
            self._notify(f"({family.label(agent)} has mail, and was woken {WAKES} times; /switch there to go on)")

    def _notify(self, text: str) -> None:
        self.view.notify(self.agent.log.secrets.hidden(text))
