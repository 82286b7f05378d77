"""What a person has to agree to before a tool does it: ask, always, never, remembered for the conversation [SPEC 4.1].

An answer for good is a setting of the conversation's root agent, so that its children need not ask again. A project's
file cannot give it (`foldmark.settings.loading`).
"""

from foldmark.conversation import Agent, tree
from foldmark.conversation.asking import Asking
from foldmark.core.config import approvals, approved
from foldmark.core.errors import CommandError


def approve(agent: Agent, tool: str, question: str, asking: Asking) -> None:
    """Return if the tool may do what `question` says. Raises CommandError, in words for the model, if not."""
    root = tree.root(agent)
    known = approvals(root.standing().config.tool_approval)
    said = known.get(tool, known[""])
    if said == "always":
        return
    if said == "never":
        raise CommandError(f"{tool} is not allowed in this conversation (tool_approval); go on without it")
    if asking.approve is None:
        raise CommandError(
            f"{tool} needs a person's approval, and nobody is there to ask; a person can allow it beforehand: "
            f"/config set tool_approval=ask, {tool}=always"
        )
    answer = asking.approve(tool, question)
    if answer in ("always", "never"):
        with agent.log.store.exclusive():
            own = root.standing().config.tool_approval
            root.context()
            root.configure("tool_approval", approved(own, tool, answer))
    if answer in ("no", "never"):
        raise CommandError(f"the person did not allow {tool} to do this; ask what they want instead, or go on without")
