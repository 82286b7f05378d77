"""`foldmark export`: a conversation's context as a session that Claude Code continues."""

import os
import sys
from collections import Counter
from pathlib import Path

import click

import foldmark
from foldmark.app import Setup
from foldmark.cli.completion import conversations
from foldmark.core.wording import count

_DASH = Path("-")


@click.command()
@click.argument("name", shell_complete=conversations)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--cwd",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The folder that the session is to work in; otherwise this one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def export(setup: Setup, name: str, file: Path | None, cwd: Path, as_json: bool) -> None:
    """Write the context of conversation NAME as a Claude Code session.

    The session goes to where Claude Code looks for those of the folder, or to FILE, which must not exist; - is standard
    output. It holds all that is in the context, with forget, rewind and drop applied; the conversation stays as it is.
    NAME may be the beginning of an agent's uuid.
    """
    from foldmark.rendering import harmless, json_text
    from foldmark.sessions.conversion.exporting import export as exported
    from foldmark.sessions.conversion.exporting import session_of, write

    if file == _DASH and as_json:
        raise click.UsageError("--json tells where the session is; with - it is what is printed")
    with setup.log(create=False) as log:
        found = exported(log.find(name), cwd, foldmark.__version__, session_of(file) if file else None)
    if file == _DASH:
        sys.stdout.buffer.writelines(found.content())
        return
    written = write(found, os.environ, file)
    if as_json:
        data = {
            "session_id": found.session_id,
            "file": str(written.file),
            "cwd": found.cwd,
            "command": written.command.shell,
            "records": len(found.lines),
            "messages": found.messages,
            "left_out": [{"event": event, "why": why} for event, why in found.left_out],
            "up_to": found.until,
        }
        print(json_text(data))
        return
    messages = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in found.messages.items())
    lines = [f"Session {found.session_id}: {count(len(found.lines), 'record')} ({messages})", f"  {written.file}"]
    whys = Counter(why for _, why in found.left_out)
    lines += [f"  not in it, or not whole: {count(number, 'message')}: {why}" for why, number in whys.most_common()]
    lines += ["Continue it with:", f"  {written.command.shell}"]
    print(harmless("\n".join(lines)))
