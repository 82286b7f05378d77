"""The callbacks with which a command asks a person, and its answer: a text, and a typed effect that is also the next
step of the interface.

`Result.data` is the JSON of the answer [SPEC 9]; no part of Foldmark reads it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct, to_builtins

from foldmark.core.ports import Progress
from foldmark.core.wording import count


class Effect(Struct, frozen=True):
    """The effect of a command on the context, or the next step of its interface."""

    def data(self) -> dict[str, Any]:
        """Return the effect as JSON, for `Result.data`."""
        found: dict[str, Any] = to_builtins(self)
        return found


class AskModel(Effect, frozen=True, kw_only=True):
    """The model is asked to answer the context."""

    answer: bool = True


class StartPlanning(AskModel, frozen=True, rename={"first": "planning"}):
    """A planning conversation began with event `first`; the model is asked, or the preview is made without it."""

    first: int
    mode: str
    criteria: str


class EditText(Effect, frozen=True):
    """The person edits `text`: `command` accepts the edited text, `clear` is the command for an empty one."""

    text: str
    command: str
    clear: str

    def recorded_by(self, edited: str) -> str | None:
        """Return the command that records the edited text; None if nothing was changed."""
        if edited == self.text:
            return None
        return f"{self.command} {edited}" if edited.strip() else self.clear

    def data(self) -> dict[str, Any]:
        """Return the effect as JSON, for `Result.data`."""
        return {"edit": super().data()}


class SwitchAgent(Effect, frozen=True, rename={"agent": "switch"}):
    """The interface switches to this agent, given by uuid and name (None for a fork)."""

    agent: str
    name: str | None


class ChooseConversation(Effect, frozen=True):
    """The person chooses a conversation; the text of the result lists them."""


class CopyText(Effect, frozen=True):
    """`text`, which is also that of the result, goes to the clipboard. `what` names it for a person."""

    text: str
    what: str

    @property
    def done(self) -> str:
        """`Copied message 12: 1,234 characters.`"""
        return f"Copied {self.what}: {count(len(self.text), 'character')}."


class ChangeTheme(Effect, frozen=True, rename={"name": "theme"}):
    """The full-screen chat changes to the theme `name`; `auto` fits the terminal."""

    name: str


class WaitForAgents(Effect, frozen=True, rename={"agents": "waits_for"}):
    """The interface waits until these agents are idle."""

    agents: list[str]


class RunAgent(Effect, frozen=True, rename={"agent": "runs"}):
    """The interface lets this agent answer its context, since no supervisor runs in this process."""

    agent: str


class WroteSession(Effect, frozen=True):
    """The context was written as the session of a coding agent; `command` resumes it."""

    session_id: str
    command: str


class LeaveChat(Effect, frozen=True):
    """The chat is to end."""

    exit: bool = True


class Result(Struct, frozen=True):
    """The answer to a command.

    `text` is for a person; `event_id` is the operation's, None if none was recorded; `effect` is the command's effect
    on the context, or the next step of the interface, None if it only shows something; `own` is further JSON. `marks`
    are highlighted places in `text`, from and up to.
    """

    text: str
    event_id: int | None = None
    own: dict[str, Any] = {}
    marks: tuple[tuple[int, int], ...] = ()
    effect: Effect | None = None

    @property
    def data(self) -> dict[str, Any]:
        """Everything except the text, as JSON.

        For an operation: `operation`, `actor`, `reason` (None if none was given), `back` (the command that undoes it,
        None if there is none), and the sizes `left`, `returned`, `before` and `after`, each with `messages` and
        `tokens`, with the operation's own fields (`child` of a fork, `widened` of a filter); `evicted` and
        `whole_again`, each with `results` and `tokens`, for tool results that are sent as placeholders from now on, or
        no longer; `thinking` with the blocks `lost` and `returned`, where the model binds them; for a model with a
        prompt cache also `cached_prefix` with `kept` and `of` in tokens and `percent`.
        """
        return {**(self.effect.data() if self.effect is not None else {}), **self.own}


Decision = Literal["yes", "always", "no", "never"]
"""A person's decision on a tool: for this call, or from now on in this conversation."""


class Permission(Struct, frozen=True):
    """A tool's request for permission: `question` says what the tool would do. `arguments` are its arguments in full;
    the first line of the question shortens them. `covers` names the uses of the tool that always and never decide."""

    tool: str
    question: str
    arguments: Mapping[str, Any] = {}
    covers: str = ""

    @property
    def coverage(self) -> str:
        """`Always and never: git status … (with any arguments), in this conversation.`; "" if that is not known."""
        return f"Always and never: {self.covers}, in this conversation." if self.covers else ""


class Asking(Struct, frozen=True):
    """The callbacks: `confirm` asks a yes-or-no question (None: nobody can answer); `progress` receives the progress of
    long work; `approve` asks whether a tool may run; `operated` receives each operation that a model's tool has carried
    out. `in_chat` is True for a command that a person types in a chat, where a model answers what they say; `answers`
    is True where a line after the command can answer an offer: yes, no."""

    confirm: Callable[[str], bool] | None = None
    progress: Progress | None = None
    approve: Callable[[Permission], Decision] | None = None
    operated: "Callable[[Result], None]" = lambda _: None
    in_chat: bool = False
    answers: bool = False


NOBODY = Asking()
"""No callbacks: no person can be asked."""
