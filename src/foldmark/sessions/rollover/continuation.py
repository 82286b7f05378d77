"""The prompt that a session begins with after a rollover: [S4]'s, and the mark that says what it continues."""

from typing import NamedTuple

from msgspec import Struct

from foldmark.core.wording import one_line
from foldmark.sessions.archive.marker import OURS
from foldmark.sessions.rollover.handover import Handover

GO_ON = "Continue from the handoff summary."
"""What the new session is told when it is started."""

QUERY = "what you need to find"

_PRIVATE = "A person asked that the previous session be kept out of archives; so is this one:"


class SearchHint(NamedTuple):
    """How the model looks things up: `where` the session is, as in "The full previous session is archived by
    Foldmark.", and `how`, a line to be followed."""

    where: str
    how: str


class Continuation(Struct, frozen=True):
    """What the prompt tells: the session's `number` in its line, what it is for, at how many percent the parent ended,
    who works, and where to look things up. What is None is left out; without `search` there is only the parent's file.
    `private`: a person asked that the parent be kept out of archives, which is then asked for the new session as well.
    """

    number: int
    parent_file: str
    handover: Handover
    issue: str | None = None
    percent: int | None = None
    worker: int | str | None = None
    search: SearchHint | None = None
    private: bool = False


def prompt(told: Continuation) -> str:
    """[S4]'s continuation prompt, without a final line feed."""
    issue = f" for {one_line(told.issue)}" if told.issue else ""
    percent = "" if told.percent is None else f" at {told.percent}% context"
    lineage = [f"Parent session: {one_line(told.parent_file)}"]
    if told.worker is not None:
        lineage.append(f"Worker ID: {one_line(str(told.worker))}")
    goes_on = [GO_ON]
    if "immediate next steps" in told.handover.headings:
        goes_on.append('Your next step is in "Immediate Next Steps" above.')
    parts = [
        "## Session Continuation",
        f"This is session #{told.number}{issue}.\nPrevious session rolled over{percent} to preserve quality.",
        "### Handoff Summary",
        told.handover.text,
        "### Retrieving Details",
        *_retrieving(told.search),
        *([f"{_PRIVATE}\n{OURS}"] if told.private else []),
        "### Lineage",
        "\n".join(lineage),
        "---",
        " ".join(goes_on),
    ]
    return "\n\n".join(parts)


def metadata(parent_file: str, moment: str, worker: int | str | None) -> dict[str, object]:
    """[S4]'s `continue_metadata`; `moment` is in UTC, ISO 8601."""
    return {
        "parent_session_file": parent_file,
        "continued_at": moment,
        "worker_id": worker,
        "reason": "rollover",
    }


def _retrieving(search: SearchHint | None) -> list[str]:
    if search is None:
        where = "The full previous session is in the file that is named below."
        return [f"{where} For details not in\nthe summary above, look there."]
    examples = '- "decision about [topic]"\n- "error in [component]"\n- "changes to [filename]"'
    return [
        f"The full previous session is {search.where}. For details not in\nthe summary above, search with:",
        f"```\n{search.how}\n```",
        f"Example queries:\n{examples}",
    ]
