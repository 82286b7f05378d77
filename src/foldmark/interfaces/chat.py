"""The line-mode chat: reads lines from a terminal or a pipe, carries out commands, streams answers."""

import asyncio
import signal
import sys
from asyncio import CancelledError
from collections.abc import Iterable, Iterator
from contextlib import suppress

from foldmark.conversation import Agent
from foldmark.core.errors import ConflictError, FoldmarkError, StoreError
from foldmark.core.ports import Provider
from foldmark.core.pressure import is_full, meter
from foldmark.core.wording import count
from foldmark.interfaces.render import harmless, result_text
from foldmark.runtime.loop import turn

PROMPT = "> "
FULL = "⚠️  Context full. Use /clear to continue."


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


def chat(agent: Agent, provider: Provider, lines: Iterable[str]) -> int:
    """Talk until the lines end or a command says to leave; returns the exit code of the last thing that went wrong.

    Ctrl-C during an answer closes the turn as interrupted and keeps what had been said.
    """
    _greet(agent, provider)
    code = 0
    with asyncio.Runner() as runner:
        for line in lines:
            try:
                leave = _command(agent, line) if line.lstrip().startswith("/") else _say(runner, agent, provider, line)
            except FoldmarkError as error:
                code = error.exit_code
                print(f"foldmark: {error}", file=sys.stderr)
                if isinstance(error, ConflictError):
                    agent.context()
                elif isinstance(error, StoreError):
                    return code
            except KeyboardInterrupt:
                print("\n(interrupted)")
            else:
                if leave:
                    break
    return code


def _greet(agent: Agent, provider: Provider) -> None:
    context = agent.context()
    what = f"{count(len(context.messages), 'message')} in the context" if context.messages else "nothing said yet"
    print(f"Conversation '{agent.name or agent.id}', {what}; model: {provider.name}. /help lists the commands.")
    if agent.open_turn is not None:
        print("The last turn was cut off; what was recorded of it is kept.")
    print(meter(context.size.tokens, provider.window))


def _command(agent: Agent, line: str) -> bool:
    agent.context()
    result = agent.do(line)
    if text := result_text(result):
        print(text, flush=True)
    return bool(result.data.get("exit"))


async def _answer(agent: Agent, provider: Provider, text: str) -> None:
    """One turn. Ctrl-C cancels it, however often it is pressed, and never cuts the recording of the answer short."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows has no such handlers; there the runner raises KeyboardInterrupt
        loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        await turn(agent, provider, text, lambda piece: print(harmless(piece), end="", flush=True))
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


def _say(runner: asyncio.Runner, agent: Agent, provider: Provider, text: str) -> bool:
    if not text.strip():
        return False
    if is_full(agent.context().size.tokens, provider.window):
        print(FULL)
        return False
    try:
        runner.run(_answer(agent, provider, text))
    except (CancelledError, KeyboardInterrupt):
        print("\n(interrupted; what had been said is kept)")
    else:
        print()
    print(meter(agent.context().size.tokens, provider.window), flush=True)
    return False
