"""`/state` and `/scratchpad`: the model's anchor block and its notebook, as the person sees and edits them [SPEC 7]."""

from foldmark.commands.registry import Call, Command
from foldmark.conversation import Result
from foldmark.conversation.asking_model import rebuilt


def _state(call: Call) -> Result:
    state = call.agent.context().state
    return Result(state or "There is no state block yet.", None, {"state": state})


def _rebuild(call: Call) -> Result:
    block = rebuilt(call.agent)
    event_id = call.agent.record("state", block, actor="model")
    return Result(f"### STATE\n{block}", None, {"state": block, "event": event_id})


def _scratchpad(call: Call) -> Result:
    text = call.agent.standing().scratchpad
    return Result(text or "The scratchpad is empty.", None, {"scratchpad": text})


def _edit(call: Call) -> Result:
    text = call.get("TEXT")
    if text is None:
        text = call.agent.standing().scratchpad or ""
        return Result("", None, {"edit": {"text": text, "command": "/scratchpad edit", "clear": "/scratchpad clear"}})
    return _write(call, text, "Scratchpad changed.")


def _clear(call: Call) -> Result:
    return _write(call, "", "Scratchpad cleared.")


def _write(call: Call, text: str, said: str) -> Result:
    event_id = call.agent.record("scratchpad", text, actor=call.actor)
    return Result(said, None, {"scratchpad": text, "event": event_id})


NOTEBOOK = (
    Command("state", "", "Show the state block in force.", _state),
    Command("context rebuild", "", "Ask the model for a fresh state block from the whole window.", _rebuild),
    Command("scratchpad", "", "Show the scratchpad.", _scratchpad),
    Command("scratchpad read", "", "Show the scratchpad.", _scratchpad),
    Command("scratchpad edit", "[TEXT...]", "Change the scratchpad; without TEXT in your editor.", _edit),
    Command("scratchpad clear", "", "Empty the scratchpad.", _clear),
)
