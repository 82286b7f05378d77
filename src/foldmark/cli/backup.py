"""`foldmark backup`: a database in one file, written while it is in use, and whether such a file is whole."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from foldmark.app import Setup
from foldmark.core.errors import StoreError
from foldmark.core.ports import Progress
from foldmark.core.wording import one_line
from foldmark.rendering import harmless, json_text
from foldmark.stores.addresses import BUILT_IN, scheme, shown


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Say whether the backup FILE is whole; it is only read.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def backup(setup: Setup, file: Path, verify: bool, force: bool, as_json: bool) -> int:
    """Write a backup of the database to FILE.

    FILE is a database like the original, as of one moment; others may write meanwhile. It appears when it is whole.
    With --verify, exit code 1 if something is wrong with it.
    """
    if verify:
        if force:
            raise click.UsageError("--force and --verify do not go together")
        return _verified(file, as_json)
    if kind := scheme(setup.db):
        if kind not in BUILT_IN:
            raise StoreError(f"`foldmark backup` copies SQLite files; a {kind} database has tools of its own")
        raise StoreError(f"a PostgreSQL server is backed up by its own tool: {_dump(setup.db, file)}")
    from foldmark.stores.sqlite.backup import back_up

    with showing("Writing") as progress:
        size = back_up(setup.db, file, progress, replace=force)
    if as_json:
        print(json_text({"database": setup.db, "file": str(file), "bytes": size}))
    else:
        told = f"{file}: {size / 1e6:,.1f} MB. `foldmark backup --verify` checks it; `foldmark --db` opens it."
        print(harmless(told))
    return 0


def _verified(file: Path, as_json: bool) -> int:
    from foldmark.app import open_over
    from foldmark.cli.database_doctor import examine
    from foldmark.stores.sqlite.backup import opened

    with opened(file) as (store, schema):
        return examine(open_over(store), str(file), False, as_json, schema)


def _dump(address: str, file: Path) -> str:
    """The command that backs up a database on a server; without the password, which is asked for or in ~/.pgpass."""
    from shlex import quote

    options = [each for each in address.partition("?")[2].split("&") if each and "password" not in each]
    place = "?".join((shown(address), *(["&".join(options)] if options else ())))
    return f"`pg_dump --format=custom --file={quote(str(file))} {quote(place)}`; pg_restore reads it back"


@contextmanager
def showing(label: str) -> Iterator[Progress]:
    """A bar on a terminal's standard error; it begins when there is something to tell."""
    bar = click.progressbar(length=1, label=one_line(label), file=sys.stderr, hidden=not sys.stderr.isatty())
    with bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show
