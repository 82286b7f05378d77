"""`foldmark rollover`: a coding agent's session continues in a fresh one that begins with a summary [SPEC 8, S4]."""

import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark.app import Setup
from foldmark.cli.parameters import reporting
from foldmark.cli.process import check_launch, session_outcome, show, start, warn
from foldmark.core.codec import well_formed
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line

if TYPE_CHECKING:
    from foldmark.formats.session_format import SessionPath
    from foldmark.sessions.rollover.rolling import RolloverReport


@click.command()
@click.argument("session", required=False)
@click.option("--summary-file", metavar="FILE", help="Take the summary from FILE; - reads standard input.")
@click.option("--auto-summary", is_flag=True, help="Have a language model write the summary.")
@click.option(
    "--model", metavar="PROVIDER/MODEL", help="Let this model write the summary; from your settings by default."
)
@click.option("--issue", metavar="REF", help="Name the issue of the work in the handoff; FOLDMARK_ISSUE by default.")
@click.option("--worker", metavar="ID", help="Name the worker in the handoff; FOLDMARK_WORKER by default.")
@click.option("--launch", is_flag=True, help="Start the new session.")
@reporting
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
    """Continue in a fresh session with a handoff summary.

    SESSION is a file, an id or the beginning of one; by default the session that this runs in, or the newest one of
    this folder. It is archived and its end recorded; its file is not changed. The new session's file lies in the same
    folder. Its first message is the summary, and where to find what the summary leaves out. The summary has about 500
    words under the headings ### Current Task, ### Key Decisions, ### Modified Files, ### Immediate Next Steps,
    ### Critical Context.
    """
    from foldmark.formats import places
    from foldmark.sessions.rollover.handoff import handoff
    from foldmark.sessions.rollover.rolling import check, has_content, roll_over

    if (summary_file is None) != auto_summary:
        raise click.UsageError("Give either --summary-file FILE or --auto-summary")
    if model is not None and not auto_summary:
        raise click.UsageError("--model requires --auto-summary")
    check_launch(launch, as_json)
    found = check(places.find(session, _working_folder(), os.environ))
    if not has_content(found):
        nothing = {"new_session_id": None, "file": None, "parent_file": str(found.path), "command": None}
        said = f"Session {one_line(found.id)} is empty: there is nothing to hand over; nothing was written."
        show(well_formed(nothing), said, as_json)
        return
    new_id = str(uuid.uuid4())
    with session_outcome(found, new_id):
        summary = handoff(
            _read_summary(summary_file) if summary_file is not None else _written_summary(setup, found, model)
        )
        exclude = setup.given.sync_exclude
        rolled = roll_over(found, summary, os.environ, exclude, new_id=new_id, issue=issue, worker=worker)
    for warning in rolled.warnings:
        warn(one_line(warning))
    show(well_formed(_rollover_data(rolled)), _rollover_text(rolled), as_json)
    if launch:
        start(rolled.command.words, rolled.command.cwd)


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as it is named
    except OSError:  # the folder was removed
        return os.sep


def _read_summary(name: str) -> str:
    """Return as much of a summary file as is needed to recognize a summary that is too long. Raises FoldmarkError if
    the file cannot be read."""
    from foldmark.sessions.rollover.handoff import LONGEST

    try:
        if name == "-":
            data = sys.stdin.buffer.read(4 * LONGEST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(4 * LONGEST + 1)
    except (OSError, ValueError) as error:  # ValueError if the name contains NUL
        why = getattr(error, "strerror", None) or error
        raise FoldmarkError(f"the summary in {one_line(name)} cannot be read: {why}; nothing was written") from None
    return data.decode("utf-8", "replace")


def _written_summary(setup: Setup, session: "SessionPath", model: str | None) -> str:
    """Return a summary that a model has written, in a log that is not kept."""
    import foldmark
    from foldmark.providers.registry import check_model
    from foldmark.sessions.rollover.auto_summary import summarize

    def report(name: str) -> None:
        if sys.stderr.isatty():
            print(f"{name} writes the summary …", file=sys.stderr)

    given = setup.given
    if model is not None:
        check_model(model, given.dialects)
        given = given.without("model")
    with foldmark.open(":memory:", settings=given) as log:
        return summarize(log, session, model, report)


def _rollover_text(rolled: "RolloverReport") -> str:
    at = "" if rolled.context is None else f" at {rolled.context}% context"
    return (
        f"Session {one_line(rolled.parent.id)} ended{at}.\n"
        f"Session {rolled.session.id}, #{rolled.number} of its line, begins with the summary: "
        f"{one_line(str(rolled.session.path))}\n"
        f"Start it:\n  {rolled.command.shell}"
    )


def _rollover_data(rolled: "RolloverReport") -> dict[str, Any]:
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
