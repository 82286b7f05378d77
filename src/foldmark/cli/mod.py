"""`foldmark mod`: the service behind the plugins of Claude Code [SPEC 8]."""

import json
import os
import sys

import click

from foldmark import __version__
from foldmark.app import Setup


@click.command()
@click.option("--serve", is_flag=True, hidden=True)
@click.pass_obj
def mod(setup: Setup, serve: bool) -> int:
    """Start the service for Foldmark's plugins in Claude Code.

    Prints its address as JSON. The plugins call this when they need it: the service keeps the conversations of this
    user's sessions, listens only on this machine, and ends after half an hour without a request.
    """
    from foldmark.mod import service

    if not serve:
        command = [sys.executable, "-m", "foldmark", "--db", setup.db, "mod", "--serve"]
        print(json.dumps(service.started(os.environ, setup.db, __version__, command)._asdict()))
        return 0
    from foldmark.mod.questions import Questions

    setup.in_utc = True
    with setup.log(create=True) as log:
        service.serve(Questions(log), os.environ, setup.db, __version__)
    return 0
