"""Tools, and the permission of a person that some of them need [SPEC 4.1].

An answer of always or never is remembered for the conversation, as a setting of its root agent, so its children need
not ask again. It covers what its `Coverage` says: all uses of the tool, or those that begin with the same command. A
project's settings file cannot give this permission (`foldmark.settings.loading`). Settings of the environment or the
command line override it; a permanent answer then holds until the log is closed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Lock
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from foldmark.core.codec import well_formed
from foldmark.core.config import approvals, approved
from foldmark.core.errors import CommandError
from foldmark.core.request import ToolSpec
from foldmark.log import Agent, Log, family
from foldmark.operations.effects import Asking, Permission
from foldmark.request.standing import end_of
from foldmark.sending.interruption import watched

WAKE = 0.05
"""Seconds between two checks for an interruption while another question is open."""


THIS_CONVERSATION = "this conversation"
"""The words in a tool's description for the conversation of the model that uses the tool."""

_T = TypeVar("_T", bound=Struct)

_TYPES = {str: "string", int: "integer", bool: "boolean"}


def schema(arguments: type[Struct], *required: str) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, with the description that `Meta` gives for each.

    Limits of values are left out to save tokens; the error for a wrong value names them. `required` are arguments that
    a model has to give although they have a default.
    """
    hints, given = get_type_hints(arguments, include_extras=True), fields(arguments)
    needed = [each.encode_name for each in given if each.required or each.name in required]
    found = {"type": "object", "properties": {each.encode_name: _value_schema(hints[each.name]) for each in given}}
    return {**found, "required": needed} if needed else found


def _value_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of a value. For a union, it names the first type: the one that a model should give."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        (meta,) = (each for each in parts[1:] if isinstance(each, Meta))
        more = meta.extra_json_schema or {}
        kind = {} if "anyOf" in more else _value_schema(parts[0])
        return {**kind, **more, **({"description": meta.description} if meta.description else {})}
    if origin is Literal:
        return {"type": "string", "enum": [*parts]}
    if origin is list:
        return {"type": "array", "items": _value_schema(parts[0])}
    return {"type": _TYPES[hint]} if hint in _TYPES else _value_schema(parts[0])


def about(description: str, **more: Any) -> Meta:
    """Return the description of an argument, with further members of its JSON Schema."""
    return Meta(description=description, extra_json_schema=more or None)


class Coverage(NamedTuple):
    """The names in `tool_approval` that decide a use of a tool, the most specific first. A permanent answer sets
    `remembered`, and `words` says what that covers. An `unclear` use may contain any other one."""

    names: tuple[str, ...]
    remembered: str
    words: str
    unclear: bool = False


def all_uses(tool: str, words: str = "") -> Coverage:
    """Return the coverage of an answer for a whole tool."""
    return Coverage((tool,), tool, words or f"every use of {tool}")


class Tool(Struct, frozen=True):
    """A tool: `arguments` is the type that its JSON must fit, and `run` gets a value of it.

    A tool that runs `together` with others changes nothing that another call of the same answer could see. `question`
    returns the question that a person has to answer with yes before it runs, or None if no question is needed;
    `coverage` returns what a permanent answer covers, by default all uses of the tool. For a `quiet` tool, the person
    sees no results, only errors.

    A description is true for every model that may have the tool, but for its end, `own`, which holds for Foldmark's own
    models only. It says `THIS_CONVERSATION` and speaks to nobody, so that it also holds for a model that works on a
    conversation of which it sees nothing.
    """

    spec: ToolSpec
    arguments: type[Struct]
    run: Callable[[Agent, Any, Asking], str]
    together: bool = False
    quiet: bool = False
    question: Callable[[Agent, Any], str | None] | None = None
    coverage: Callable[[Agent, Any], Coverage] | None = None
    own: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        description: str,
        arguments: type[Struct],
        run: Callable[[Agent, Any, Asking], str],
        *,
        required: Sequence[str] = (),
        own: str = "",
        **more: Any,
    ) -> "Tool":
        """Return a tool with the schema of its arguments; `more` are further fields of the tool."""
        whole = " ".join(filter(None, (description, own)))
        return cls(ToolSpec(name, whole, schema(arguments, *required)), arguments, run, own=own, **more)

    def told_elsewhere(self, spec: ToolSpec, conversation: str) -> str:
        """Return the description of `spec`, this tool's or a variant of it, for another program's model, with the words
        `conversation` for the conversation that it works on."""
        return spec.description.removesuffix(self.own).rstrip().replace(THIS_CONVERSATION, conversation)

    def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Asking) -> str:
        """Run with a model's arguments. Raises CommandError for wrong arguments, and without an approval."""
        arguments = read_arguments(self.spec, self.arguments, args)
        if self.question is not None and (question := self.question(agent, arguments)) is not None:
            coverage = self.coverage(agent, arguments) if self.coverage is not None else None
            approve(agent, self.spec.name, question, asking, coverage=coverage)
        return self.run(agent, arguments, asking)


def read_arguments(spec: ToolSpec, arguments: type[_T], given: Mapping[str, Any], *, strict: bool = True) -> _T:
    """Return the arguments that a model has given as a value of their type. Raises CommandError if they are wrong."""
    try:
        return msgspec.convert(well_formed(given), arguments, strict=strict)
    except (msgspec.ValidationError, RecursionError) as error:
        names = ", ".join(spec.parameters["properties"]) or "no members"
        raise CommandError(f"{spec.name} takes an object with {names}: {str(error)[:200]}") from None


class NotApprovedError(CommandError):
    """A person has not allowed this, and nobody can be asked here. `question` is for an interface that can ask;
    `command` is the command with which a person allows it beforehand, "" if a setting from outside forbids that."""

    def __init__(self, text: str, question: str, command: str) -> None:
        super().__init__(text)
        self.question, self.command = question, command


class _Conversation:
    """A conversation while its log is open. The question being asked holds `lock`, `waiting` lists the uuids of all
    agents with an unanswered question, and `answers` holds permanent answers by `Coverage.remembered`."""

    def __init__(self) -> None:
        self.lock, self.waiting, self.answers = Lock(), list[str](), dict[str, str]()

    @contextmanager
    def waits(self, agent: Agent) -> Iterator[None]:
        """List the agent as waiting during the block."""
        self.waiting.append(agent.id)
        try:
            yield
        finally:
            self.waiting.remove(agent.id)


_open: WeakKeyDictionary[Log, defaultdict[str, _Conversation]] = WeakKeyDictionary()
_opening = Lock()


def approve(
    agent: Agent,
    tool: str,
    question: str,
    asking: Asking,
    arguments: Mapping[str, Any] | None = None,
    coverage: Coverage | None = None,
) -> None:
    """Return if the tool may do what `question` describes; block while a person is asked. `arguments` are the tool's if
    the question shortens them. A permanent answer is for `coverage`, by default all uses of the tool.

    A conversation asks one question at a time. A permanent answer to another question also answers waiting ones. Raises
    CommandError, worded for the model, if the tool is not allowed, nobody can be asked (NotApprovedError), the agent
    has ended, or the turn was interrupted.
    """
    _check_living(agent)
    root, coverage = family.root(agent), coverage or all_uses(tool)
    if _allowed(root, tool, coverage):
        return
    override = root.log.given.overrides.get("tool_approval")
    if asking.approve is None:
        name = coverage.remembered
        command = ""
        if override is None:
            command = f"/config set tool_approval={_setting_with(root, name, 'always')}"
            where = f" in {family.label(root)}: {command}"
        else:
            where = f": {override.source} would have to say {approved(override.value, name, 'always')}"
        raise NotApprovedError(
            f"{tool} needs a person's approval for this, and nobody is there to ask; "
            f"a person can allow it beforehand{where}",
            question,
            command,
        )
    if override is not None:
        question += f"\n({override.source} says to ask: always and never hold until Foldmark ends)"
    conversation = _conversation(root)
    with watched() as cut, conversation.waits(agent), _exclusive(conversation.lock, cut):
        if _allowed(root, tool, coverage):
            return
        answer = asking.approve(Permission(tool, question, arguments or {}, coverage.words))
        _check_going_on(cut)
        _check_living(agent)
        if answer in ("always", "never"):
            _remember(root, coverage.remembered, answer)
    if answer not in ("yes", "always"):
        raise CommandError(f"the person did not allow {tool} to do this; ask what they want instead, or go on without")


def waiting_for_approval(agent: Agent) -> list[str]:
    """Return the uuids of the agents of a conversation that wait for a person's approval in this process, including the
    agent whose question is being asked."""
    return [*_conversation(family.root(agent)).waiting]


def _allowed(root: Agent, tool: str, coverage: Coverage) -> bool:
    """Return True if this use of the tool is allowed without asking. Raises CommandError if it is forbidden."""
    known = _known(root.standing().config.tool_approval)
    override = root.log.given.overrides.get("tool_approval")
    where = override.source if override else "tool_approval of this conversation"
    decisive = _decisive(coverage, known)
    answer = known[decisive]
    if answer == "ask" and (permanent := _decisive(coverage, answers := _conversation(root).answers)):
        answer, where = answers[permanent], "the person"
    forbids = any(each == "never" and name.startswith(f"{tool}(") for name, each in known.items())
    if answer == "always" and coverage.unclear and forbids and decisive in ("", tool):
        return False  # it may contain what is forbidden
    if answer == "never":
        raise CommandError(f"{tool} may not do this, and nobody is asked: {where} says never; go on without it")
    return answer == "always"


def _decisive(coverage: Coverage, known: Mapping[str, str]) -> str:
    """Return the most specific name that has an answer; "" if none has."""
    return next((name for name in coverage.names if name in known), "")


def _known(text: str) -> dict[str, str]:
    """Return the parsed setting. An invalid setting, as from another person's file, means ask."""
    try:
        return approvals(text)
    except ValueError:
        return {"": "ask"}


def _remember(root: Agent, name: str, answer: str) -> None:
    """Store an answer for the conversation. If the setting is overridden, keep the answer while the log is open."""
    with root.log.store.write():
        root.context()
        value = _setting_with(root, name, answer)
        if "tool_approval" in root.log.given.overrides or name not in _known(value):
            _conversation(root).answers[name] = answer
        else:
            root.configure("tool_approval", value)


def _setting_with(root: Agent, name: str, answer: str) -> str:
    """Return the conversation's setting with a new answer for one tool, or for a part of its uses."""
    try:
        return approved(root.standing().config.tool_approval, name, answer)
    except ValueError:
        return approved("ask", name, answer)


def _conversation(root: Agent) -> _Conversation:
    with _opening:
        return _open.setdefault(root.log, defaultdict(_Conversation))[root.id]


@contextmanager
def _exclusive(lock: Lock, cut: Event) -> Iterator[None]:
    """Hold the lock during the block. Raises CommandError if the turn is interrupted during the wait for it."""
    while not lock.acquire(timeout=WAKE):
        _check_going_on(cut)
    try:
        _check_going_on(cut)
        yield
    finally:
        lock.release()


def _check_going_on(cut: Event) -> None:
    if cut.is_set():
        raise CommandError("the turn was interrupted before a person had agreed; nothing was done")


def _check_living(agent: Agent) -> None:
    with agent.log.store.read() as moment:
        end = end_of(moment, agent.id)
    if end:
        raise CommandError(f"{end.sentence}; it can run no more tools")
