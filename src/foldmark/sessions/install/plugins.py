"""The plugins for Claude Code, which Foldmark writes from the templates in `marketplace/` [SPEC 8, S4].

Claude Code reads a plugin of a local marketplace, or of a project's `.claude/skills`, from its folder at every start of
a session, and not from the copy that it makes. So it is enough to write the folder again after an upgrade.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from foldmark.core.wording import one_line
from foldmark.sessions.install.changes import FileChange, InstallError, look
from foldmark.sessions.install.locations import MARKET, exists, shell
from foldmark.sessions.new_file import PREFIX

PLUGIN = f"{MARKET}@{MARKET}"
"""The plugin's name in Claude Code's settings and commands."""

PLUGINS = (MARKET, "foldmark-edit")
_TEMPLATES = Path(__file__).parent / "marketplace"
_BOTH = "both/"
"""The folder of the templates that each plugin gets: a plugin can load modules from its own folder only."""

FOLDERS = (".claude-plugin", *PLUGINS)
"""The folders of a marketplace."""

SKILLS = ("trim", "rollover")
"""The skills that a model may use by itself. `fm` is for a person only."""

SERVER = f"{MARKET}/.mcp.json"
_CATALOG = ".claude-plugin/marketplace.json"
PROGRAM = f"{MARKET}/hooks/program.js"
"""The file that names the program `foldmark` to the plugin."""
_MANIFEST = "plugin.json"


def plugin_files(program: str, version: str, mcp: bool, catalog: bool = True) -> dict[str, bytes]:
    """Return the content of each file of the plugins by its path, with the path of the script and Foldmark's version.

    `mcp` and `catalog` select the MCP server, and the list that makes the folder a marketplace.
    """
    left_out = {SERVER: not mcp, _CATALOG: not catalog}
    return {
        name: _filled(name, template.read_bytes().decode(), program, version)
        for template in _files(_TEMPLATES)
        for name in _places(template.relative_to(_TEMPLATES).as_posix())
        if not left_out.get(name)
    }


def _places(template: str) -> list[str]:
    """Return the paths at which a template is written."""
    if not template.startswith(_BOTH):
        return [template]
    return [f"{plugin}/{template.removeprefix(_BOTH)}" for plugin in PLUGINS]


def plugin_changes(folder: Path, wanted: Mapping[str, bytes], project: Path | None = None) -> list[FileChange]:
    """Return a change for each file of the plugins in a folder, so that the wanted ones are there and no others. Other
    folders in it stay. In the folder of a `project`, the manifests come first and go last, because they say whose a
    folder is; otherwise they come last, because they have the version.

    Raises InstallError, also for somebody else's folder of the name, and for a link that leads out of the project.
    """
    folders = [folder / name for name in (PLUGINS if project else FOLDERS)]
    others = [each for each in folders if project and _is_other(each)]
    if others and wanted:
        raise InstallError(f"the plugin in {one_line(str(others[0]))} is not Foldmark's")
    found = [path for each in folders if each not in others for path in _files(each)]
    names = {*wanted, *(path.relative_to(folder).as_posix() for path in found)}
    ordered = sorted(names, key=lambda name: (name.endswith(_MANIFEST) == (project is None or not wanted), name))
    return [replace(look(folder / name, 0o644, project), after=wanted.get(name)) for name in ordered]


def _is_other(plugin: Path) -> bool:
    manifest = plugin / ".claude-plugin" / _MANIFEST
    return bool(_files(plugin)) and (not manifest.is_file() or b'"name": "foldmark' not in manifest.read_bytes())


def _files(folder: Path) -> list[Path]:
    """Return all files below a folder, without unfinished ones."""
    return [path for path in folder.rglob("*") if not path.is_dir() and not path.name.startswith(PREFIX)]


def write_again(plugin: str, program: str, version: str) -> None:
    """Write the marketplace of an installed plugin as this version of Foldmark has it. `plugin` is the plugin's folder.

    Raises OSError or FoldmarkError.
    """
    market = Path(plugin).parent
    for change in plugin_changes(market, plugin_files(program, version, exists(market / SERVER))):
        if change.after != change.before:
            change.make()


def skill_template(name: str) -> str:
    """Return the text of a skill: `trim`, `rollover` or `fm`. `{foldmark}` in it stands for the program."""
    return (_TEMPLATES / MARKET / "skills" / name / "SKILL.md").read_bytes().decode()


def _filled(name: str, template: str, program: str, version: str) -> bytes:
    """Fill a template: `{foldmark}` is the program as a word of a shell, `{program}` its path. Braces in a module of
    JavaScript are its own."""
    if name.endswith(".js") and name != PROGRAM:
        return template.encode()
    for key, value in (("foldmark", shell(program)), ("program", program), ("version", version)):
        text = value if name.endswith(".md") else json.dumps(value, ensure_ascii=False)[1:-1]
        template = template.replace(f"{{{key}}}", text)
    return template.encode("utf-8", "surrogateescape")
