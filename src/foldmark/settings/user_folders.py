"""This user's folders, and the database in them [SPEC 9].

The folders are the same as in `platformdirs`, whose import would take a fifth of a hook's time; a test compares them.
For the same reason, paths are plain text here and in all other modules that a hook imports.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def state_folder(environment: "Mapping[str, str]") -> str:
    """Return the folder of a hook's state and log: `$XDG_STATE_HOME/foldmark`, or the platform's."""
    return _folder(environment, "XDG_STATE_HOME", ".local/state")


def data_folder(environment: "Mapping[str, str]") -> str:
    """Return the folder of Foldmark's own data: `$XDG_DATA_HOME/foldmark`, or the platform's."""
    return _folder(environment, "XDG_DATA_HOME", ".local/share")


def config_folder(environment: "Mapping[str, str]") -> str:
    """Return the folder of the user file `config.toml`: `$XDG_CONFIG_HOME/foldmark`, or the platform's."""
    return _folder(environment, "XDG_CONFIG_HOME", ".config")


def home(environment: "Mapping[str, str]") -> str:
    """Return the home folder."""
    return environment.get("HOME") or environment.get("USERPROFILE") or os.path.expanduser("~")


def named_database(environment: "Mapping[str, str]", configured: str | None) -> str | None:
    """Return the database that the user chose: `FOLDMARK_DB`, or the configured one; None if there is neither."""
    named = environment.get("FOLDMARK_DB")
    return database_path(named) if named else configured


def database_path(named: str) -> str:
    """Return the address of the database that a person named: `~` at its beginning is the home folder."""
    return os.path.expanduser(named)


def default_database(environment: "Mapping[str, str]") -> str:
    """Return the default database, `foldmark.db` in the data folder, and create that folder if needed."""
    return os.path.join(data_folder(environment), "foldmark.db")


def _folder(environment: "Mapping[str, str]", variable: str, usual: str) -> str:
    if sys.platform == "win32":
        return os.path.join(environment.get("LOCALAPPDATA") or home(environment), "foldmark")
    named = environment.get(variable, "")
    if named.startswith("/"):
        return os.path.join(named, "foldmark")
    usual = "Library/Application Support" if sys.platform == "darwin" else usual
    return os.path.join(home(environment), usual, "foldmark")
