"""`/retry`: ask again after an answer that failed or was interrupted [SPEC 4]."""

from foldmark.commands.registry import Call, Command
from foldmark.core.errors import CommandError
from foldmark.log import Result
from foldmark.operations.effects import Ask
from foldmark.sending.unanswered import is_unanswered


def _retry(call: Call) -> Result:
    with call.agent.reading() as (moment, at):
        again = is_unanswered(moment, at)
    if not again:
        raise CommandError("there is nothing to ask again: no answer at the end of the context failed")
    return Result("", effect=Ask())


RETRYING = (Command("retry", "", "Ask the model again after an answer that failed or was interrupted.", _retry),)
