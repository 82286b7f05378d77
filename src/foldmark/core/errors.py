"""Errors for people: one line that states the problem, the available alternatives, and the next step."""

from foldmark.core.wording import one_line


class FoldmarkError(Exception):
    """Base class of all errors that Foldmark raises on purpose; `str()` of an error is one line for a person.

    `exit_code` is the exit code of the command line: 2 for an invalid request, 1 for all other errors.
    """

    exit_code = 1

    def __str__(self) -> str:
        return one_line(super().__str__())


class CommandError(FoldmarkError):
    """The request was invalid (an unknown command, argument, mark, turn or agent). Nothing was written."""

    exit_code = 2


class StoreError(FoldmarkError):
    """The database could not be opened, read or written. Acknowledged writes are kept.

    `passes` is True if the same read or write may succeed later and nothing of it was recorded: another program has
    locked the database, its disk is full, or its server is away."""

    passes = False


class ConflictError(StoreError):
    """Another writer has appended to this agent since it was last read [SPEC 2: one agent has one writer]."""

    def __init__(self, agent: str, expected: int, found: int) -> None:
        super().__init__(
            f"another writer has appended to agent {agent[:8]}: its newest event is {found}, expected {expected}. "
            "Nothing was recorded. Read its context again, then repeat."
        )
        self.agent, self.expected, self.found = agent, expected, found


class DamagedError(StoreError):
    """A stored event could not be decoded."""


class ProviderError(FoldmarkError):
    """A request to a model failed, or the answer broke off.

    `kind` is `sdk` (its package is not installed), `key` (no key, or a refused one), `rate`, `busy` (overloaded or
    broken, 5xx), `network`, `request` (refused as invalid), `bound` (refused for thinking that was bound to other
    messages), `overflow` (longer than the model accepts) or `answer` (an answer that cannot be parsed). `retry_after`
    is the number of seconds that the provider asked to wait.
    """

    def __init__(self, kind: str, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.kind, self.retry_after = kind, retry_after

    @property
    def passes(self) -> bool:
        """True if the same request may succeed a little later."""
        return self.kind in ("rate", "busy", "network")


class ContextFullError(FoldmarkError):
    """The next request would be longer than the model's window [SPEC 5.5]. It was not sent."""

    def __init__(self) -> None:
        super().__init__(
            "context full: the next request would be longer than the model's window; /clear, or /forget WHAT"
        )


class ContextOverflowError(ProviderError):
    """The request is longer than the model accepts: it has `tokens` of at most `limit`, each None if the provider did
    not report it."""

    def __init__(self, text: str, tokens: int | None = None, limit: int | None = None) -> None:
        super().__init__("overflow", text)
        self.tokens, self.limit = tokens, limit

    def within(self, estimate: int) -> int:
        """Return the estimated number of tokens to try next after a request estimated at `estimate` tokens was too
        long."""
        if self.tokens and self.limit and self.tokens > self.limit:
            return int(estimate * self.limit / self.tokens * 0.95)
        return int(estimate * 0.7)
