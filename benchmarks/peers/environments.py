"""The environments of the peers: each has its own folder, with the versions that `peers.toml` pins.

Setting them up needs the package registries, and is done once; the run needs no network.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PEERS = ROOT / ".peers"
"""An ignored folder: the environments."""


@dataclass(frozen=True)
class Pinned:
    """What `peers.toml` says of one peer."""

    name: str
    documentation: str
    """The page whose instructions the adapter follows."""
    pypi: tuple[str, ...] = ()
    """Requirements with their exact versions."""
    npm: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where the peer is installed."""
        return PEERS / self.name

    @property
    def python(self) -> Path:
        """The interpreter that has the peer's packages."""
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    def command(self, name: str) -> Path:
        """Return the path of a command that the peer installs."""
        inside = self.folder / "node_modules" / ".bin" / name
        return inside if self.npm and inside.exists() else self.python.parent / name

    @property
    def packages(self) -> str:
        """What is pinned, in one line."""
        return ", ".join((*self.pypi, *self.npm))


class NotInstalledError(Exception):
    """A peer could not be installed; the message is the installer's."""


def isolated(home: str | Path, **more: str) -> dict[str, str]:
    """Return the environment of a process with a home of its own: no key, no proxy and no setting of the person's."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "SYSTEMROOT") if name in os.environ}
    places = {f"XDG_{kind.upper()}_HOME": f"{home}/{kind}" for kind in ("data", "config", "cache", "state")}
    return {**kept, "HOME": str(home), **places, **more}


def pinned() -> dict[str, Pinned]:
    """Return all peers by their names."""
    read = tomllib.loads((HERE / "peers.toml").read_text(encoding="utf-8"))
    return {
        name: Pinned(name, entry["documentation"], tuple(entry.get("pypi", ())), tuple(entry.get("npm", ())))
        for name, entry in read["peers"].items()
    }


def install(peer: Pinned) -> None:
    """Install a peer unless the pinned versions are there.

    Raises:
        NotInstalledError: The installer failed.
    """
    stamp = peer.folder / ".installed"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == peer.packages:
        return
    shutil.rmtree(peer.folder, ignore_errors=True)
    peer.folder.mkdir(parents=True)
    uv = str(Path(sys.executable).parent / "uv")
    day = tomllib.loads((HERE / "peers.toml").read_text(encoding="utf-8"))["day"]
    commands = []
    if peer.pypi:
        commands.append([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(peer.folder)])
        commands.append(
            [uv, "pip", "install", "--quiet", "--python", str(peer.python), "--exclude-newer", day, *peer.pypi]
        )
    if peer.npm:
        commands.append(
            ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(peer.folder), *peer.npm]
        )
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise NotInstalledError(str(error)) from error
        if done.returncode:
            raise NotInstalledError((done.stderr or done.stdout).strip()[-600:])
    stamp.write_text(peer.packages, encoding="utf-8")
