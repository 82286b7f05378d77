"""What agents in the background have to say to the person at a chat: that they are done, have mail, need approval."""

from collections import deque
from collections.abc import Callable
from functools import partial

from foldmark.chat.foreground import Foreground
from foldmark.chat.keyboard import ScriptedLines, TakenError, Typed
from foldmark.chat.person import ANSWERS, decides
from foldmark.log import Agent, family
from foldmark.operations.effects import Asking, Decision
from foldmark.rendering import counter, fitted, harmless
from foldmark.runtime.unprompted import WAKES


class Notices:
    """The supervisor's audience (`foldmark.runtime.supervisor.Audience`), called in other threads than the main one.

    `agent` is whom the person talks to, `streams` whether its answer is on the screen at the moment: then notices wait
    for its end. `confirm` puts a question of a command; None if nobody is there. `end_line` begins a line of its own.
    What was typed for the conversation before a question stood there goes to `typed`.
    """

    def __init__(
        self,
        agent: Agent,
        front: Foreground,
        keyboard: Typed | ScriptedLines,
        confirm: Callable[[str], bool] | None,
        end_line: Callable[[], None],
        typed: Callable[[str], None],
    ) -> None:
        self.agent, self.streams = agent, False
        self._front, self._keyboard, self._confirm, self._end_line = front, keyboard, confirm, end_line
        self._typed, self._asked = typed, False
        self._kept: deque[str] = deque()

    def streamed(self) -> None:
        """The answer on the screen is over: print what waited for that."""
        self.streams = self._asked = False
        while self._kept:
            print(fitted(self._kept.popleft()), flush=True)

    def asking(self, agent: Agent) -> Asking:
        """How a tool of an agent reaches the person; only the agent that is talked to may ask for a yes or no."""
        if self._confirm is None:
            return Asking(progress=counter("reading:")) if agent == self.agent else Asking()
        approve = partial(self._approved, agent)
        return Asking(self._confirm, counter("reading:"), approve) if agent == self.agent else Asking(approve=approve)

    def began(self, agent: Agent) -> None:
        """A child is seen in `/agents`; nothing is printed for it."""

    def ended(self, agent: Agent, error: Exception | None) -> None:
        """An agent in the background is idle again, or dead: whoever was killed is idle no more."""
        with agent.log.store.read() as moment:
            end = moment.end(agent.id)
        how = "is idle" if error is None else f"ended its turn: {error}"
        self._notice(f"({end.sentence if end is not None else f'{family.label(agent)} {how}'})")

    def mail(self, agent: Agent) -> None:
        """Mail has come that wakes nobody."""
        if agent == self.agent:
            self._notice("(mail has come; /check-mail reads it)")
        else:
            self._notice(f"({family.label(agent)} has mail, and was woken {WAKES} times; /switch there to go on)")

    def _approved(self, agent: Agent, tool: str, question: str) -> Decision:
        """Put a tool's question in the main thread, where it takes the prompt; called in the tool's own."""
        who = family.label(agent)

        def put() -> Decision:
            self._end_line()
            self._asked = True
            for line in self._keyboard.ahead(begun=True):
                if line.strip() and not self.strays(line):
                    self._typed(line)
            try:
                asked = f"{who[0].upper()}{who[1:]} asks to use {tool}"
                return decides(asked, question, self._keyboard.answer, self._no_answer)
            except TakenError:
                print("\n(the question is withdrawn: its turn has ended)", flush=True)
                return "no"

        return self._front.ask(put, "no", self._keyboard.take, self._keyboard.withdraw)

    def strays(self, line: str) -> bool:
        """Whether a line is the answer to a question that does not stand there any more, or not yet: no text for the
        conversation, if this turn has asked. The person is told."""
        said = line.strip()
        if not (self._asked and said and said.lower() in ANSWERS):
            return False
        self._end_line()
        print(f"(“{harmless(said)}” answers no question that stands here; it is left out)", flush=True)
        return True

    def _no_answer(self, line: str) -> None:
        print("(that answers nothing; it is kept for the conversation)", flush=True)
        self._typed(line)

    def _notice(self, text: str) -> None:
        """Print a line of its own: above the prompt, or once the answer that streams is over; from any thread."""
        shown = harmless(self.agent.log.secrets.hidden(text))
        if not self._keyboard.notice(fitted(shown)):
            self._front.put(partial(self._noticed, shown))
            self._keyboard.take()  # the prompt may have come back meanwhile: it would wait for a line first

    def _noticed(self, shown: str) -> None:
        if self.streams:
            self._kept.append(shown)
        else:
            print(fitted(shown), flush=True)
