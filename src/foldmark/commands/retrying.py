"""`/retry`: ask again after an answer that failed or was interrupted [SPEC 4]."""

from foldmark.commands.registry import Call, Command
from foldmark.conversation import Result
from foldmark.conversation.effects import Ask
from foldmark.conversation.unanswered import is_unanswered
from foldmark.core.errors import CommandError


def _retry(call: Call) -> Result:
    if not is_unanswered(call.agent.standing()):
        raise CommandError("there is nothing to ask again: no answer at the end of the context failed")
    return Result("", effect=Ask())


RETRYING = (Command("retry", "", "Ask the model again after an answer that failed or was interrupted.", _retry),)
