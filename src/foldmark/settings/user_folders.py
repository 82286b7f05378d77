"""The folders of this user as `platformdirs` has them, whose import takes a fifth of a hook's time: a test compares.

Paths are plain text here and in whatever else a hook imports, for the same reason.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def state_folder(environment: "Mapping[str, str]") -> str:
    """Where a hook keeps what it has to remember, and its log: `$XDG_STATE_HOME/foldmark`, or the platform's folder."""
    return _folder(environment, "XDG_STATE_HOME", ".local/state")


def data_folder(environment: "Mapping[str, str]") -> str:
    """Where Foldmark keeps what is its own: `$XDG_DATA_HOME/foldmark`, or the platform's folder."""
    return _folder(environment, "XDG_DATA_HOME", ".local/share")


def config_folder(environment: "Mapping[str, str]") -> str:
    """Where the user file `config.toml` stands: `$XDG_CONFIG_HOME/foldmark`, or the platform's folder."""
    return _folder(environment, "XDG_CONFIG_HOME", ".config")


def home(environment: "Mapping[str, str]") -> str:
    """The home folder."""
    return environment.get("HOME") or environment.get("USERPROFILE") or os.path.expanduser("~")


def _folder(environment: "Mapping[str, str]", variable: str, usual: str) -> str:
    if sys.platform == "win32":
        return os.path.join(environment.get("LOCALAPPDATA") or home(environment), "foldmark")
    named = environment.get(variable, "")
    if named.startswith("/"):
        return os.path.join(named, "foldmark")
    usual = "Library/Application Support" if sys.platform == "darwin" else usual
    return os.path.join(home(environment), usual, "foldmark")
