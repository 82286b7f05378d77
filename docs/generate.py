"""Writes the parts of the documentation that are made from the code: `make docs`. A test checks that they are current.

`commands.md`: the table of the registry, and the schema of the `slash` tool. `settings.md`: its table of keys.
`context.svg`: the picture on the front page, from a run.
"""

import runpy
from pathlib import Path

import msgspec

from foldmark.commands import REGISTRY
from foldmark.settings.about import row
from foldmark.settings.loading import ALL_KEYS
from foldmark.tools import TOOLS

HERE = Path(__file__).parent


def commands() -> str:
    """The page of all commands."""
    rows = [
        f"| `{command.synopsis.replace('|', chr(92) + '|')}` | {'you, model' if 'model' in command.who else 'you'} "
        f"| {command.help.rstrip('.')} |"
        for command in REGISTRY.commands.values()
    ]
    options = [
        f"| `/{command.name}` | `{option}` | {what.rstrip('.')} |"
        for command in REGISTRY.commands.values()
        for option, what in command.options
    ]
    slash = TOOLS["slash"].spec
    schema = {"name": slash.name, "description": slash.description, "parameters": slash.parameters}
    return "\n".join(
        [
            "# Commands",
            "",
            "Made from the registry by `make docs`. Type them in `foldmark chat`, or give one to",
            "`foldmark do NAME '...'`; in Python it is `agent.do('...')`. `NAME` is required, `[NAME]` may",
            "be left out, `NAME...` takes the rest of the line. A GID is a turn's id, an ID an event's;",
            "`/message list` and `/context show` show them.",
            "",
            "| command | who | effect |",
            "| --- | --- | --- |",
            *rows,
            "",
            "Options stand before or after the other arguments. In quotes they are words like others. What stands",
            "behind ` -- ` is the reason for an operation; it is recorded with it. With `--preview` an operation says",
            "what it would do and cost, and does nothing. [undo-drop-remove.md](undo-drop-remove.md) shows this.",
            "",
            "| command | option | effect |",
            "| --- | --- | --- |",
            *options,
            "",
            "## The model's `slash` tool",
            "",
            "A model runs its commands through one tool:",
            "",
            "```json",
            msgspec.json.format(msgspec.json.encode(schema), indent=2).decode(),
            "```",
            "",
        ]
    )


def settings() -> str:
    """The page of settings as it is, with its table made anew."""
    rows = []
    for key in ALL_KEYS:
        default, takes, about = row(key)
        rows.append(f"| `{key}` | `{default}` | {takes} | {about.meaning} | {about.source} |")
    begin, end = "<!-- keys: made from the code by `make docs` -->\n", "<!-- /keys -->"
    page = (HERE / "settings.md").read_text(encoding="utf-8")
    before, after = page.split(begin)[0], page.split(end)[1]
    head = ["", "| key | default | takes | meaning | source |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([before + begin.rstrip(), *head, *rows, "", end + after])


def picture() -> str:
    """The picture on the front page, from a run."""
    text: str = runpy.run_path(str(HERE / "picture.py"))["picture"]()
    return text


PAGES = {"commands.md": commands, "settings.md": settings, "context.svg": picture}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
