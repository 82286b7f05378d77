"""`foldmark copy`: conversations from one database to another."""

import sys

import click
from msgspec import to_builtins

import foldmark
from foldmark.app import Setup
from foldmark.cli.backup import showing
from foldmark.copying import CopyReport
from foldmark.core.errors import CommandError
from foldmark.core.wording import count
from foldmark.rendering import harmless, json_text
from foldmark.stores.addresses import shown


@click.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "--conversation",
    "names",
    metavar="NAME",
    multiple=True,
    help="Copy only this one with its forks; as often as wanted. Otherwise the whole database.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def copy(setup: Setup, source: str, target: str, names: tuple[str, ...], as_json: bool) -> int:
    """Copy conversations from one database to another.

    FROM and TO are paths of SQLite files or postgresql:// addresses; TO is made if it is not there. Ids stay as they
    are, so TO must be empty or have nothing but earlier copies of FROM; then only what is new is copied. It may be
    interrupted at any time and goes on when it is run again. In the end all is compared.

    Vectors for a search by meaning are not copied; `foldmark index` makes them.
    """
    from foldmark.copying import copy as copied
    from foldmark.copying.comparing import scope

    if ":memory:" in (source, target):
        raise CommandError("a database in memory ends with this command; name a file")
    with foldmark.open(source, create=False, settings=setup.given) as log:
        with log.store.read() as moment:
            scope(moment, names)  # before there is a database to write to
        with foldmark.open(target, settings=setup.given) as other, showing("Copying") as progress:
            if other.store.address == log.store.address:
                raise CommandError(f"{shown(target)} is the database that is to be copied; name another")
            try:
                report = copied(log.store, other.store, names, progress)
            except KeyboardInterrupt:
                report = None
    if report is None:
        print("foldmark: interrupted; run it again and it goes on from there", file=sys.stderr)
        return 130
    told = {"from": shown(source), "to": shown(target), **to_builtins(report)}
    print(json_text(told) if as_json else _text(shown(target), report))
    return 0


def _text(target: str, report: CopyReport) -> str:
    parts = [
        (report.events, "new event"),
        (report.requests, "request"),
        (report.mail, "mail message"),
        (report.memos, "memo"),
        (report.sessions, "session"),
    ]
    new = ", ".join(count(number, noun) for number, noun in parts if number)
    lines = [f"{target}: {new or 'nothing new'}"]
    if report.erased:
        lines.append(f"  {count(report.erased, 'event')} erased, as in the original")
    agents = f"{count(report.conversations, 'conversation')}, {count(report.agents, 'agent')}"
    lines.append(f"  {agents}, {count(report.compared, 'event')} compared: the same in both ({report.hash[:12]})")
    return harmless("\n".join(lines))
