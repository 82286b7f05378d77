"""One command without a chat, for `foldmark do`: what it asks, what it waits for, and the answer it wants."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foldmark.chat.lines.person import edited
from foldmark.chat.live import session_model
from foldmark.commands import REGISTRY
from foldmark.core.errors import ConflictError
from foldmark.editing import answering
from foldmark.editing.offer import Offer
from foldmark.editing.suggesting import Suggestion
from foldmark.log import Agent, Result
from foldmark.operations.effects import Asking, AskModel, EditText, RunAgent, WaitForAgents
from foldmark.operations.receipts import Retried
from foldmark.runtime.lease import interrupt, settled

if TYPE_CHECKING:
    from foldmark.chat.conversation import Models


def carry_out(
    agent: Agent,
    line: str,
    models: "Models",
    asking: Asking,
    show: Callable[[Result], None],
    *,
    agreed: bool,
    shown: bool,
) -> None:
    """Carry out a command, and then what it asks for: a text to edit, agents to wait for, an answer of the model.

    With `agreed`, a preview is carried out at once. `show` is called with the result before the model answers, and the
    answer is printed if `shown`. Raises FoldmarkError, and KeyboardInterrupt after Ctrl-C.
    """
    if REGISTRY.interrupts(line):
        interrupt(agent)
    with session_model(agent) as model:
        try:
            result = agent.do(line, asking=asking)
        except ConflictError:  # another program has just appended events
            agent.context()
            result = agent.do(line, asking=asking)
        if agreed and isinstance(result.effect, Offer | Suggestion):
            result = answering.agree(agent, result.effect.id)
    if model is not None and model.remark:
        result = replace(result, text=f"{result.text}\n{model.remark}")
    if isinstance(result.effect, EditText):
        if (command := result.effect.recorded_by(edited(result.effect.text))) is None:
            print("Nothing was changed.")
            return
        result = agent.do(command)
    if isinstance(result.effect, WaitForAgents):
        settled(map(agent.log.agent, result.effect.agents))
    show(result)
    if isinstance(result.effect, AskModel | Retried | RunAgent):
        from foldmark.chat.lines.one_answer import answer  # takes 40 ms

        asked = agent.log.agent(result.effect.agent) if isinstance(result.effect, RunAgent) else agent
        text = result.effect.text if isinstance(result.effect, Retried) else None
        answer(asked, models, asking, text, shown=shown)
