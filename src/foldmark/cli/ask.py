"""`foldmark ask`: one prompt and its answer."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from foldmark.app import Setup
from foldmark.cli.parameters import AS_JSON, MODEL, conversations, settings_for, use_model
from foldmark.cli.process import leaving, warn
from foldmark.core import selections
from foldmark.core.agents import DEFAULT, check_name
from foldmark.core.errors import FoldmarkError, ProviderError
from foldmark.core.segments import Segment
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.rendering import counter, json_text
from foldmark.sending.models import provider
from foldmark.settings.given import Settings

if TYPE_CHECKING:
    from foldmark.chat.lines.one_answer import AnswerScreen


@click.command()
@click.argument("name", required=False, shell_complete=conversations)
@click.argument("prompt", nargs=-1)
@click.option(
    "-a",
    "--attach",
    "attached",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Add a text, an image or a PDF before the prompt; may be repeated.",
)
@MODEL
@AS_JSON
@click.pass_obj
def ask(
    setup: Setup,
    name: str | None,
    prompt: tuple[str, ...],
    attached: tuple[str, ...],
    model: str | None,
    as_json: bool,
) -> int:
    """Ask one PROMPT in conversation NAME and print the answer.

    The first argument is always the conversation, `default` if there is none; it is created if needed. All others are
    the PROMPT. Standard input, unless it is a terminal, comes before them:

    \b
      foldmark ask default "What is a fork?"
      cat prompt.md | foldmark ask review
      git diff | foldmark ask review "What could break?"

    A prompt that begins with / is sent like any other; `foldmark do` carries out commands.

    Standard output is the answer alone. Tool calls, notices and errors go to standard error. Tools that need your
    approval ask for it there if it and standard input are a terminal, and are refused otherwise.

    Exit code 1 if there is no answer, or if it was cut off or refused. After a failed request, the same command asks
    again without a second message. Ctrl-C keeps the answer so far (exit code 130).
    """
    text = _prompt(prompt)
    if text is None and not attached:
        raise click.UsageError(_nothing_to_ask(name))
    from foldmark.commands.messages import attached_file
    from foldmark.log.live_session import check_not_live

    files = [attached_file(each) for each in attached]
    given = settings_for(setup, model)
    if name is not None and not setup.has_database:
        check_name(name)
    with setup.log(create=True, given=given) as log:
        from foldmark.chat.lines.one_answer import answer_prompt, check_sendable

        with log.store.write():  # no conversation is created, and no model set, for what cannot be asked
            agent = log.find(DEFAULT if name is None else name, create=True)
            check_not_live(agent)
            _check_model(model or agent.standing().config.model, given)
            is_new = agent.standing().newest == 0
            use_model(agent, model)
            check_sendable(agent, text, files)
        if is_new:
            warn(f"new conversation '{agent.name}'")
        before = agent.standing().last
        attended = sys.stdin.isatty() and sys.stderr.isatty()
        try:
            with leaving():
                screen = answer_prompt(
                    agent,
                    lambda name: provider(name, given, setup.delay),
                    text,
                    files,
                    Asking(progress=counter("reading:")),
                    attended=attended,
                    printed=not as_json,
                )
        except ProviderError as error:
            raise FoldmarkError(
                f"{str(error).rstrip('.')}; the prompt is kept, and the same command asks again"
            ) from None
        except KeyboardInterrupt:
            warn("interrupted; the answer so far is kept")
            return 130
        if screen.blank:
            warn("the model answered nothing")
        if as_json:
            print(json_text(_answer_data(agent, before, screen)))
        return 0 if screen.complete else 1


def _prompt(words: tuple[str, ...]) -> str | None:
    """Return the prompt from standard input and the command line; None if there is none."""
    piped = "" if sys.stdin.isatty() else sys.stdin.buffer.read().decode(errors="replace").removeprefix("\ufeff")
    parts = [part.rstrip() for part in (piped, " ".join(words)) if part.strip()]
    return "\n\n".join(parts) or None


def _nothing_to_ask(name: str | None) -> str:
    where = "" if sys.stdin.isatty() else ", and standard input is empty"
    if name is None:
        return f"there is no PROMPT{where}: foldmark ask {DEFAULT} 'What is a fork?'"
    from shlex import quote

    return f"there is no PROMPT{where}. The first argument is the conversation: foldmark ask {DEFAULT} {quote(name)}"


def _check_model(name: str, given: Settings) -> None:
    """Raise FoldmarkError if the SDK of a model or its key is missing."""
    from foldmark.settings.access import obstacle

    if why := obstacle(name, os.environ, given):
        raise FoldmarkError(f"{name} cannot be asked, and nothing was recorded. {why}")


def _answer_data(agent: Agent, before: int, screen: "AnswerScreen") -> dict[str, Any]:
    """Return the answer to the prompt after event `before` as JSON."""
    from foldmark.request.usage import costs

    with agent.reading() as (moment, at):
        events = selections.events_after(moment, agent.id, before, at.last)
        recorded = costs(moment, (Segment(agent.id, before + 1, at.last),))
    usages = [cost.usage for cost in recorded if cost.place > before]
    answers = [each for each in events if each.kind == "assistant"]
    names = ("input", "cache_read", "cache_write", "output")
    return {
        "conversation": agent.name,
        "agent": agent.id,
        "model": agent.standing().config.model,
        "text": "\n".join(each.content for each in answers),
        "turn": answers[-1].turn_id if answers else None,
        "messages": [each.id for each in answers],
        "requests": len(usages),
        "usage": {name: sum(getattr(usage, name) for usage in usages) for name in names} if usages else None,
        "stopped": None if screen.stopped is None else {"why": screen.stopped.why, "said": screen.stopped.said},
    }
