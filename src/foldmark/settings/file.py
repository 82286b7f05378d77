"""A TOML file of settings, which can name the line of a key in an error."""

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from foldmark.core.errors import CommandError

MOST_BYTES = 256 * 1024
"""Maximum size: nobody writes more by hand, and parsing TOML is slow."""

MOST_PLACES = 50
"""Maximum number of lines that are tried to find a key's line."""

_MANY_DOTS = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}""")
"""A key of 64 parts or more: parsing takes the square of their number in time and memory."""

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")


class File(NamedTuple):
    """A file and the tables in it."""

    path: Path
    text: str
    tables: dict[str, Any]

    def wrong(self, keys: tuple[str, ...], text: str) -> CommandError:
        """Return the error `text` with the line of the key `keys`."""
        line = self._line(keys)
        return CommandError(f"{self.path}{f', line {line}' if line else ''}: {text}")

    def table(self, *keys: str) -> Mapping[str, Any]:
        """Return the table of this name; empty if there is none. Raises CommandError if it is something else."""
        found: Any = self.tables
        for depth, key in enumerate(keys, 1):
            found = found.get(key, {})
            if not isinstance(found, dict):
                raise self.wrong(keys[:depth], f"{key} is a table, [{'.'.join(keys[:depth])}] in a line of its own")
        return found  # type: ignore[no-any-return]

    def _line(self, keys: tuple[str, ...]) -> int | None:
        """Return the line that gives a key its value: before that line it has none."""
        import tomllib

        lines = self.text.split("\n")
        name = re.compile(rf"(?<![\w-]){re.escape(keys[-1])}(?![\w-])")
        places = [number for number, line in enumerate(lines) if name.search(line)]
        for number in reversed(places[:MOST_PLACES]):
            try:
                before: Any = tomllib.loads("\n".join(lines[:number]))
            except (ValueError, RecursionError):
                continue  # inside a text or a list of several lines
            for key in keys:
                before = before.get(key) if isinstance(before, dict) else None
            if before is None:
                return number + 1
        return None


def read(path: Path) -> File | None:
    """Return the file at `path`, None if there is none. Raises CommandError for a folder, and for a file that is
    unreadable, too large or not TOML."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no ordinary file"
        raise CommandError(f"{path} is {what}; settings are read from a TOML file. Move it away or replace it")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(data) > MOST_BYTES:
        raise CommandError(f"{path} is too large for a file of settings, which has up to {MOST_BYTES:,} bytes")
    return _parsed(path, data)


def nearest(name: str, folder: Path, home: Path | None) -> Path | None:
    """Return the file `name` in `folder` or the next folder above that has one, up to the home folder or the root."""
    for each in (folder, *folder.parents):
        try:
            (each / name).stat()
        except OSError:
            pass
        else:
            return each / name
        if each == home:
            break
    return None


def _parsed(path: Path, data: bytes) -> File:
    import tomllib  # 10 ms, and most people have no such file

    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{path}, line {line}: not UTF-8, as TOML has to be; save the file as UTF-8") from None
    if dots := _MANY_DOTS.search(text):
        line = text.count("\n", 0, dots.start()) + 1
        raise CommandError(f"{path}, line {line}: a key of so many parts is not read")
    try:
        return File(path, text, tomllib.loads(text))
    except RecursionError:
        raise CommandError(f"{path}: lists or tables are nested too deeply") from None
    except ValueError as error:
        message = str(error)
        at = _AT_LINE.search(message)
        line = int(at[1]) if at else text.count("\n") + 1
        what = message[: at.start()] if at else message.removesuffix(" (at end of document)")
        where = f", column {at[2]}" if at else ""
        raise CommandError(f"{path}, line {line}{where}: this is not TOML: {what}") from None


def _unreadable(path: Path, error: Exception) -> CommandError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return CommandError(f"{path} cannot be read: {why}")
