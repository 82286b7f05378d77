"""Commands that a person types as a prompt in the agent, such as `:drop 18` [SPEC 5.7].

Each is a command of the registry with another sign. Foldmark answers it at once; the model is not asked.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from foldmark.core.errors import CommandError, ConflictError, FoldmarkError
from foldmark.core.turns import Turn
from foldmark.core.wording import count, one_line
from foldmark.editing import offers
from foldmark.live.clients.dialect import ClientDialect, ClientRequest, decoded
from foldmark.live.status import taken_out
from foldmark.log import Agent
from foldmark.log.live_session import client_tokens
from foldmark.operations.effects import AskModel, EditText, Result, StartPlanning, WaitForAgents
from foldmark.rendering import harmless, result_text

FM_SIGN = ":"
"""The sign before a command in the text of Claude Code's command /fm, regardless of the setting `live_sign`."""

COMMANDS = {
    "mark": "mark",
    "clear": "clear",
    "drop": "context drop",
    "evict": "context evict",
    "forget": "forget",
    "remember": "remember",
    "restore": "restore",
    "undo": "undo",
    "operations": "operations",
    "marks": "marks",
}
"""The prompts that map to commands of the registry."""

OWN = ("context", "help")
ANSWERS = ("yes", "no", "all but", "only")
"""Answers to a preview."""

_WORDS = "|".join((*COMMANDS, *OWN, *ANSWERS))
_PROMPT = re.compile(rf"(?P<name>{_WORDS})(?=\s|$)(?P<rest>[^\n]*)")

_EXPANDED = re.compile(r"\s*<foldmark-live>.*</foldmark-live>\s*\Z", re.DOTALL)
"""The end of the text of Claude Code's command /fm (`sessions/install/texts/fm.md`), for use without a gateway."""

_AGREE = re.compile(r"\n`/agree \d+` carries it out\.")

_LARGEST = 3

T = TypeVar("T")


class AskedCommand(NamedTuple):
    """A command in a prompt: its place (message, block), and the line without its sign."""

    place: tuple[int, int]
    line: str


def help_text(sign: str) -> str:
    """Return the help, with the commands as typed here."""
    return f"""\
  {sign}context            how much this session holds, and its largest turns
  {sign}mark NAME          set a mark; {sign}clear NAME goes back to it, {sign}clear empties the context
  {sign}drop ID…           turns leave; {sign}undo drops the newest one
  {sign}evict ID…          results of tools leave, a placeholder stays
  {sign}forget WHAT        what matches leaves, after a preview: {sign}yes, {sign}no, {sign}all but 2, {sign}only 1 3
  {sign}operations         what was changed; {sign}restore ID takes it back
  A prompt that begins with {sign}{sign} goes to the model with one {sign}"""


def command_in(prompt: str, sign: str) -> str | None:
    """Return the command in a prompt, without its sign; None for an ordinary prompt. An unknown command of /fm is
    answered with the help."""
    own = _EXPANDED.sub("", prompt)
    expanded = own != prompt
    wanted = FM_SIGN if expanded else sign
    found = _PROMPT.fullmatch(own, len(wanted)) if own.startswith(wanted) else None
    if found is not None:
        return found["name"] + found["rest"]
    return "help" if expanded else None


def without_commands(text: str, sign: str) -> str:
    """Return a text without its command lines, for a request outside the conversation that repeats prompts."""
    signs = "|".join(map(re.escape, {sign, FM_SIGN}))
    return re.sub(rf"^[ \t]*(?:{signs})({_WORDS})(?=\s|$)[^\n]*$", "(a command to Foldmark)", text, flags=re.MULTILINE)


def unescaped(raw: bytes, prompt: str, sign: str) -> bytes:
    """Return a message with one sign if its prompt is a command escaped with two."""
    if not prompt.startswith(sign) or command_in(prompt.removeprefix(sign), sign) is None:
        return raw
    once = sign.encode()
    twice = rb'("\s*:\s*")' + re.escape(once * 2) + rb"(?=(?:" + _WORDS.encode() + rb')(?:[\s"\\]))'
    return re.sub(twice, lambda found: found[1] + once, raw, count=1)


def asked_command(request: ClientRequest, sign: str) -> AskedCommand | None:
    """Return the command in a request's last prompt; None if there is none. Only system messages may follow the prompt,
    since the client adds those."""
    for at in range(len(request.sent) - 1, -1, -1):
        message = request.sent[at].message
        if message.role != "system":
            prompt = request.dialect.prompt(message)
            line = None if prompt is None else command_in(prompt.text, sign)
            return None if prompt is None or line is None else AskedCommand((at, prompt.block), line)
    return None


def without_escape(request: ClientRequest, raw: bytes, sign: str) -> bytes:
    """Read a message, and return it with one sign if its prompt is a command escaped with two."""
    prompt = request.dialect.prompt(request.dialect.read(raw))
    return raw if prompt is None else unescaped(raw, prompt.text, sign)


def without_repeated(dialect: ClientDialect, raw: bytes, sign: str) -> bytes:
    """Return a message without the commands to Foldmark that it repeats; empty bytes for a reply to one."""
    message = dialect.read(raw)
    if dialect.is_reply(message):
        return b""
    blocks = list(map(decoded, message.blocks))
    clean = [
        {**block, "text": without_commands(block["text"], sign)} if isinstance(block.get("text"), str) else block
        for block in blocks
    ]
    return raw if clean == blocks else dialect.rewritten(raw, map(msgspec.json.encode, clean))


def carried_out(agent: Agent, line: str) -> str:
    """Execute a command and return the reply. A FoldmarkError is not raised but becomes the reply."""
    try:
        text = _carried_out(agent, line)
    except FoldmarkError as error:
        text = f"foldmark: {error}"
    return harmless(_with_sign(text, agent.log.given.live_sign))


def _carried_out(agent: Agent, line: str) -> str:
    name = next(each for each in (*COMMANDS, *OWN, *ANSWERS) if re.match(rf"{each}(?=\s|$)", line))
    if name == "help":
        return help_text(agent.log.given.live_sign)
    if name == "context":
        return context(agent)
    if name in ANSWERS:
        done = _repeated(agent, lambda: offers.answered(agent, line))
        if done is None:
            raise CommandError(f"there is no open preview; {agent.log.given.live_sign}forget WHAT makes one")
        return result_text(done)
    result = _repeated(agent, lambda: _done(agent, f"/{COMMANDS[name]}{line[len(name) :]}"))
    text = result_text(result)
    return _AGREE.sub("", text)  # :yes is simpler


def _done(agent: Agent, line: str) -> Result:
    result = agent.do(line)
    if isinstance(result.effect, StartPlanning):
        return offers.preview(agent)
    if isinstance(result.effect, AskModel | EditText | WaitForAgents):
        raise CommandError(f"{line.split()[0]} works in the chat; `foldmark chat` opens this conversation")
    return result


def _repeated(agent: Agent, act: Callable[[], T]) -> T:
    """Call `act`, once more if something was recorded in the meantime."""
    try:
        return act()
    except ConflictError:
        agent.context()
        return act()


def context(agent: Agent) -> str:
    """Return the size of the client's next request, and the largest turns of the context."""
    with agent.reading() as (moment, at):
        tokens, out = client_tokens(agent, moment, at), taken_out(moment, at)
    window, size = agent.window, at.size
    turns = [turn for turn in agent.context().turns(10_000) if turn.id is not None]
    filled = f"~{tokens:,} of {window:,} tokens ({100 * tokens // max(1, window)}%)"
    first = f"Context of this session: {filled} · {count(size.messages, 'message')}, {count(len(turns), 'turn')}"
    first += f" · ~{out:,} tokens taken out" if out > 0 else " · nothing taken out"
    largest = sorted(turns, key=_tokens, reverse=True)[:_LARGEST]
    named = " · ".join(f"turn {turn.id} “{_title(turn)}” ~{_tokens(turn):,}" for turn in largest)
    return f"{first}\nLargest: {named}" if named else first


def _tokens(turn: Turn) -> int:
    return sum(message.tokens for message in turn.messages)


def _title(turn: Turn) -> str:
    text = next((message.content for message in turn.messages if message.kind == "user"), "")
    return one_line(text)[:40]


def _with_sign(text: str, sign: str) -> str:
    """Return a reply in which the commands that work here are written as they are typed here."""
    for name, command in COMMANDS.items():
        text = re.sub(rf"(?<![\w/.])/{command}(?=[\s`;,.)]|$)", sign + name, text)
    return text
