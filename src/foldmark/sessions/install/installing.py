"""Installing into Claude Code, and taking it out again: planned first, then done whole or not at all."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from foldmark.sessions.install.changes import alone, carry_out
from foldmark.sessions.install.parts import ANY, Wanted, all_parts
from foldmark.sessions.install.plan import InstallPlan, plan_install, plan_removal
from foldmark.sessions.install.where import Places
from foldmark.sessions.new_file import PREFIX, SUFFIX


def install(places: Places, wanted: Wanted, environment: Mapping[str, str]) -> InstallPlan:
    """Install what is wanted; where all of it is there already, nothing is written. Raises InstallError."""
    with alone(_shared(places)):
        plan = plan_install(places, wanted, environment)
        carry_out(plan.steps)
    return plan


def uninstall(places: Places, environment: Mapping[str, str]) -> InstallPlan:
    """Take everything out again, with what an installation that was killed has left. Raises InstallError."""
    with alone(_shared(places)):
        plan = plan_removal(places, environment)
        for folder in {part.path.parent for part in all_parts(places, ANY, environment)}:
            for unfinished in folder.glob(f"{PREFIX}*{SUFFIX}"):
                with suppress(OSError):
                    os.unlink(unfinished)  # noqa: PTH108 - a link is not followed
        carry_out(plan.steps)
    return plan


def _shared(places: Places) -> Path:
    return places.root or places.folder
