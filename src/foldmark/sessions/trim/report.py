"""Trim a session on request: write the new file, archive the old one, record the lineage and report [SPEC 8]."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, listing, one_line
from foldmark.log import Log
from foldmark.sessions import lineage
from foldmark.sessions.archive.sources import passes_over
from foldmark.sessions.archive.storing import archive_folder, put
from foldmark.sessions.formats import ResumeCommand, SessionPath, format_named, resume_command
from foldmark.sessions.hook.tail import Share, share
from foldmark.sessions.trim import trimming
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.trimming import TrimResult

_LITTLE = 10
"""Percent of the context. A trim that saves less does not help for long."""

_HALF = 50
"""Percent of the window. A context below it needs no help yet."""

_LISTED = 20
"""Maximum number of tools to list."""


class TrimReport(NamedTuple):
    """The result of a trim, or with `preview` the expected one.

    `share` is the fill level of the context before the trim (None: unknown), `archived` the path of the session in the
    archive (None: not archived), `resume` the command that resumes the new session. `further` maps each step of the
    profile `deep` to the tokens that it would save in addition. `warnings` explain unexpected outcomes.
    """

    parent: SessionPath
    trimmed: TrimResult
    share: Share | None
    archived: Path | None
    resume: ResumeCommand | None
    preview: bool
    further: dict[str, int]
    warnings: tuple[str, ...]

    @property
    def written(self) -> bool:
        """Return True if a new session was written."""
        return not self.preview and self.trimmed.trimmed_count > 0

    @property
    def after(self) -> int | None:
        """The share of the window that remains in use after the trim, in percent; None if unknown."""
        if self.share is None:
            return None
        left = max(self.share.tokens - self.trimmed.in_context, 0)
        return left * 100 // self.share.window

    @property
    def little(self) -> bool:
        """Return True if the trim saved too little: a rollover helps more."""
        saved, share = self.trimmed.in_context, self.share
        if share is None:
            return not saved
        return share.percent >= _HALF and saved * 100 < share.tokens * _LITTLE


def trim_session(
    session: SessionPath,
    options: TrimOptions,
    new_id: str,
    opened: Callable[[], AbstractContextManager[Log]],
    environment: Mapping[str, str],
    exclude: Sequence[str],
    *,
    preview: bool,
) -> TrimReport:
    """Trim a session into the new session `new_id`, archive it, and record both in the log that `opened` opens.

    With `preview`, nothing is written. Sessions in the folders `exclude` are not archived. After the new file is
    written, a failure is only a warning, because the session itself stays where it is. Raises as `trimming.trim`.
    """
    moment, before = datetime.now(UTC), share(session.path)
    done = trimming.preview(session, options, moment) if preview else trimming.trim(session, options, new_id, moment)
    archived = resume = None
    warnings: list[str] = []
    if not preview and done.trimmed_count:
        try:
            if not passes_over(session.path, exclude, environment):
                put_away = put(session.path, archive_folder(environment), session.kind)
                archived = None if put_away.state == "excluded" else put_away.path
        except FoldmarkError as error:
            warnings.append(f"the session was not archived, but stays where it is: {error}")
        try:
            with opened() as log:
                work = lineage.find_work(environment)
                lineage.record_handover(log, session, done.session, "trim", before.percent if before else None, work)
        except (FoldmarkError, OSError) as error:
            warnings.append(f"the new session was not recorded in the database: {error}")
        resume = resume_command(done.session, environment)
    further = {} if options.deep else trimming.further(session, options, done, moment)
    all_warnings = (*warnings, *_surprises(done, options))
    return TrimReport(session, done, before, archived, resume, preview, further, all_warnings)


def _surprises(trimmed: TrimResult, options: TrimOptions) -> Iterator[str]:
    if trimmed.tools and not trimmed.tally:
        tools, own = (listing(map(one_line, names), _LISTED) for names in (options.tools, trimmed.tools))
        yield f"there is no result of {tools} in this session; its tools are {own}"
    if trimmed.long:
        were = "was left as it is" if trimmed.long == 1 else "were left as they are"
        yield f"{count(trimmed.long, 'line')} longer than {trimming.LONGEST >> 20} MB {were}"
    agent = format_named(trimmed.session.kind)
    if trimmed.nulls and agent.null_stops:
        file = shlex.quote(str(trimmed.session.path))
        yield (
            f"{count(trimmed.nulls, 'line')} of the session {'is' if trimmed.nulls == 1 else 'are'} `null`, with which "
            f"{agent.title} cannot resume it: foldmark doctor --session {file} --repair"
        )
