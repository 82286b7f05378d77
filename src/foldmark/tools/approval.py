"""Permission of a person for a tool: ask, always, never, remembered for the conversation [SPEC 4.1].

A permanent answer is a setting of the conversation's root agent, so that its children need not ask again. A project's
file cannot give it (`foldmark.settings.loading`). Settings of the environment or the command line override it; a
permanent answer then holds until the log is closed.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock
from weakref import WeakKeyDictionary

from foldmark.core.config import approvals, approved
from foldmark.core.errors import CommandError
from foldmark.log import Agent, Log, family
from foldmark.operations.effects import Asking
from foldmark.sending.interruption import watched

WAKE = 0.05
"""Seconds between two checks for an interruption while another question is open."""


class _Conversation:
    """One conversation while its log is open: `asking` is held during a question, `said` is tool -> permanent
    answer."""

    def __init__(self) -> None:
        self.asking, self.said = Lock(), dict[str, str]()


_open: WeakKeyDictionary[Log, defaultdict[str, _Conversation]] = WeakKeyDictionary()
_opening = Lock()


def approve(agent: Agent, tool: str, question: str, asking: Asking) -> None:
    """Return if the tool may do what `question` says; blocks while a person is asked.

    A conversation asks one question at a time; a caller that waited for another's question need not ask if that was
    answered permanently. Raises CommandError, worded for the model, if it may not, nobody is there, the agent has ended
    or the turn was interrupted meanwhile.
    """
    _check_living(agent)
    root = family.root(agent)
    if _allowed(root, tool):
        return
    if asking.approve is None:
        raise CommandError(
            f"{tool} needs a person's approval for this, and nobody is there to ask; "
            f"a person can allow it beforehand{_beforehand(root, tool)}"
        )
    with watched() as cut, _alone(_conversation(root).asking, cut):
        if _allowed(root, tool):
            return
        answer = asking.approve(tool, question + _limits(root))
        _check_going_on(cut)
        _check_living(agent)
        if answer in ("always", "never"):
            _remember(root, tool, answer)
    if answer not in ("yes", "always"):
        raise CommandError(f"the person did not allow {tool} to do this; ask what they want instead, or go on without")


def _allowed(root: Agent, tool: str) -> bool:
    """Return True if the tool is allowed without asking. Raises CommandError if it is forbidden."""
    known = _known(root.standing().config.tool_approval)
    said, where = known.get(tool, known[""]), _overriding(root) or "tool_approval of this conversation"
    if said == "ask" and (answer := _conversation(root).said.get(tool)):
        said, where = answer, "the person"
    if said == "never":
        raise CommandError(f"{tool} may not do this, and nobody is asked: {where} says never; go on without it")
    return said == "always"


def _known(text: str) -> dict[str, str]:
    """Return the parsed setting; an unreadable one, from another person's file, means to ask."""
    try:
        return approvals(text)
    except ValueError:
        return {"": "ask"}


def _remember(root: Agent, tool: str, answer: str) -> None:
    """Store an answer for the conversation; where it would not count, keep it as long as the log is open."""
    with root.log.store.write():
        root.context()
        value = _with(root, tool, answer)
        if _overriding(root) or tool not in _known(value):
            _conversation(root).said[tool] = answer
        else:
            root.configure("tool_approval", value)


def _with(root: Agent, tool: str, answer: str) -> str:
    """Return the conversation's setting with another answer for one tool."""
    try:
        return approved(root.standing().config.tool_approval, tool, answer)
    except ValueError:
        return approved("ask", tool, answer)


def _overriding(root: Agent) -> str | None:
    """Return what overrides the conversation's own setting, as `environment FOLDMARK_TOOL_APPROVAL`; None if nothing
    does."""
    over = root.log.given.overrides.get("tool_approval")
    return over.source if over else None


def _limits(root: Agent) -> str:
    source = _overriding(root)
    return f"\n({source} says to ask: always and never hold until Foldmark ends)" if source else ""


def _beforehand(root: Agent, tool: str) -> str:
    over = root.log.given.overrides.get("tool_approval")
    if over is None:
        return f" in {family.label(root)}: /config set tool_approval={_with(root, tool, 'always')}"
    return f": {over.source} would have to say {approved(over.value, tool, 'always')}"


def _conversation(root: Agent) -> _Conversation:
    with _opening:
        return _open.setdefault(root.log, defaultdict(_Conversation))[root.id]


@contextmanager
def _alone(lock: Lock, cut: Event) -> Iterator[None]:
    """Hold the lock. A caller whose turn is interrupted stops waiting. Raises CommandError."""
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
        end = moment.end(agent.id)
    if end:
        raise CommandError(f"{end.told}; it does nothing any more")
