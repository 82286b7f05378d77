"""What has passed through the gateways of one run, for the line at its end [SPEC 5.7].

A gateway is a process of its own, and may be replaced by another one. So it reports each request to the process that
started it, which counts.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from foldmark.core.wording import count, listing

if TYPE_CHECKING:
    from concurrent.futures import Future

    from foldmark.live.transcript import ClientTranscript

_PATHS, _CONVERSATIONS, _LENGTH = 3, 3, 80
"""Maximum number of paths and of conversations that are named, and of characters of a path."""


class Passed(Struct, frozen=True, omit_defaults=True):
    """A request. One that was recorded has the client's id of its `session` and, unless a sub-agent sent it, the name
    of its `conversation`; `asked` is False for a command to Foldmark, and `notice` what no answer has shown. One to no
    endpoint of a conversation has its `path`. One with neither belonged to no conversation, or could not be read."""

    session: str = ""
    conversation: str = ""
    asked: bool = True
    path: str = ""
    notice: str = ""


class Tally:
    """Counts the requests of a run. `tell` is called with each of them."""

    def __init__(self, tell: Callable[[Passed], object] = lambda passed: None) -> None:
        self._tell, self._lock = tell, Lock()
        self._requests: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._notices: dict[str, str] = {}
        self._paths: dict[str, None] = {}
        self._beside = 0

    @property
    def is_empty(self) -> bool:
        """True if no request has come."""
        return not (self._requests or self._paths or self._beside)

    def add(self, passed: Passed) -> bool:
        """Count a request. Return True for the first one to no endpoint of a conversation."""
        with self._lock:
            first = bool(passed.path) and not self._paths
            if passed.path:
                self._paths[passed.path[:_LENGTH]] = None
            elif passed.session:
                self._requests[passed.session] = self._requests.pop(passed.session, 0) + passed.asked
                self._notices[passed.session] = passed.notice
                self._names[passed.session] = passed.conversation or self._names.get(passed.session, passed.session)
            else:
                self._beside += 1
            self._tell(passed)
        return first

    def recorded(self, transcript: "ClientTranscript", asked: bool, done: "Future[Any]") -> None:
        """Count a request of a transcript unless recording it failed; `asked` as in `Passed`."""
        if not done.cancelled() and done.exception() is None:
            notice = "" if transcript.shows or transcript.named else transcript.unsaid
            self.add(Passed(transcript.session, transcript.agent.name or "", asked=asked, notice=notice))

    def read(self, line: bytes) -> None:
        """Count a request that another process has reported as JSON. Any other line counts nothing."""
        with suppress(msgspec.MsgspecError):
            self.add(msgspec.json.decode(line, type=Passed))

    def closing(self, resumed: Callable[[str], str]) -> str:
        """Return a line about everything that was recorded, or why nothing was; `resumed` says how to go on with a
        session."""
        if not self._requests:
            return f"nothing was recorded: {self._why()}"
        newest = list(reversed(self._requests))
        named = (f"'{self._names[each]}' ({count(self._requests[each], 'request')})" for each in newest)
        notices = "".join(f"\n{notice}" for notice in self._notices.values() if notice)
        return f"recorded {listing(named, _CONVERSATIONS)}. {resumed(newest[0])}{notices}"

    def _why(self) -> str:
        if self.is_empty:
            return "no request came to Foldmark"
        paths = listing(self._paths, _PATHS)
        if not self._beside:
            return f"requests came only to {paths}, which Foldmark does not know as an endpoint of a conversation"
        others = f"; the others went to {paths}" if paths else ""
        return f"{count(self._beside, 'request')} belonged to no conversation, or could not be read{others}"
