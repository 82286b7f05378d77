"""Completion of typed input: commands, options, and values for arguments, each with its help; files in a prompt.

Each word of a usage has a meaning, which determines the values to offer. They come from the log, the settings, and the
tables of models and tools. Interfaces only draw the result.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

from foldmark.commands.agents import entry
from foldmark.commands.registry import REASON_SIGN, WORDS_OF_OTHERS, Command, Registry
from foldmark.commands.show import turn_title
from foldmark.core import selections
from foldmark.core.config import KEYS, KINDS
from foldmark.core.errors import FoldmarkError
from foldmark.core.search import FILTERED_ROLES
from foldmark.core.segments import Segments
from foldmark.core.turns import newest_turns
from foldmark.core.wording import count, one_line, title
from foldmark.cost.messages import next_messages
from foldmark.log import Agent, family
from foldmark.operations.history import everything_done, marks
from foldmark.request.recorded import newest_requests
from foldmark.settings.given import GLOBAL_KINDS
from foldmark.text.mentions import begun, mention

MOST = 50
"""Maximum number of candidates, and of turns read for them."""

MESSAGES_READ = 2000
"""Maximum number of messages read for one completion."""


_TYPED = re.compile(r'(?:"[^"]*(?:"|$)|\S)+')
"""A word of a line that is being typed: its last quote may still be open."""


class CompletionCandidate(NamedTuple):
    """A text that can replace `line[first:last]`. A nonempty `label` is shown instead of the text. Text, label and help
    may contain anything that a person typed or a model wrote."""

    text: str
    help: str
    first: int
    last: int
    label: str = ""


class Completion(NamedTuple):
    """The possible next input. `usage` is the synopsis of the command in three parts, the second being the argument
    that is typed; `help` explains the command or that argument."""

    candidates: tuple[CompletionCandidate, ...] = ()
    usage: tuple[str, str, str] = ("", "", "")
    help: str = ""


Value = tuple[str, str]
"""A value for an argument, with its help."""


class Meaning(NamedTuple):
    """The values that an argument can have. If they are ids, they also match by the words of their help."""

    values: Callable[[Agent], Iterator[Value]]
    are_ids: bool = False


def can_complete(line: str, cursor: int | None = None) -> bool:
    """Return True if something can be completed at `cursor`, by default the end of the line. Reads nothing."""
    return line.lstrip().startswith("/") or begun(line[:cursor]) is not None


def complete(registry: Registry, agent: Agent | None, line: str, cursor: int | None = None) -> Completion:
    """Return the completion at `cursor`, by default the end of the line. Without an agent, offer only commands and
    options, and read no log."""
    typed = line[:cursor]
    head = typed.lstrip()
    if not head.startswith("/"):
        return _files(agent, typed)
    words = head.split()
    name = " ".join(words[:3]) + (" " if head[-1].isspace() else "")
    if found := _commands(registry, name, len(typed) - len(head), len(typed)):
        return Completion(found)
    for size in (2, 1):
        command = registry.commands.get(" ".join(words[:size])[1:])
        match = re.match(r"\S+\s+" * (size - 1) + r"\S+(?=\s)", head)
        if command is not None and match is not None:
            return _arguments(command, registry, agent, typed, len(typed) - len(head) + match.end())
    return Completion()


def _files(agent: Agent | None, typed: str) -> Completion:
    """Return the completions of the mention of a file at the end of a prompt."""
    found = begun(typed)
    if found is None or agent is None:
        return Completion()
    from foldmark.chat.path_completion import paths  # few prompts mention a file

    texts = [(path, mention(path, ended=not path.endswith("/"))) for path in paths(agent.log, found.path, MOST)]
    return Completion(
        tuple(CompletionCandidate(text, "", found.first, len(typed), path) for path, text in texts if text is not None)
    )


def _commands(registry: Registry, name: str, first: int, last: int) -> tuple[CompletionCandidate, ...]:
    """Return the commands that begin with `name`. If there are none, return those whose last word does, and the
    synonym."""
    commands = registry.commands.values()
    found = [each for each in commands if f"/{each.name}".startswith(name)]
    if not found and " " not in name:
        other = WORDS_OF_OTHERS.get(name[1:])
        found = [each for each in commands if f" {each.name}".rpartition(" ")[2].startswith(name[1:])]
        found += [each for each in commands if each.name == other]
    behind = {each.name: " " if each.usage or each.options else "" for each in found}
    return tuple(
        CompletionCandidate(f"/{each.name}{behind[each.name]}", each.help, first, last, each.synopsis) for each in found
    )


def _arguments(command: Command, registry: Registry, agent: Agent | None, typed: str, begin: int) -> Completion:
    behind, synopsis = typed[begin:], command.synopsis
    if command.reason and (sign := REASON_SIGN.search(behind)) and sign[0][-1].isspace():
        return Completion((), _split(synopsis, "[-- REASON]"), command.help)
    words = [(begin + word.start(), word[0]) for word in _TYPED.finditer(behind)]
    is_begun = bool(words) and words[-1][0] + len(words[-1][1]) == len(typed)
    first, word = words.pop() if is_begun else (len(typed), "")
    option, awaited = command.awaited([text for _, text in words])
    usage, help = _split(synopsis, awaited), command.help
    if option:
        usage, help = (f"/{command.name} ", option, ""), dict(command.options)[option]
        awaited = option
    found: list[CompletionCandidate] = []
    if awaited and agent is not None and not word.startswith("-"):
        kind = meaning(f"{command.name} {awaited.strip('[].')}")
        is_rest = awaited.rstrip("]").endswith("...")
        if kind in (CONVERSATION, COMMAND) and is_rest:
            first = begin + len(behind) - len(behind.lstrip())  # the name may contain spaces
            word = typed[first:]
        if kind is not None:
            found = _candidates(kind, registry, agent, word, first, len(typed), quotes=not is_rest)
    if word.startswith("-") or not (word or found or option):
        given = {text.partition("=")[0] for _, text in words}
        helps = {each.partition(" ")[0]: help for each, help in command.options}
        found = [
            CompletionCandidate(f"{each} ", helps.get(each, ""), first, len(typed))
            for each in command.takes
            if each.startswith(word) and each not in given
        ]
    return Completion(tuple(found), usage, help)


def meaning(name: str) -> Meaning | None:
    """Return the meaning of an argument, given as in `recall --agent NAME`; None for free text or a number. Raises
    KeyError if it is not in the table."""
    return MEANINGS[name if name in MEANINGS else name.rpartition(" ")[2]]


def _split(synopsis: str, word: str) -> tuple[str, str, str]:
    if not word or word not in synopsis:
        return synopsis, "", ""
    before, found, behind = synopsis.rpartition(word)
    return before, found, behind


def _candidates(
    kind: Meaning, registry: Registry, agent: Agent, word: str, first: int, last: int, *, quotes: bool
) -> list[CompletionCandidate]:
    """Return the values that match the typed text; ids also match by the words of their help. With `quotes`, a value
    that contains spaces stands in quotes."""
    word = word.lstrip('"')
    if kind == TAGGED_TEXT and not word.startswith("#"):
        return []
    if kind == SETTING_AND_VALUE and "=" in word:
        key, _, word = word.partition("=")
        key = key.lower()
        named = KINDS[key].choices if key in KINDS else ()
        # A table, not a comparison: no interface may compare command names, and `model` is one of them.
        values = {"model": _models}.get(key, lambda _: iter([(each, "") for each in named]))(agent)
        first += len(key) + 1
    elif kind == COMMAND:
        values = iter([(each.name, each.help) for each in registry.commands.values()])
    else:
        if kind.are_ids and (dash := re.match(r"(?:\d+[-,])+", word)):
            first, word = first + dash.end(), word[dash.end() :]
        values = kind.values(agent)
    try:
        return [
            CompletionCandidate(f'"{text}"' if quotes and " " in text else text, help, first, last)
            for text, help in islice((each for each in values if _fits(kind, *each, word)), MOST)
        ]
    except FoldmarkError:
        return []  # reported when the line is carried out


def _fits(kind: Meaning, text: str, help: str, word: str) -> bool:
    word = word.lower()
    by_title = kind.are_ids and len(word) > 1 and not word.isdigit() and word in help.lower()
    return text.lower().startswith(word) or by_title


def _turns(agent: Agent, where: Callable[..., Segments]) -> Iterator[Value]:
    with agent.reading() as (moment, at):
        messages = islice(moment.select(where(at), newest_first=True), MESSAGES_READ)
        turns = newest_turns(messages, MOST)
        coming = next_messages(agent, moment, at)
    for turn in reversed(turns):
        if turn.id is not None:
            tokens = coming.total(turn.messages)
            yield str(turn.id), f"{turn_title(turn.messages)} · {count(len(turn.messages), 'message')}, ~{tokens:,}"


def _pinned(agent: Agent) -> Iterator[Value]:
    with agent.reading() as (moment, at):
        opening = moment.events(list(at.fold.pins))
    for event in opening:
        yield str(event.id), title(event.content)


def _marks(agent: Agent) -> Iterator[Value]:
    with agent.reading() as (moment, at):
        found = marks(moment, at)
    for mark in reversed(found):
        yield mark.name, f"{count(mark.behind.messages, 'message')}, ~{mark.behind.tokens:,} recorded, after it"


def _operations(agent: Agent) -> Iterator[Value]:
    with agent.reading() as (moment, at):
        found = everything_done(moment, at)
    for each in reversed(found):
        state = f"taken back by {each.by}" if each.by is not None else each.took
        reason = one_line(each.event.reason) if each.event.reason else ""
        yield str(each.event.id), " · ".join(filter(None, (each.words, reason, state)))


def _events(agent: Agent) -> Iterator[Value]:
    both = [*_turns(agent, lambda at: at.lineage), *_operations(agent)]
    return iter(sorted(both, key=lambda value: -int(value[0])))


def _results(agent: Agent) -> Iterator[Value]:
    """Yield the tool results in the context that are not evicted, largest first."""
    with agent.reading() as (moment, at):
        newest = islice(moment.select(at.visible, newest_first=True), MESSAGES_READ)
        found = [each for each in newest if each.kind in ("tool_call", "tool_result")]
        calls = {each.id: each for each in found if each.kind == "tool_call"}
        results = [each for each in found if each.kind == "tool_result" and each.id not in at.fold.evicted]
        tokens = next_messages(agent, moment, at).tokens
    for each in sorted(results, key=lambda result: -tokens(result)):
        call = calls.get(each.answers or 0)
        name = str((call.data or {}).get("name", "")) if call is not None else ""
        yield str(each.id), f"~{tokens(each):,} · {name} · {title(each.content)}"


def _requests(agent: Agent) -> Iterator[Value]:
    with agent.log.store.read() as moment:
        found = newest_requests(moment, agent.id, MOST)
    for each in found:
        yield str(each.number), f"~{each.tokens:,} after event {each.event} · {each.purpose}"


def _memos(agent: Agent) -> Iterator[Value]:
    with agent.log.store.read() as moment:
        found = moment.memos(MOST)
    for memo in found:
        yield str(memo.id), f"{title(memo.content)}{memo.labels}"


def _tags(agent: Agent) -> Iterator[Value]:
    with agent.log.store.read() as moment:
        found = moment.memo_tags(MESSAGES_READ)
    for tag, number in found:
        yield f"#{tag}", count(number, "memo")


def _settings(agent: Agent) -> Iterator[Value]:
    config = agent.standing().config
    for key in KEYS:
        yield key, f"{one_line(str(getattr(config, key)))[:40] or 'empty'} · {KINDS[key].takes}"


def _models(agent: Agent) -> Iterator[Value]:
    from foldmark.tokens.models import published

    yield "offline", "built in, needs no network"
    for name, window in published().items():
        yield name, f"{window:,} tokens"


def _conversations(agent: Agent) -> Iterator[Value]:
    with agent.log.store.read() as moment:
        records = selections.conversations(moment)
    for each in records:
        yield each.name or "", count(each.messages, "message")


def _agents(agent: Agent) -> Iterator[Value]:
    with agent.log.store.read():
        found = [(each.agent, entry(each, agent)) for each in family.tree(family.root(agent))]
    for each, its in found:
        yield each.id[:8], f"{family.label(each)} · {its.state}{', this agent' if its.current else ''}"


def _exports(agent: Agent) -> Iterator[Value]:
    yield "markdown", "a document to read"
    yield "json", "a document to process and to import"


_FREE = "CRITERIA DATE FILE FOLDER MESSAGE N NEW OFFER QUERY RANGES SESSION TEXT TOKENS"
"""Words for free text and numbers."""

COMMAND = Meaning(lambda _: iter(()))
"""A chat command: its values come from the registry."""
CONVERSATION = Meaning(_conversations)
MARK = Meaning(_marks)
SETTING_AND_VALUE = Meaning(lambda agent: ((f"{key}=", help) for key, help in _settings(agent)))
TAGGED_TEXT = Meaning(_tags)
VISIBLE_TURN = Meaning(lambda agent: _turns(agent, lambda at: at.visible), are_ids=True)

MEANINGS: Mapping[str, Meaning | None] = {
    **dict.fromkeys(_FREE.split()),
    "session new NAME": None,
    "theme NAME": Meaning(lambda _: ((each, "") for each in GLOBAL_KINDS["theme"].choices)),
    "COMMAND": COMMAND,
    "GID": Meaning(lambda agent: _turns(agent, lambda at: at.lineage), are_ids=True),
    "ID": (event := Meaning(_events, are_ids=True)),
    "ID2": event,
    "KEY": Meaning(_settings),
    "KEY=VALUE": SETTING_AND_VALUE,
    "MARK": MARK,
    "MARK|GID": Meaning(lambda agent: chain(_marks(agent), VISIBLE_TURN.values(agent))),
    "NAME": CONVERSATION,
    "ROLE": Meaning(lambda _: ((each, "") for each in FILTERED_ROLES)),
    "TARGET": Meaning(_exports),
    "UUID": Meaning(_agents),
    "WORDS": TAGGED_TEXT,
    "context drop GID": VISIBLE_TURN,
    "context evict ID": Meaning(_results, are_ids=True),
    "context sent ID": Meaning(_requests, are_ids=True),
    "mark NAME": MARK,
    "memo add TEXT": TAGGED_TEXT,
    "memo remove ID": (memo := Meaning(_memos, are_ids=True)),
    "memo show ID": memo,
    "model NAME": Meaning(_models),
    "pin GID": VISIBLE_TURN,
    "recall --agent NAME": Meaning(lambda agent: chain(_conversations(agent), _agents(agent))),
    "recall --tool NAME": Meaning(lambda agent: ((each.name, title(each.description)) for each in agent.log.tools())),
    "resend GID": VISIBLE_TURN,
    "restore ID": Meaning(_operations, are_ids=True),
    "unpin GID": Meaning(_pinned, are_ids=True),
}
"""The meaning of each word in a usage. An entry that begins with a command applies to that command, any other entry to
all commands."""
