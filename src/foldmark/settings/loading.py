"""Load `Settings` from files, environment and command line, or from a program's own keys [SPEC 10].

`.foldmark.toml` and the user file belong to Foldmark, so an unknown key there is an error. `.work.toml` belongs to
another program, so unknown keys are ignored. A project's file shapes requests and nothing else, because it may come
from a stranger, who must not decide where texts and keys go.
"""

import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from foldmark.core import codec, config
from foldmark.core.config import KEYS, KINDS, meant_setting
from foldmark.core.errors import CommandError
from foldmark.core.wording import suggestion
from foldmark.plugins import PROVIDERS, names
from foldmark.providers.registry import ALIASES, BUILT_IN, check_model
from foldmark.settings.given import EVICTED, GLOBAL, GLOBAL_KINDS, Server, Settings, Value
from foldmark.settings.user_folders import database_path

MOST_BYTES = 256 * 1024
"""Maximum size of a file in bytes. Nobody writes more by hand, and parsing TOML is slow."""

MOST_PLACES = 50
"""Maximum number of lines to try when looking for a key's line."""

_MANY_DOTS = r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}"""
"""Matches a key of 64 parts or more: parsing needs time and memory in proportion to the square of their number."""

_AT_LINE = r" \(at line (\d+), column (\d+)\)$"


class File(NamedTuple):
    """A file and the tables in it."""

    path: Path
    text: str
    tables: dict[str, Any]

    def wrong(self, keys: tuple[str, ...], text: str) -> CommandError:
        """Return the error `text`, with the line of the key `keys`."""
        line = self._line(keys)
        return CommandError(f"{self.path}{f', line {line}' if line else ''}: {text}")

    def table(self, *keys: str) -> Mapping[str, Any]:
        """Return the table of this name; empty if there is none. Raises CommandError if it is something else."""
        found: Any = self.tables
        for depth, key in enumerate(keys, 1):
            found = found.get(key, {})
            if not isinstance(found, dict):
                raise self.wrong(keys[:depth], f"{key} must be a table, as [{'.'.join(keys[:depth])}] on its own line")
        return found  # type: ignore[no-any-return]

    def _line(self, keys: tuple[str, ...]) -> int | None:
        """Return the line that sets a key: the first line without which the key has no value."""
        import tomllib

        lines = self.text.split("\n")
        name = re.compile(rf"(?<![\w-]){re.escape(keys[-1])}(?![\w-])")
        places = [number for number, line in enumerate(lines) if name.search(line)]
        for number in reversed(places[:MOST_PLACES]):
            try:
                before: Any = tomllib.loads("\n".join(lines[:number]))
            except (ValueError, RecursionError):
                continue  # inside a multi-line text or list
            for key in keys:
                before = before.get(key) if isinstance(before, dict) else None
            if before is None:
                return number + 1
        return None


def _read(path: Path) -> File | None:
    """Return the file at `path`; None if it does not exist. Raises CommandError for a folder, or a file that is
    unreadable, too large or not TOML."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise CommandError(f"{path} is {kind}; settings are read from a TOML file. Move it away or replace it")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(data) > MOST_BYTES:
        raise CommandError(f"{path} is too large: a settings file has at most {MOST_BYTES:,} bytes")
    return _parsed(path, data)


def _nearest(name: str, folder: Path, home: Path | None) -> Path | None:
    """Return the file `name` in `folder` or the nearest parent that has one, up to the home folder or the root."""
    for each in (folder, *folder.parents):
        if os.path.exists(each / name):  # noqa: PTH110 - Path.exists raises for a folder that cannot be read
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
    if dots := re.search(_MANY_DOTS, text):
        line = text.count("\n", 0, dots.start()) + 1
        raise CommandError(f"{path}, line {line}: a key has too many parts")
    try:
        return File(path, text, tomllib.loads(text))
    except RecursionError:
        raise CommandError(f"{path}: lists or tables are nested too deeply") from None
    except ValueError as error:
        message = str(error)
        at = re.search(_AT_LINE, message)
        line = int(at[1]) if at else text.count("\n") + 1
        problem = message[: at.start()] if at else message.removesuffix(" (at end of document)")
        where = f", column {at[2]}" if at else ""
        raise CommandError(f"{path}, line {line}{where}: this is not TOML: {problem}") from None


def _unreadable(path: Path, error: Exception) -> CommandError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return CommandError(f"{path} cannot be read: {why}")


USER, PROJECT, WORK = "config.toml", ".foldmark.toml", ".work.toml"
PREFIXES = ("FOLDMARK_", "IKIGAI_")
ALL_KEYS = (*KEYS, *GLOBAL)
_KINDS = {**KINDS, **GLOBAL_KINDS}
USER_KEYS = {
    "tool_approval": "a project must not decide what runs without asking",
    "sync_exclude": "a project must not decide which of your sessions are kept",
    "recall_model": "a project must not decide which model reads your texts",
    "theme": "a project must not decide how your screen looks",
    "live_sign": "a project must not decide which of your prompts are commands",
}
"""Keys that a project's file must not set -> the reason."""

_LIVE_KEYS = ("live_evict",)
"""The settings of the table `[live]`."""

_DIALECTS = ("openai", "anthropic", "gemini")
"""The built-in dialects that a configured provider can speak."""
_SERVER_KEYS = ["dialect", "base_url", "key_env"]
# Only files have these, so no pattern is compiled at startup.
_NAME = r"[A-Za-z0-9_-]{1,40}"
_VARIABLE = r"[A-Z_][A-Z0-9_]{0,99}"
_SECRET = r"(?i)(key|token|secret|password|auth|authorization|bearer)$"


def load(
    environment: Mapping[str, str], working: Path | None, user: Path | None, options: Mapping[str, Any] = {}
) -> Settings:
    """Return the settings of a program that runs in folder `working` with this environment.

    `user` is the folder of the user file `config.toml`. `options` are those of the command line, key -> value. Raises
    CommandError, with file and line, for anything invalid.
    """
    own = _read(user / USER) if user else None
    defaults: dict[str, Value] = {}
    models: dict[str, Mapping[str, Any]] = {}
    providers: dict[str, Server] = {}
    if own:
        _check_tables(own, ("context", "live", "models", "providers", "database", "offline_delay"), "")
        models |= _models(own)
        providers = {name: _server(own, name) for name in own.table("providers")}
        defaults |= {**_context(own, "user file", providers), **_live(own, "user file")}
    if working:
        home = environment.get("HOME") or environment.get("USERPROFILE")
        # In the form that `os.getcwd` returns.
        top = Path(os.path.realpath(home)) if home and Path(home).is_absolute() else None
        defaults |= _project(working, top, models, providers)
    chosen = {key: Value(_checked(key, value, providers), "command line") for key, value in options.items()}
    return Settings(
        defaults=defaults,
        overrides={**_environment(environment, providers), **chosen},
        models=models,
        providers=providers,
        offline_delay=_delay(own) if own else None,
        database=_database(own) if own else None,
    )


def program_settings(keys: Mapping[str, Any]) -> Settings:
    """Return the settings that a program passes, key -> value; agents may override them. Raises CommandError."""
    if not isinstance(keys, Mapping):
        raise CommandError(f"settings must be a mapping of keys to values, not {config.described(keys)}")
    return Settings(defaults={key: Value(_checked(key, value, ()), "program") for key, value in keys.items()})


def _project(
    working: Path, home: Path | None, models: dict[str, Mapping[str, Any]], providers: Collection[str]
) -> dict[str, Value]:
    """Return the settings of the project's file, and add its models to `models`."""
    path = _nearest(PROJECT, working, home)
    file, live = _read(path) if path else None, dict[str, Value]()
    if file:
        why = f"; it belongs in your own {USER}: a project must not decide where texts and keys go"
        _check_tables(file, ("context", "live", "models"), why)
        for name, table in _models(file).items():
            models[name] = {**models.get(name, {}), **table}
        live = _live(file, PROJECT)
        if "context" in file.tables:
            return {**_context(file, PROJECT, providers), **live}
    path = _nearest(WORK, working, home)
    work = _read(path) if path and path.is_file() else None
    if work is None or not isinstance(work.tables.get("context"), dict):
        return live
    return {**_context(work, WORK, providers, lenient=True), **live}


def _live(file: File, source: str) -> dict[str, Value]:
    """Return the checked keys of a file's `[live]`: `evict` is the setting `live_evict`."""
    found = {}
    for key, value in file.table("live").items():
        if (name := f"live_{key}") not in _LIVE_KEYS:
            known = [each.removeprefix("live_") for each in _LIVE_KEYS]
            raise file.wrong(("live", key), f"there is no '{key[:40]}' in [live]; {suggestion(key, known)}")
        unknown = [each for each in value if each not in EVICTED] if isinstance(value, list) else []
        if unknown:
            raise file.wrong(("live", key), f"{key} takes {', '.join(EVICTED)}, and there is no {unknown[0]!r:.42}")
        try:
            found[name] = Value(_KINDS[name].value(key, value), source)
        except CommandError as error:
            raise file.wrong(("live", key), str(error)) from None
    return found


def _context(file: File, source: str, providers: Collection[str], *, lenient: bool = False) -> dict[str, Value]:
    """Return the checked keys of a file's `[context]`; unknown ones are ignored if `lenient`."""
    found = {}
    for key, value in file.table("context").items():
        if key in USER_KEYS and source != "user file":
            if lenient:
                continue
            raise file.wrong(("context", key), f"{key} belongs in your own {USER}: {USER_KEYS[key]}")
        if key in ALL_KEYS or not lenient:
            try:
                found[key] = Value(_checked(key, value, providers), source)
            except CommandError as error:
                raise file.wrong(("context", key), str(error)) from None
    return found


def _checked(key: Any, value: Any, providers: Collection[str]) -> Any:
    """Return the checked value of any key from outside; `providers` are the configured ones. Raises CommandError."""
    if key not in ALL_KEYS:
        raise CommandError(f"there is no setting '{str(key)[:40]}'; {meant_setting(str(key), ALL_KEYS)}")
    if isinstance(value, str):
        value = codec.well_formed(value if key == "system" else value.strip())
    value = _KINDS[key].value(key, value)
    if key == "model":
        check_model(value, providers)
    return value


def _environment(environment: Mapping[str, str], providers: Collection[str]) -> dict[str, Value]:
    found = {}
    for key in ALL_KEYS:
        name = next((name for prefix in PREFIXES if environment.get(name := f"{prefix}{key.upper()}")), None)
        if name:
            try:
                found[key] = Value(_checked(key, environment[name], providers), f"environment {name}")
            except CommandError as error:
                raise CommandError(f"{name} in the environment: {error}") from None
    return found


def _check_tables(file: File, known: tuple[str, ...], why: str) -> None:
    for key in file.tables:
        if key in known:
            continue
        if key in ALL_KEYS:
            raise file.wrong((key,), f"{key} belongs in the table [context]; write [context] in a line above it")
        if why and key in ("providers", "database", "offline_delay"):
            raise file.wrong((key,), f"{key} is not allowed in {file.path.name}{why}")
        raise file.wrong((key,), f"there is no '{key[:40]}'; {suggestion(key, known)}")


def _models(file: File) -> dict[str, Mapping[str, Any]]:
    return {name: file.table("models", name) for name in file.table("models")}


def _delay(file: File) -> float | None:
    delay = file.tables.get("offline_delay")
    if delay is None or (type(delay) in (int, float) and 0 <= delay <= 10):
        return delay
    text = f"offline_delay must be a number of seconds from 0 to 10, not {config.described(delay)}"
    raise file.wrong(("offline_delay",), text)


def _database(file: File) -> str | None:
    """Return the configured database. A path is relative to the file's folder; `~` is the home folder."""
    database = file.tables.get("database")
    if database is None:
        return None
    if not isinstance(database, str) or not database.strip() or "\0" in database:
        raise file.wrong(("database",), f"database must be a path or a URL, not {config.described(database)}")
    if database == ":memory:" or "://" in database:
        return database
    return str(file.path.parent / database_path(database))


def _server(file: File, name: str) -> Server:
    """Return the provider of the table `[providers.NAME]`. An error never repeats a value that may be a key."""
    table = file.table("providers", name)
    for key, value in table.items():
        try:
            _check_server_key(name, key, value)
        except CommandError as error:
            raise file.wrong(("providers", name, key), str(error)) from None
    dialect, base_url, key_env = (table.get(key) for key in _SERVER_KEYS)
    wrong = None
    if not re.fullmatch(_NAME, name) or name in ("offline", *ALIASES):
        wrong = (
            f"invalid name {name[:40]!r}: a provider's name has letters, digits, - and _, and is not offline or google"
        )
    elif name in BUILT_IN and dialect is not None:
        wrong = f"{name} is built in and has its dialect; leave dialect out, or choose another name"
    elif base_url is None and key_env is None:
        wrong = f"[providers.{name}] has neither base_url nor key_env; give at least one"
    if wrong:
        raise file.wrong(("providers", name), wrong)
    return Server(None if name in BUILT_IN else dialect or "openai", base_url and base_url.rstrip("/"), key_env)


def _check_server_key(name: str, key: str, value: Any) -> None:
    if re.search(_SECRET, key):
        raise CommandError(
            f"a key must not be in a file: put it into an environment variable and name the variable, as in "
            f'key_env = "{re.sub("[^A-Z0-9]", "_", name.upper())[:40]}_API_KEY"'
        )
    if key not in _SERVER_KEYS:
        raise CommandError(f"a provider has no '{key[:40]}'; {suggestion(key, _SERVER_KEYS)}")
    if key == "dialect" and value not in _DIALECTS and value not in (own := names(PROVIDERS)):
        raise CommandError(f"dialect must be one of {', '.join((*_DIALECTS, *own))}")
    if key == "key_env" and not (isinstance(value, str) and re.fullmatch(_VARIABLE, value)):
        raise CommandError('key_env must be the name of a variable, such as "MY_API_KEY", not the key itself')
    if key == "base_url":
        _check_url(value)


def _check_url(value: Any) -> None:
    """Raise CommandError unless `value` is an HTTP address without a password."""
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(char.isspace() for char in value):
        raise CommandError('base_url must be an address such as "https://host:8000/v1"')
    if parts.username is not None or parts.password is not None:
        raise CommandError("base_url must not hold a name or password; key_env names the variable with the key")
