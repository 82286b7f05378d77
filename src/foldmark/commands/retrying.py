"""`/retry`: ask again after an answer that failed or was interrupted [SPEC 4]."""

from foldmark.commands.registry import Command, CommandCall
from foldmark.core.errors import CommandError
from foldmark.log import Result
from foldmark.operations.effects import AskModel
from foldmark.sending.status import is_unanswered


def _retry(call: CommandCall) -> Result:
    with call.agent.reading() as (moment, at):
        again = is_unanswered(moment, at)
    if not again:
        raise CommandError("there is nothing to ask again: no answer at the end of the context failed")
    return Result("", effect=AskModel())


RETRYING = (Command("retry", "", "Ask the model again after an answer that failed or was interrupted.", _retry),)
