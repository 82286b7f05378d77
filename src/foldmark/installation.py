"""How this Foldmark was installed, and the commands that add packages to it.

Foldmark is on no package index, so no message names it as a package there: the command would fail, or install what
somebody else published under the name. An extra is added by its requirements, which the metadata of the installed
package lists, or by a repeated installation from the same place.
"""

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_NAME = "foldmark"
_EXTRA = re.compile(r"""extra == ['"]([\w.-]+)['"]""")


def installs(extra: str) -> str:
    """Return the end of a message about something that is not installed: `this installs it: COMMAND`, where COMMAND
    adds the extra with this name to this Foldmark."""
    command = extra_command(extra)
    return f"this installs it: {shlex.join(command)}" if command else f"Foldmark's extra `{extra}` has it"


def extra_command(extra: str) -> list[str]:
    """Return the words of the command that adds an extra to this Foldmark; empty if its packages are not known."""
    return _uv_tool_command(extra) or ((packages := _requirements(extra)) and package_command(*packages))


def package_command(*packages: str, dependencies: bool = True) -> list[str]:
    """Return the words of the command that installs packages into the environment of this Foldmark, with or without
    the packages that they require."""
    alone = [] if dependencies else ["--no-deps"]
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        name = Path(sys.prefix).name
        # An injection without dependencies succeeds, and pipx reports that it failed.
        return ["pipx", *(["inject", name] if dependencies else ["runpip", name, "install", *alone]), *packages]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", *alone, *packages]
    return ["uv", "pip", "install", "--python", sys.executable, *alone, *packages]


def source() -> str:
    """Return where this Foldmark was installed from: the path of a checkout or a wheel, or an address. If that is not
    known, return the folder of the package."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        found = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
        url = str(found.get("url") or "")
    except (PackageNotFoundError, ValueError, AttributeError):
        url = ""
    if not url:
        return str(_checkout() or Path(__file__).parent)
    return url2pathname(urlsplit(url).path) if url.startswith("file:") else url


def _checkout() -> Path | None:
    """Return the checkout that this module is in; None if it was copied into an environment."""
    folder = Path(__file__).parents[2]
    return folder if (folder / "pyproject.toml").is_file() else None


def requirements() -> dict[str, list[str]]:
    """Return the requirements in the metadata of the installed package, such as `textual>=8.2`, by their extra; "" is
    Foldmark itself. Raises PackageNotFoundError if Foldmark runs without being installed."""
    from importlib.metadata import requires

    found: dict[str, list[str]] = {}
    for each in requires(_NAME) or ():
        requirement, _, marker = each.partition(";")
        extra = _EXTRA.search(marker)
        found.setdefault(extra[1] if extra else "", []).append(requirement.strip())
    return found


def _requirements(extra: str) -> list[str]:
    """Return the requirements of an extra; none if they are not known."""
    from importlib.metadata import PackageNotFoundError

    try:
        return requirements().get(extra, [])
    except PackageNotFoundError:  # run from a folder of sources
        folder = _checkout()
        extras = _toml(folder / "pyproject.toml")["project"]["optional-dependencies"] if folder else {}
        return list(extras.get(extra, ()))


def _uv_tool_command(extra: str) -> list[str]:
    """Return the words of the command that repeats an installation by `uv tool install` with one more extra; empty for
    any other installation.

    uv removes from a tool what its newest installation did not name, so the command names everything in the receipt.
    """
    receipt = Path(sys.prefix, "uv-receipt.toml")
    if not receipt.is_file():
        return []
    tool = _toml(receipt).get("tool", {})
    if tool.keys() - {"requirements", "entrypoints", "python"}:  # constraints, or an index of the person's own
        return []
    command = ["uv", "tool", "install", *(["--python", tool["python"]] if "python" in tool else [])]
    for each in tool.get("requirements", ()):
        extras = {*each.get("extras", ()), *([extra] if each["name"] == _NAME else [])}
        named = f"[{','.join(sorted(extras))}]" if extras else ""
        place = next((each[kind] for kind in ("directory", "editable", "path") if kind in each), None)
        if place is not None and Path(place).exists():
            words = [*(["--editable"] if "editable" in each else []), f"{place}{named}"]
            command += words if each["name"] == _NAME else ["--with", words[-1]]
        elif each["name"] != _NAME and not each.keys() - {"name", "specifier", "extras"}:
            command += ["--with", f"{each['name']}{named}{each.get('specifier', '')}"]
        else:  # from a repository, or from a file that is gone
            return []
    return command


def _toml(path: Path) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(path.read_text("utf-8"))
