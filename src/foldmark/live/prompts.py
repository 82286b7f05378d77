"""Commands that a person types as a prompt in the agent, such as `:drop 18` [SPEC 5.7].

Each is a command of the registry with another sign. Foldmark answers it at once; the model is not asked.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec

from foldmark.commands import REGISTRY
from foldmark.core import selections
from foldmark.core.errors import CommandError, ConflictError, FoldmarkError
from foldmark.core.wording import nearest, one_line
from foldmark.editing import answering
from foldmark.live import lists
from foldmark.live.clients.dialect import ClientDialect, ClientRequest, TypedPrompt
from foldmark.log import Agent
from foldmark.operations.effects import Asking, AskModel, EditText, Result, RunAgent, WaitForAgents
from foldmark.overlay.pieces import ClientMessage, SentMessage, decoded
from foldmark.rendering import harmless, result_text
from foldmark.text.choosing import Choice
from foldmark.text.consent import Answer, Look, No, Yes, read

FM_SIGN = ":"
"""The sign before a command in the text of the skill /fm, regardless of the setting `live_sign`."""

_ALIKE = "mark marks clear rewind undo suggest forget remember cancel summarize restore operations recall"
_OF_CONTEXT = "drop evict explain diff at"

COMMANDS = {
    **{name: name for name in _ALIKE.split()},
    **{name: f"context {name}" for name in _OF_CONTEXT.split()},
    "show": "message show",
}
"""The prompts that map to commands of the registry."""

OWN = ("context", "turns", "results", "help")
ANSWERS = ("yes", "no", "all but", "only")
"""Answers to a preview."""

AT_WORK = "the agent is at work; type it again when it waits for a prompt"
"""Why a command is not executed now."""

_SAME = {"context show": "context show", "message list": "turns", "messages": "turns", "help": "help"}
"""Other commands of the registry, and the prompts that do the same here."""

_REFUSED = {
    **dict.fromkeys(
        ("pin", "unpin", "context window", "context budget"),
        "a live session has no window: every turn of its context is sent; {sign}drop ID takes one out",
    ),
    **dict.fromkeys(("note", "attach", "retry"), "prompts belong in the agent: type the prompt without a sign"),
}
"""Commands of the registry that mean nothing in a live session, and why."""

_WORDS = "|".join((*COMMANDS, *OWN, *ANSWERS))
_FORM = re.compile(r"[ \t]?[A-Za-z][A-Za-z-]*(?:[ \t][^\n]*)?")
"""What follows the sign in a prompt that is meant for Foldmark: a word, and arguments on the same line."""

_EXPANDED = re.compile(r"\s*<foldmark-live>.*</foldmark-live>\s*\Z", re.DOTALL)
"""The end of the text of the skill /fm (`skills/fm/SKILL.md` of the plugin), for use without a gateway."""

_SKILL = re.compile(r"\ABase directory for this skill: [^\n]*\n\n")
"""What Claude Code puts before the text of a skill."""

_LEFT_OUT = "(a command to Foldmark)"
_BETWEEN = re.compile(r"(?<=>\n)[^\n]+(?=\n</)")
"""A line between two tags."""
_SPEAKER = re.compile(r"^(?:User|Human|Assistant): ", re.MULTILINE)
"""The beginning of a message in a conversation that is quoted."""

_NOT_DONE = "foldmark: nothing was done for "
_REFUSAL = re.compile(rb'"text"\s*:\s*"' + _NOT_DONE.encode())

_ANSWER = re.compile(
    r"Answer (yes, no[^.]*?)(, or (?:say what else to look for|/\w+ with other words))?\."
    r"(?: Any other answer changes nothing\.)?"
)
"""The end of a preview, as it is answered in the chat."""

T = TypeVar("T")


def help_text(sign: str) -> str:
    """Return the help, with the commands as typed here."""
    return f"""\
  {sign}context            how much this session holds, and its largest turns; {sign}context show lists its messages
  {sign}turns [N]          the largest turns with their ids; {sign}results [N] the largest results of tools
  {sign}mark NAME          set a mark; {sign}clear NAME goes back to it, {sign}clear empties the context
  {sign}drop ID…           turns leave; {sign}undo drops the newest one
  {sign}evict ID…          results of tools leave, a placeholder stays; {sign}suggest lists those that nobody needs
  {sign}forget WHAT        what matches leaves, after a preview: {sign}yes, {sign}no, {sign}all but 2, {sign}only 1 3
  {sign}summarize MARK     a summary takes the place of what follows a mark
  {sign}operations         what was changed; {sign}restore ID takes it back, {sign}diff ID shows what it did
  {sign}explain ID         why a message is or is not in the context; {sign}show ID shows a turn
  A prompt that begins with {sign}{sign} goes to the model with one {sign}"""


def command_in(prompt: str, sign: str) -> str | None:
    """Return the command in a prompt, without its sign; None for an ordinary prompt. A prompt of one line that looks
    like a command but is none counts too: it is answered with the nearest one. An unknown command of /fm is answered
    with the help."""
    own = _EXPANDED.sub("", prompt)
    if expanded := own != prompt:
        own = _SKILL.sub("", own)
    wanted = FM_SIGN if expanded else sign
    if own.startswith(wanted):
        line = own.removeprefix(wanted)
        if _FORM.fullmatch(line) or is_answer(line):
            return line
    return "help" if expanded else None


def is_command(line: str, sign: str) -> bool:
    """Return True for a line that is a command without doubt, even among other lines."""
    command = line.removeprefix(sign)
    if not line.startswith(sign):
        return False
    return re.match(rf"(?:{_WORDS})(?=\s|$)", command) is not None or isinstance(
        _read(command), Yes | No | Choice | Look
    )


def without_commands(text: str, sign: str, has_left: Callable[[str], bool] = lambda _: False) -> str:
    """Return a text without its command lines, for a request outside the conversation that repeats prompts. A question
    about a prompt ends with it, or has it between two tags: there a mistake counts as a command, too. So it does where
    a question quotes a conversation, as Gemini CLI's for the title of an earlier session; the answers to prompts with
    commands begin with replies, and are left out. So are quoted messages that have left the context (`has_left`)."""
    text = _quoted_without(text, sign, has_left)
    before, _, last = text.rstrip().rpartition("\n")
    if command_in(last.strip(), sign) is not None:
        text = f"{before}\n{_LEFT_OUT}" if before else _LEFT_OUT
    text = _BETWEEN.sub(lambda line: line[0] if command_in(line[0].strip(), sign) is None else _LEFT_OUT, text)
    signs = (sign, FM_SIGN)
    return "\n".join(
        _LEFT_OUT if any(is_command(line.lstrip(" \t"), each) for each in signs) else line for line in text.split("\n")
    )


def _quoted_without(text: str, sign: str, has_left: Callable[[str], bool]) -> str:
    """Return a text without the commands in the conversation that it quotes, without the answers to them, and without
    messages that have left."""
    quoted, gap, question = text.rpartition("\n\n")
    begins = [found.start() for found in _SPEAKER.finditer(quoted)]
    kept, answered = [quoted[: begins[0]] if begins else quoted], False
    for begin, end in pairwise([*begins, len(quoted)]):
        turn = quoted[begin:end]
        speaker, _, said = turn.partition(": ")
        if speaker != "Assistant":
            lines = said.split("\n")
            clean = [_LEFT_OUT if command_in(line.strip(), sign) is not None else line for line in lines]
            answered = clean != lines
            turn = f"{speaker}: " + "\n".join(clean)
        if not has_left(said) and (speaker != "Assistant" or not answered):
            kept.append(turn)
    return "".join(kept) + gap + question


def unescaped(raw: bytes, prompt: TypedPrompt, sign: str) -> bytes:
    """Return a message, or a block of one, with one sign if its prompt is a command escaped with two."""
    if not prompt.text.startswith(sign * 2) or command_in(prompt.text.removeprefix(sign), sign) is None:
        return raw
    once = sign.encode()
    begins = rb'("\s*:\s*"|\\n)' if prompt.queued else rb'("\s*:\s*")'
    twice = begins + re.escape(once * 2) + rb"(?=[ \t]?[A-Za-z0-9#])"
    return re.sub(twice, lambda found: found[1] + once, raw, count=1)


def without_escape(request: ClientRequest, raw: bytes, sign: str) -> bytes:
    """Read a message, and return it with one sign for each of its prompts that is a command escaped with two."""
    dialect, blocks = request.dialect, request.dialect.blocks(raw)
    made = _unescaped(dialect, dialect.read(raw), blocks, sign)
    return raw if made == blocks else dialect.rewritten(raw, made)


def without_escapes(request: ClientRequest, messages: Sequence[bytes], sign: str) -> list[bytes]:
    """Return the messages to send for a request as `without_escape` does; those that the client sends as one are one
    again if that changes anything."""
    twice, dialect = sign.encode() * 2, request.dialect
    made = [without_escape(request, each, sign) if twice in each else each for each in messages]
    divided = [each.alone for each in request.sent]
    if made == messages or not any(divided) or len(made) != len(divided):
        return made
    found = [SentMessage(raw, dialect.read(raw), alone) for raw, alone in zip(made, divided, strict=True)]
    return [each.raw for each in dialect.joined(found)]


def as_sent(dialect: ClientDialect, message: ClientMessage, sign: str) -> ClientMessage:
    """Return a message as `without_escape` leaves it."""
    return msgspec.structs.replace(message, blocks=_unescaped(dialect, message, message.blocks, sign))


def _unescaped(dialect: ClientDialect, message: ClientMessage, blocks: Sequence[bytes], sign: str) -> tuple[bytes, ...]:
    made = list(blocks)
    for prompt in dialect.prompts(message):
        made[prompt.block] = unescaped(made[prompt.block], prompt, sign)
    return tuple(made)


def without_repeated(dialect: ClientDialect, raw: bytes, sign: str, has_left: Callable[[str], bool]) -> bytes:
    """Return a message without the commands to Foldmark that it repeats, and without messages in a conversation that it
    quotes that have left; empty bytes for a reply to a command."""
    message = dialect.read(raw)
    if dialect.is_reply(message):
        return b""
    queued = {each.block for each in dialect.prompts(message) if each.queued and command_in(each.text, sign)}
    kept = [block for at, block in enumerate(message.blocks) if at not in queued and not dialect.is_own(block)]
    blocks = list(map(decoded, kept))
    clean = [
        {**block, "text": without_commands(block["text"], sign, has_left)}
        if isinstance(block.get("text"), str)
        else block
        for block in blocks
    ]
    if clean == blocks and len(kept) == len(message.blocks):
        return raw
    return dialect.rewritten(raw, map(msgspec.json.encode, clean)) if clean else b""


def is_answer(line: str) -> bool:
    """Return True for an answer to a preview (`foldmark.text.consent.ANSWERS`) that is no command."""
    return re.match(rf"(?:{'|'.join(ANSWERS)})(?=\s|$)", line) is not None or _read(line) is not None


def _read(line: str) -> Answer | None:
    """Return how a line answers a preview; None for a command, and for a number alone, which is a prompt."""
    words = line.split()
    if "\n" in line or not re.match(r"[^\W_]|#", line) or (len(words) == 1 and words[0].isdecimal()):
        return None
    named = {name.split()[0] for name in (*COMMANDS, *COMMANDS.values(), *OWN)}
    shows = words[0] == "show" and len(words) > 1 and not words[1].isdecimal()
    return None if words[0] in named and not shows else read(line)


def open_preview(agent: Agent) -> int | None:
    """Return the id of the open preview; None if there is none."""
    with agent.reading() as (moment, at):
        return answering.open_id(moment, at)


def carried_out(agent: Agent, line: str, *, while_working: bool = False, typed_at: int | None = None) -> str:
    """Execute a command and return the reply. A FoldmarkError is not raised but becomes the reply.

    `while_working` is True if the agent works on after the command. `typed_at` is the newest event of the time when the
    command was typed; None for now."""
    try:
        if while_working and line.split()[0] in ("forget", "remember"):
            # The preview would not have what the agent still says.
            raise CommandError(AT_WORK)
        if typed_at is not None and is_answer(line) and (open_preview(agent) or 0) > typed_at:
            raise CommandError("this was typed before the preview was shown; nothing has changed, so answer it now")
        text = _carried_out(agent, line)
    except FoldmarkError as error:
        text = f"foldmark: {error}"
    return harmless(_with_sign(text, agent.log.given.live_sign))


def shown(agent: Agent, result: Result) -> str:
    """Return a result as it is shown in the agent."""
    return harmless(_with_sign(f"foldmark: {result_text(result)}", agent.log.given.live_sign))


def only_shows(line: str) -> bool:
    """Return True for a command that records nothing."""
    return line.split()[0] in ("context", "turns", "results", "help", "marks", "operations", "explain", "diff", "show")


def not_done(line: str, why: str, sign: str) -> str:
    """Return the reply to a command that could not be executed."""
    return harmless(f"{_NOT_DONE}{sign}{one_line(line)[:80]}: {why}")


def is_not_done(message: ClientMessage) -> bool:
    """Return True for a reply by `not_done`. It may never have been recorded."""
    return message.role == "assistant" and len(message.blocks) == 1 and bool(_REFUSAL.search(message.blocks[0]))


def _carried_out(agent: Agent, line: str) -> str:
    sign = agent.log.given.live_sign
    if is_answer(line):
        done = _repeated(agent, lambda: answering.answered(agent, line))
        if done is not None:
            return _ANSWER.sub(lambda found: _answer(found, sign), result_text(done))
        if open_preview(agent) is not None:
            raise CommandError(f"nothing has changed; answer {sign}yes, {sign}no, {sign}all but 2 or {sign}only 1 3")
        if is_command(f"{sign}{line}", sign) and not isinstance(_read(line), Look):
            raise CommandError(f"there is no open preview; {sign}forget WHAT or {sign}suggest makes one")
    name, rest = _named(line, sign)
    if name in _SHOWS:
        return _SHOWS[name](agent, rest)
    if name == "diff" and rest.strip().isdecimal():
        rest = _of_operation(agent, int(rest))
    result = _repeated(agent, lambda: _done(agent, f"/{COMMANDS[name]}{rest}"))
    return _ANSWER.sub(lambda found: _answer(found, sign), result_text(result))


def _of_operation(agent: Agent, id: int) -> str:
    """Return the arguments of a difference: what an operation did, or what has changed since a mark or a message."""
    with agent.reading() as (moment, _):
        found = [
            each for each in selections.operations(moment, agent.id, after=id - 1, until=id) if each.kind != "mark"
        ]
    return f" {id - 1} {id}" if found else f" {id}"


def _answer(found: re.Match[str], sign: str) -> str:
    """Return the end of a preview as it is answered here: anything without a sign goes to the model."""
    again = f", or look again with {sign}forget WHAT" if found[2] else ""
    return f"Answer {', '.join(sign + each for each in found[1].split(', '))}{again}."


def _named(line: str, sign: str) -> tuple[str, str]:
    """Return the prompt that a line names, and the rest of the line. Raises CommandError for a line that names none."""
    words = line.split()
    prompts = {**{each: each for each in (*COMMANDS, *OWN)}, **_SAME, **{full: own for own, full in COMMANDS.items()}}
    for size in (2, 1):
        typed = " ".join(words[:size])
        if len(words) < size or line[:1].isspace():
            continue
        if typed in prompts and (typed != "context" or len(words) == 1):
            rest = line.split(None, size)[size:]
            return prompts[typed], f" {rest[0]}" if rest else ""
        if typed in _REFUSED:
            raise CommandError(f"{sign}{typed}: {_REFUSED[typed].format(sign=sign)}")
        if typed in REGISTRY.commands:
            raise CommandError(f"{sign}{typed} works in the chat of this conversation, not in the agent")
    raise CommandError(_unknown(line, prompts, sign))


def _unknown(line: str, prompts: Mapping[str, str], sign: str) -> str:
    words = line.split()
    both = " ".join(words[:2]).lower()
    near = nearest(both, prompts) if len(words) > 1 else []
    near = near or [each for each in prompts if each == words[0].lower()] or nearest(words[0], prompts)
    size = near[0].count(" ") + 1 if near else 0
    hint = f"; did you mean {sign}{' '.join((prompts[near[0]], *words[size:]))}?" if near else "."
    typed = f"{sign}{line.rstrip()[:80]}"
    # Typed behind a command of the client's own, no text is a prompt.
    sends = "" if sign.endswith(" ") else f"{sign}{typed} sends it to the model, "
    return f"there is no command {typed}{hint} {sends}{sign}help lists the commands"


def _done(agent: Agent, line: str) -> Result:
    result = agent.do(line, asking=Asking(answers=True))
    if isinstance(result.effect, AskModel | EditText | RunAgent | WaitForAgents):
        raise CommandError(f"{line.split()[0]} works in the chat; `foldmark chat` opens this conversation")
    return result


def _repeated(agent: Agent, act: Callable[[], T]) -> T:
    """Call `act`, once more if something was recorded in the meantime."""
    try:
        return act()
    except ConflictError:
        agent.context()
        return act()


def _help(agent: Agent, rest: str) -> str:
    return help_text(agent.log.given.live_sign)


_SHOWS: dict[str, Callable[[Agent, str], str]] = {
    "help": _help,
    "context": lists.context,
    "context show": lists.messages,
    "turns": lists.turns,
    "results": lists.results,
}
"""The prompts that Foldmark answers by itself, without the registry."""


def _with_sign(text: str, sign: str) -> str:
    """Return a reply in which the commands that work here are written as they are typed here."""
    typed = {**{full: own for own, full in COMMANDS.items()}, **_SAME}
    names = "|".join(sorted(map(re.escape, typed), key=len, reverse=True))
    return re.sub(rf"(?<![\w/.])/({names})(?=[\s`;,.)]|$)", lambda found: sign + typed[found[1]], text)
