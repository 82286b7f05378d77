"""The state that a gateway shares with this user's other programs: a small file for each running session [SPEC 5.7].

The status line shows the numbers in it, and a command in another terminal uses it to find the gateway. The file holds
no credentials. Only its user may read it, since its address is enough to send requests to the session's model.
"""

import json
import os
import sys
from collections.abc import Mapping

from foldmark.sessions.hook.process import PREFIX, file_name
from foldmark.settings.user_folders import state_folder

_LONGEST = 1 << 16

_BEGINNING = f"{PREFIX}live-"
"""Beginning of the names of the files."""


def read(environment: Mapping[str, str], session: str) -> dict[str, object]:
    """Return the state of a session's gateway: `agent`, `url`, `taken_out` (tokens), `operations`, `prevented`,
    `idle_compaction` (1 if the client compacts the session once it is idle) and `process`; empty if no gateway runs for
    the session."""
    found = _read(_path(environment, session))
    return found if runs(found.get("process")) else {}


def write(environment: Mapping[str, str], session: str, told: Mapping[str, object]) -> None:
    """Write the file of a session; a reader sees either the old file or the new one. Raises OSError."""
    path = _path(environment, session)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f"{path}.{os.getpid()}"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, json.dumps({**told, "process": os.getpid()}).encode())
    finally:
        os.close(descriptor)
    os.replace(new, path)


def remove(environment: Mapping[str, str], session: str) -> None:
    """Remove the file of a session, unless another gateway has written it since. Raises OSError."""
    if read(environment, session).get("process") == os.getpid():
        os.unlink(_path(environment, session))


def remove_killed(environment: Mapping[str, str]) -> None:
    """Remove the files of gateways that were killed. Raises OSError."""
    folder = state_folder(environment)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.startswith(_BEGINNING):
            path = os.path.join(folder, name)
            _, dot, writer = name.partition(".")  # half written
            process = int(writer) if dot and writer.isdecimal() else _read(path).get("process")
            if isinstance(process, int) and not runs(process):
                os.unlink(path)


def _read(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(_LONGEST))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _path(environment: Mapping[str, str], session: str) -> str:
    return os.path.join(state_folder(environment), f"{_BEGINNING}{file_name(session)}")


def runs(process: object) -> bool:
    """Return True unless the process has ended: a killed gateway leaves its file."""
    if not isinstance(process, int) or process <= 0:
        return False
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except OSError:  # there is none, or another user's process has its number by now
        return False
    return True
