"""What a request asks: prompts, results of tools, and commands to Foldmark among them [SPEC 5.7]. Pure.

A prompt may have been typed while the agent worked; `foldmark.text.queued` says in which forms clients send those.
"""

from functools import partial
from typing import NamedTuple

from foldmark.core.wording import one_line
from foldmark.live.clients.dialect import ClientRequest, TypedPrompt
from foldmark.live.prompts import command_in, is_command
from foldmark.text.queued import unjoined
from foldmark.wires.parts import ResultMessage


class AskedCommand(NamedTuple):
    """A command in a prompt: its place (message, block), the line without its sign, and a key that it has in every
    request in which the client sends it."""

    place: tuple[int, int]
    line: str
    key: str = ""


class AskedFor(NamedTuple):
    """What a request asks: the keys of its messages, the prompts and the results of tools after the newest answer, and
    the commands among them, in order. `first` is the first message of that. `goes_on` is True if there is more to
    answer than the commands."""

    keys: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    commands: tuple[AskedCommand, ...] = ()
    first: int = 0
    goes_on: bool = False


def asked_line(prompt: TypedPrompt, sign: str) -> str | None:
    """Return the command in a prompt, as `command_in` does. A text of several prompts or paragraphs with a command
    among them is one as a whole: it is refused (`in_doubt`)."""
    line = command_in(prompt.text, sign)
    if line is None and prompt.joined and len(unjoined(prompt.text, partial(is_command, sign=sign))) > 1:
        return prompt.text
    return line


def in_doubt(line: str, sign: str) -> str:
    """Return the reply to a text with a command in it; empty for a command."""
    found = next((each for each in line.split("\n") if is_command(each, sign)), "") if "\n" in line else ""
    return found and (
        f"foldmark: nothing was sent and nothing was done. {one_line(found)[:80]} is a line of this prompt: a command, "
        "or part of a text. Type a command alone, or put a blank before it to send the text to the model"
    )


def asked_in_request(
    request: ClientRequest, sign: str, before: AskedFor | None = None, *, failed: bool = False
) -> AskedFor:
    """Return what a request asks. `before` is what the request before it asked, if no answer to that has come; `failed`
    is True if none will come. Its author has given that up, unless the request is sent again, or the client steers."""
    dialect, messages = request.dialect, request.messages
    keys = tuple(message.key for message in messages)
    answers = [at for at, message in enumerate(messages) if message.role == "assistant"]
    first, goes_on = answers[-1] + 1 if answers else 0, False
    old, asks = list[str](), list[str]()
    if before is not None and keys != before.keys:
        old = list(before.asks)
        if dialect.steers and not failed and keys[: len(before.keys)] == before.keys:
            # What has come of the answer follows the messages that asked for it.
            first, old, goes_on = min(first, before.first), [], True
    found, met = list[AskedCommand](), dict[tuple[str, str], int]()
    anchor = ""
    for at, message in enumerate(messages[first:], first):
        # A client may add a prompt to the message before a system message.
        if at == first or not (message.role == "system" or request.sent[at].alone):
            # Equal replies may precede equal commands.
            anchor = " ".join(message.results) or (f"{keys[at - 1]} {keys[:at].count(keys[at - 1])}" if at else "")
        typed = {each.block: each for each in dialect.prompts(message)}
        for block, part in enumerate(dialect.parts(message)):
            line = asked_line(typed[block], sign) if block in typed else None
            if line is not None:
                met[anchor, line] = met.get((anchor, line), 0) + 1
                found.append(AskedCommand((at, block), line, f"{anchor} {met[anchor, line]} {line}"))
            elif dialect.is_interruption(part):
                goes_on = False
            elif block in typed or isinstance(part, ResultMessage):
                asks.append(f"result {part.call_id}" if isinstance(part, ResultMessage) else typed[block].text)
                if asks[-1] in old:
                    old.remove(asks[-1])
                else:
                    goes_on = True
    return AskedFor(keys, tuple(asks), tuple(found), first, goes_on)
