"""`foldmark hook` and `foldmark statusline` as the command line lists them; `entry` runs them without it."""

import click

from foldmark import cli as entry
from foldmark.app import Setup

_WHATEVER = {"ignore_unknown_options": True, "allow_extra_args": True}
"""A newer or older coding agent may say more than we know: that is no reason to fail."""


@click.command(context_settings=_WHATEVER)
@click.pass_obj
def hook(setup: Setup) -> int:
    """Answer a hook of Claude Code.

    Reads what Claude Code tells of an event, as JSON on standard input. After a tool call and with a prompt, the model
    is reminded of how full its context is, from 60% on and at most once a minute; before a compaction and at the end
    of a turn or session the session is archived. Always ends with exit code 0; what went wrong stands in hook.log of
    the state folder. `foldmark install claude` sets it up.
    """
    return entry.hook(lambda: setup.log(create=True))


@click.command(context_settings=_WHATEVER)
def statusline() -> int:
    """Print a status line for Claude Code.

    Reads the session's status, as JSON on standard input, and prints how full its context is, on one line. Always ends
    with exit code 0. `foldmark install claude` sets it up.
    """
    return entry.statusline()
