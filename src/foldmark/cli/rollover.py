"""`foldmark rollover`: where the summary comes from, and how the new session is started."""

import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark.app import Setup
from foldmark.core.codec import well_formed
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line

if TYPE_CHECKING:
    from foldmark.sessions.formats import SessionPath
    from foldmark.sessions.rollover.rolling import Rolled


@click.command()
@click.argument("session", required=False)
@click.option("--summary-file", metavar="FILE", help="What the next session has to know; - reads standard input.")
@click.option("--auto-summary", is_flag=True, help="Have a language model write the summary.")
@click.option("--model", metavar="PROVIDER/MODEL", help="Which one; otherwise the one in your settings.")
@click.option("--issue", metavar="REF", help="What the work is for; otherwise FOLDMARK_ISSUE.")
@click.option("--worker", metavar="ID", help="Who works; otherwise FOLDMARK_WORKER.")
@click.option("--launch", is_flag=True, help="Start the new session.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def rollover(
    setup: Setup,
    session: str | None,
    summary_file: str | None,
    auto_summary: bool,
    model: str | None,
    issue: str | None,
    worker: str | None,
    launch: bool,
    as_json: bool,
) -> None:
    """Go on in a fresh session that begins with a handoff summary.

    SESSION is a file, an id or the beginning of one; otherwise the session that this runs in, or the newest one of this
    folder. It is archived and its end recorded; its file is not changed. The new session's file lies beside it, and its
    first message is the summary with where to look up what that leaves out. The summary has some 500 words under the
    headings ### Current Task, ### Key Decisions, ### Modified Files, ### Immediate Next Steps, ### Critical Context.
    """
    from foldmark.cli import launching
    from foldmark.cli.stopping import outcome_told, session_written
    from foldmark.rendering import json_text
    from foldmark.sessions import places
    from foldmark.sessions.rollover.handover import handover
    from foldmark.sessions.rollover.rolling import check, has_content, roll_over

    if (summary_file is None) != auto_summary:
        raise click.UsageError("Give --summary-file FILE or --auto-summary, one of them")
    if model is not None and not auto_summary:
        raise click.UsageError("--model is for --auto-summary")
    launching.check(launch, as_json)
    found = check(places.find(session, _working_folder(), os.environ))
    if not has_content(found):
        _tell_empty(found, as_json)
        return
    new_id = str(uuid.uuid4())
    with outcome_told(lambda: session_written(found, new_id)):
        summary = handover(_read(summary_file) if summary_file is not None else _written(setup, found, model))
        with setup.log(create=True) as log:
            rolled = roll_over(log, found, summary, os.environ, new_id=new_id, issue=issue, worker=worker)
    for warning in rolled.warnings:
        print(f"foldmark: {one_line(warning)}", file=sys.stderr)
    if as_json:
        print(json_text(well_formed(_data(rolled))))
    else:
        _tell(rolled)
    if launch:
        launching.start(rolled.command.words, rolled.command.cwd)


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as it is named
    except OSError:  # it was removed
        return os.sep


def _read(name: str) -> str:
    """The text of a summary file. Raises SummaryError for one of absurd length, FoldmarkError if it cannot be read."""
    from foldmark.sessions.rollover.handover import LONGEST

    try:
        if name == "-":
            data = sys.stdin.buffer.read(4 * LONGEST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(4 * LONGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or error
        raise FoldmarkError(f"cannot read the summary in {one_line(name)}: {why}; nothing was written") from None
    return data.decode("utf-8", "replace")


def _written(setup: Setup, session: "SessionPath", model: str | None) -> str:
    """The summary that a model writes; nothing of it is kept but what the rollover hands over."""
    import foldmark
    from foldmark.providers.registry import check_model
    from foldmark.sessions.rollover.auto_summary import summarize

    given = setup.given
    if model is not None:
        check_model(model, given.dialects)
        given = given.without("model")
    with foldmark.open(":memory:", settings=given) as log:
        return summarize(log, session, model, _tell_who_writes)


def _tell_who_writes(model: str) -> None:
    if sys.stderr.isatty():
        print(f"{model} writes the summary …", file=sys.stderr)


def _tell_empty(session: "SessionPath", as_json: bool) -> None:
    from foldmark.rendering import harmless, json_text

    if as_json:
        nothing = {"new_session_id": None, "file": None, "parent_file": str(session.path), "command": None}
        print(json_text(well_formed(nothing)))
    else:
        print(
            f"Nothing was said in {harmless(one_line(session.id))}: there is nothing to hand over; nothing was written."
        )


def _tell(rolled: "Rolled") -> None:
    from foldmark.rendering import harmless

    at = "" if rolled.context is None else f" at {rolled.context}% context"
    print(
        f"Session {one_line(rolled.parent.id)} ended{at}.\n"
        f"Session {rolled.session.id}, #{rolled.number} of its line, begins with the summary: "
        f"{harmless(one_line(str(rolled.session.path)))}\n"
        f"Start it:\n  {harmless(rolled.command.shell)}",
        flush=True,
    )


def _data(rolled: "Rolled") -> dict[str, Any]:
    return {
        "new_session_id": rolled.session.id,
        "file": str(rolled.session.path),
        "parent_file": str(rolled.parent.path),
        "session_number": rolled.number,
        "context_at_end": rolled.context,
        "command": rolled.command.shell,
        "prompt": rolled.prompt,
        "warnings": list(rolled.warnings),
    }
