"""How `Settings` are made: of files, environment and command line, or of what a program gives [SPEC 10].

`.foldmark.toml` and the user file are ours: what is not understood there is an error. `.work.toml` is somebody else's:
what is unknown there is passed over. A project's file shapes requests and nothing else: whoever takes over somebody's
project does not want it to say where texts and keys go.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from foldmark.core import codec, config
from foldmark.core.config import KEYS
from foldmark.core.errors import CommandError
from foldmark.providers.registry import check_model
from foldmark.settings import trim
from foldmark.settings.file import File, nearest, read
from foldmark.settings.given import Server, Settings, Value
from foldmark.settings.suggestions import suggestion
from foldmark.settings.trim import TRIM

USER, PROJECT, WORK = "config.toml", ".foldmark.toml", ".work.toml"
PREFIXES = ("FOLDMARK_", "IKIGAI_")
ALL_KEYS = (*KEYS, *TRIM)
PERSONS_OWN = {
    "tool_approval": "a project does not say what runs without asking",
    "sync_exclude": "a project does not say which of your sessions are kept",
    "recall_model": "a project does not say which model reads what you said",
}
"""Keys that no project's file may hold, and why."""


def load(
    environment: Mapping[str, str], working: Path | None, user: Path | None, options: Mapping[str, Any] = {}
) -> Settings:
    """The settings for a program that runs in folder `working` and has this environment.

    `user` is the folder of the user file `config.toml`. `options` are those of the command line, key -> value. Reads
    only files. Raises CommandError for whatever cannot be understood, saying where it stands.
    """
    own = read(user / USER) if user else None
    defaults: dict[str, Value] = {}
    models: dict[str, Mapping[str, Any]] = {}
    providers: dict[str, Server] = {}
    if own:
        _check_tables(own, ("context", "models", "providers", "database", "offline_delay"), "")
        models |= _models(own)
        if "providers" in own.tables:
            from foldmark.settings.servers import servers

            providers = servers(own)
        defaults |= _context(own, "user file", providers)
    if working:
        defaults |= _project(working, _home(environment), models, providers)
    return Settings(
        defaults=defaults,
        overrides={**_environment(environment, providers), **_options(options, providers)},
        models=models,
        providers=providers,
        offline_delay=_delay(own) if own else None,
        database=_database(own) if own else None,
    )


def given(keys: Mapping[str, Any]) -> Settings:
    """The settings of a program that gives them itself, key -> value; agents may change them. Raises CommandError."""
    if not isinstance(keys, Mapping):
        raise CommandError(f"settings are a mapping of keys to values, not {config.described(keys)}")
    return Settings(defaults={key: Value(_checked(key, value, ()), "program") for key, value in keys.items()})


def _project(
    working: Path, home: Path | None, models: dict[str, Mapping[str, Any]], providers: Collection[str]
) -> dict[str, Value]:
    """What the project's file sets; its models go into `models`."""
    path = nearest(PROJECT, working, home)
    file = read(path) if path else None
    if file:
        why = f"; it stands in your own {USER}, for it is not the project's to say where texts and keys go"
        _check_tables(file, ("context", "models"), why)
        for name, table in _models(file).items():
            models[name] = {**models.get(name, {}), **table}
        if "context" in file.tables:
            return _context(file, PROJECT, providers)
    path = nearest(WORK, working, home)
    work = read(path) if path and path.is_file() else None
    if work is None or not isinstance(work.tables.get("context"), dict):
        return {}
    return _context(work, WORK, providers, lenient=True)


def _context(file: File, source: str, providers: Collection[str], *, lenient: bool = False) -> dict[str, Value]:
    """The keys in a file's `[context]`, checked; what is unknown is passed over where `lenient`."""
    found = {}
    for key, value in file.table("context").items():
        if key in PERSONS_OWN and source != "user file":
            if lenient:
                continue
            why = f"stands in your own {USER}: {PERSONS_OWN[key]}"
            raise file.wrong(("context", key), f"{key} {why}")
        if key in ALL_KEYS or not lenient:
            try:
                found[key] = Value(_checked(key, value, providers), source)
            except CommandError as error:
                raise file.wrong(("context", key), str(error)) from None
    return found


def _checked(key: Any, value: Any, providers: Collection[str]) -> Any:
    """The value of any key, from outside. `providers` are those that are configured. Raises CommandError."""
    if key not in ALL_KEYS:
        raise CommandError(f"there is no setting '{str(key)[:40]}'; {suggestion(str(key), list(ALL_KEYS))}")
    if isinstance(value, str):
        value = codec.well_formed(value if key == "system" else value.strip())
    value = trim.checked(key, value) if key in TRIM else config.checked(key, value)
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


def _options(options: Mapping[str, Any], providers: Collection[str]) -> dict[str, Value]:
    return {key: Value(_checked(key, value, providers), "command line") for key, value in options.items()}


def _check_tables(file: File, known: tuple[str, ...], why: str) -> None:
    for key in file.tables:
        if key in known:
            continue
        if key in ALL_KEYS:
            raise file.wrong((key,), f"{key} stands in the table [context]; write [context] in a line above it")
        if why and key in ("providers", "database", "offline_delay"):
            raise file.wrong((key,), f"{key} does not stand in {file.path.name}{why}")
        raise file.wrong((key,), f"there is no '{key[:40]}'; {suggestion(key, list(known))}")


def _models(file: File) -> dict[str, Mapping[str, Any]]:
    return {name: file.table("models", name) for name in file.table("models")}


def _delay(file: File) -> float | None:
    delay = file.tables.get("offline_delay")
    if delay is None or (type(delay) in (int, float) and 0 <= delay <= 10):
        return delay
    told = f"offline_delay is a number of seconds from 0 to 10, not {config.described(delay)}"
    raise file.wrong(("offline_delay",), told)


def _database(file: File) -> str | None:
    """The configured database; a path begins at the file's folder, `~` is the home folder."""
    database = file.tables.get("database")
    if database is None:
        return None
    if not isinstance(database, str) or not database.strip() or "\0" in database:
        raise file.wrong(("database",), f"database is a path or a URL, not {config.described(database)}")
    if database == ":memory:" or "://" in database:
        return database
    return str(file.path.parent / os.path.expanduser(database))  # noqa: PTH111 - Path.expanduser raises where there is no home


def _home(environment: Mapping[str, str]) -> Path | None:
    """The home folder as `os.getcwd` would name it."""
    home = environment.get("HOME") or environment.get("USERPROFILE")
    return Path(os.path.realpath(home)) if home and Path(home).is_absolute() else None
