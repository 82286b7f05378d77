"""The line-mode chat: reads lines from a terminal or a pipe, carries out commands, streams answers."""

import asyncio
import signal
import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain

from foldmark.conversation import Agent
from foldmark.conversation.asking import Asking
from foldmark.conversation.fullness import fullness, rule
from foldmark.conversation.planning import planning
from foldmark.core.answer import Piece, Stopped, Waiting
from foldmark.core.errors import CommandError, ConflictError, FoldmarkError, StoreError
from foldmark.core.ports import Provider
from foldmark.core.pressure import is_full
from foldmark.core.request import ToolCall
from foldmark.core.wording import count
from foldmark.interfaces.person import edit_command, reading, show_text
from foldmark.interfaces.render import harmless, json_line, result_text
from foldmark.runtime.loop import Shown, turn

PROMPT = "> "
CALL_CHARACTERS = 100
"""How much of a tool call's arguments is shown."""
FULL = "⚠️  Context full. Use /clear to continue."
STOPPED = {"length": "the answer was cut off, it reached the most that the model says", "refused": "the model refused"}
"""Ends of an answer that a person is told of."""


def typed_lines() -> Iterator[str]:
    """Lines that a person types, with line editing; Ctrl-C clears the line, Ctrl-D ends."""
    with suppress(ImportError):  # Windows has no readline
        import readline

        readline.parse_and_bind("set enable-bracketed-paste on")
    while True:
        try:
            yield input(PROMPT)
        except KeyboardInterrupt:
            print("\n(Ctrl-D or /exit leaves)")
        except EOFError:
            print()
            return


def piped_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Lines of a pipe, shown as they are read. They end at LF; what is not UTF-8 becomes U+FFFD."""
    for raw in lines:
        line = raw.decode(errors="replace").rstrip("\r\n").removeprefix("\ufeff")
        if line.strip():
            print(f"{PROMPT}{harmless(line)}", flush=True)
            yield line


Models = Callable[[str], Provider]
"""Makes the provider of a model's name, as `Config.model` has it."""


def chat(agent: Agent, models: Models, lines: Iterable[str], ask: Callable[[str], bool] | None = None) -> int:
    """Talk until the lines end or a command says to leave; returns the exit code of the last thing that went wrong.

    `ask` puts a question that a command has to the person; None if nobody is there. Ctrl-C during an answer closes the
    turn as interrupted and keeps what had been said.
    """
    talk = _Chat(agent, models, ask)
    code = 0
    with asyncio.Runner() as runner:
        steps: Iterator[Callable[[], None]] = (partial(talk.line, runner, line) for line in lines)
        for step in chain((talk.greet,), steps):
            try:
                step()
            except FoldmarkError as error:
                code = error.exit_code
                print(f"foldmark: {error}", file=sys.stderr)
                if isinstance(error, ConflictError):
                    talk.agent.context()
                elif isinstance(error, StoreError):
                    return code
            except KeyboardInterrupt:
                print("\n(interrupted)")
            if talk.left:
                break
    return code


def answer(agent: Agent, provider: Provider, asking: Asking, *, shown: bool) -> None:
    """Let the model answer in the turn that is open, once and without a chat around it."""
    screen = _Screen()
    show = screen.show if shown else Shown(lambda _: None, lambda _: None)
    try:
        asyncio.run(turn(agent, provider, None, show, asking))
    finally:
        screen.end_line()


class _Chat:
    """Where a chat stands: the agent that is talked to, and whether it is over."""

    def __init__(self, agent: Agent, models: Models, ask: Callable[[str], bool] | None) -> None:
        self.agent, self._models, self._asking = agent, models, Asking(ask, reading())
        self.left = False
        self._edge: int | None = None
        self._screen = _Screen()

    def greet(self) -> None:
        """Say where one is and how full the context is."""
        agent = self.agent
        context = agent.context()
        what = f"{count(len(context.messages), 'message')} in the context" if context.messages else "nothing said yet"
        model = agent.standing().config.model
        print(harmless(f"Conversation '{agent.name or agent.id}', {what}; model: {model}. /help lists the commands."))
        if agent.open_turn is not None:
            print("The last turn was cut off; what was recorded of it is kept.")
        request = agent.request()
        self._edge = request.manifest.edge.first
        print(fullness(agent, request))

    def line(self, runner: asyncio.Runner, line: str) -> None:
        """Carry out a command, or say something."""
        if line.lstrip().startswith("/"):
            self._command(runner, line)
        elif line.strip():
            self._say(runner, line)

    def _command(self, runner: asyncio.Runner, line: str) -> None:
        self.agent.context()
        result = self.agent.do(line, asking=self._asking)
        if text := result_text(result):
            show_text(text)
        if (edit := result.data.get("edit")) and (command := edit_command(edit)):
            print(result_text(self.agent.do(command, asking=self._asking)))
        if switch := result.data.get("switch"):
            self.agent = self.agent.log.agent(switch)
            self.greet()
        if result.data.get("answer"):
            self._answered(runner, None)
        self.left = bool(result.data.get("exit"))

    def _say(self, runner: asyncio.Runner, text: str) -> None:
        self.agent.context()  # takes note of what others have appended
        at = self.agent.standing()
        # What makes room again has to be agreed: a planning conversation goes on, with nothing else in its requests.
        if planning(at) is None and self._is_full():
            print(FULL)
        else:
            self._answered(runner, text)

    def _is_full(self) -> bool:
        try:
            return is_full(self.agent.request().tokens, self.agent.window)
        except CommandError:
            return False  # the turn will say it, once the text is recorded

    def _answered(self, runner: asyncio.Runner, text: str | None) -> None:
        self._screen = _Screen()
        try:
            runner.run(self._answer(text))
            if self._screen.blank:
                print("(the model answered nothing)")
        except (CancelledError, KeyboardInterrupt):
            self._screen.interrupted()
        finally:
            self._screen.end_line()
        self.agent.context()
        request = self.agent.request()
        edge = request.manifest.edge
        if edge.before and edge.first != self._edge:
            print(rule(edge))
        self._edge = edge.first
        print(fullness(self.agent, request), flush=True)

    async def _answer(self, text: str | None) -> None:
        """One turn. Ctrl-C cancels it, however often it is pressed, and never cuts its recording short."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError):  # Windows has no such handlers; there the runner raises KeyboardInterrupt
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        try:
            provider = self._models(self.agent.standing().config.model)
            await turn(self.agent, provider, text, self._screen.show, self._asking)
        finally:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)


class _Screen:
    """Shows a turn as it runs: whatever is not part of the answer's text begins a line of its own."""

    def __init__(self) -> None:
        self._mid_line = False
        self.blank = True

    @property
    def show(self) -> Shown:
        """What the turn is given."""
        return Shown(self._text, self._call, self._other)

    def end_line(self) -> None:
        """Begin a new line unless one has just begun."""
        if self._mid_line:
            print(flush=True)
        self._mid_line = False

    def interrupted(self) -> None:
        """Say that the turn was cut short; the terminal has just echoed ^C."""
        print("\n(interrupted; what had been said is kept)", flush=True)
        self._mid_line = False

    def _text(self, piece: str) -> None:
        if piece:
            print(harmless(piece), end="", flush=True)
            self._mid_line, self.blank = not piece.endswith("\n"), False

    def _call(self, call: ToolCall) -> None:
        self.end_line()
        self.blank = False
        arguments = json_line(call.args)
        shown = arguments if len(arguments) <= CALL_CHARACTERS else f"{arguments[:CALL_CHARACTERS]}…"
        print(f"[{harmless(call.name)} {shown}]", flush=True)

    def _other(self, piece: Piece) -> None:
        match piece:
            case Waiting():
                self.end_line()
                reason = harmless(piece.reason).rstrip(".")
                print(f"({reason}; asking again in {piece.seconds:.0f} s)", file=sys.stderr, flush=True)
            case Stopped() if piece.why in STOPPED:
                self.end_line()
                self.blank = False
                print(f"({STOPPED[piece.why]}: {harmless(piece.said)})", flush=True)
            case _:
                pass
