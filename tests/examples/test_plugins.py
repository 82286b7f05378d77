"""The packages in examples/ are installed beside Foldmark, which finds their plugins by name."""

import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from shutil import copy

import pytest
from plan import Reply, Say
from server import Loopback
from wire_openai import OpenAIWire

import foldmark
import forked
from foldmark import plugins
from foldmark.formats.session_format import format_named
from foldmark.live.live_agent import BUILT_IN, agent_named
from foldmark.live.wires import wires_of
from patience import LIMIT

EXAMPLES = Path(__file__).parents[2] / "examples"

Run = Callable[..., tuple[str, str]]

PROGRAM = "import sys, warnings; warnings.simplefilter('error'); from foldmark.cli import main; sys.exit(main())"
"""`foldmark`, with warnings as errors."""


def install(name: str, target: Path) -> None:
    """Install an example as `uv pip install --no-deps --target` does, but without its build backend."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    copy(EXAMPLES / name / f"{name}.py", target)
    about = target / f"{name}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = (
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items())
        for group, rows in project["entry-points"].items()
    )
    (about / "entry_points.txt").write_text("\n".join(points))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    target = tmp_path / "installed"
    target.mkdir()
    return target


@pytest.fixture
def run(tmp_path: Path, installed: Path) -> Run:
    """A function that runs `foldmark --db DB` in a process that finds the installed examples."""

    def run(db: str, *arguments: str, text: str = "", **more: str) -> tuple[str, str]:
        home, paths = str(tmp_path), os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH"))))
        environment = {"HOME": home, "XDG_RUNTIME_DIR": home, "PATH": os.environ["PATH"], "PYTHONPATH": paths}
        done = forked.run(
            [sys.executable, "-c", PROGRAM, "--db", db, *arguments],
            site=installed,
            cwd=tmp_path,
            env={**environment, **more},
            input=text,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        return done.stdout, done.stderr

    return run


def test_a_dialect(run: Run, installed: Path) -> None:
    install("echo_dialect", installed)
    out, err = run("log.db", "chat", "plans", "--model", "echo/any", text="Hello there.\n")
    assert (out.count("Hello there."), err) == (2, "")
    assert '"dialect": "echo"' in run("log.db", "context", "show", "plans", "--json")[0]

    (installed / "echo_dialect-0.1.0.dist-info" / "entry_points.txt").unlink()
    out, err = run("log.db", "context", "show", "plans")
    assert "there is no provider 'echo'; available: anthropic, " in err
    run("log.db", "do", "plans", "/model offline")
    out, err = run("log.db", "context", "show", "plans")
    assert ("assistant: Hello there." in out, err) == (True, "")


def test_a_provider(run: Run, installed: Path) -> None:
    install("hosted_provider", installed)
    key = "hosted-key-0123456789"
    with Loopback(OpenAIWire(), [Reply((Say(("The key is ", key)),))]) as server:
        more = {"HOSTED_BASE_URL": f"{server.url}/v1", "HOSTED_API_KEY": key}
        out, err = run("log.db", "chat", "plans", "--model", "hosted/gpt-5", text="Which key?\n", **more)
    assert ("The key is" in out, err, server.refusals) == (True, "", [])
    assert server.asked[0].headers["authorization"] == f"Bearer {key}"
    with foldmark.open(str(installed.parent / "log.db"), settings={}) as log:
        assert [each.content for each in log.agent("plans").context().messages] == [
            "Which key?",
            "The key is [HOSTED_API_KEY]",
        ]


def test_a_store(run: Run, installed: Path) -> None:
    db = "jsonl://talks.jsonl"
    err = run(db, "chat", "plans", text="/mark here\n")[1]
    assert "no store for jsonl:// is installed; available: postgres, postgresql, or the path of an SQLite file" in err

    install("jsonl_store", installed)
    assert "there is no database at" in run(db, "do", "plans", "/marks")[1]
    assert run(db, "chat", "plans", text="Where is the quartz?\n/mark here\n")[1] == ""
    assert (installed.parent / "talks.jsonl").exists()
    assert "here" in run(db, "do", "plans", "/marks")[0]
    assert "Where is the quartz?" in run(db, "do", "plans", "/recall quartz")[0]
    assert "1 agent, all is well" in run(db, "doctor")[0]

    for source, target in ((db, "log.db"), ("log.db", "jsonl://again.jsonl")):
        assert run(source, "copy", source, target)[1] == ""
    assert run("jsonl://again.jsonl", "context", "show", "plans") == run(db, "context", "show", "plans")


def test_a_package_that_fails(run: Run, installed: Path) -> None:
    about = installed / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    points = "broken = nowhere:HERE\nother = foldmark.core.config:Config\n"
    (about / "entry_points.txt").write_text(f"[foldmark.providers]\n{points}")
    out, err = run("log.db", "chat", "plans", text="/model broken/x\nHello?\n/model other/x\nWell?\n", BROKEN_KEY="k")
    assert "nowhere:HERE, installed as foldmark.providers 'broken', fails: ModuleNotFoundError(" in err
    assert "foldmark.providers 'other' is a Config, not a ProviderSpec" in err
    out, err = run("log.db", "do", "plans", "/recall Hello")
    assert "    Hello?\n" in out, "what was written is recorded in any case"


def test_no_package_is_searched_for_a_built_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a search takes as long as the rest of a start."""

    def looked(group: str) -> None:
        raise AssertionError(group)

    monkeypatch.setattr(plugins, "_entry_points", looked)
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("default")
        agent.append_tool_call("look", {}, call_id="c", dialect="google")
        for model in ("offline", "google/gemini-3.1-pro-preview", "openrouter/qwen/coder"):
            agent.do(f"/model {model}")
            assert agent.request().provider in ("offline", "gemini", "openrouter")
        with pytest.raises(AssertionError, match=r"foldmark\.providers"):
            agent.do("/model nobody/x")
    for name in BUILT_IN:
        assert wires_of(agent_named(name))[0].agent.name == name
    assert [format_named(name).name for name in ("claude", "codex")] == ["claude", "codex"]
    with pytest.raises(AssertionError, match=r"foldmark\.live_agents"):
        agent_named("nobody")


def test_no_room_asks_for_a_provider_or_an_agent_by_its_name() -> None:
    """The specifics of a provider are in its `Dialect` or `ProviderSpec`, those of a coding agent in its `LiveAgent`.
    Session formats and the wires of single providers are exempt."""
    source = Path(foldmark.__file__).parent
    names = "anthropic|openai|gemini|google|ollama|claude|codex|opencode|qwen"
    asked = re.compile(rf'[=!]= "({names})\w*"|in \("({names})')
    left = ("formats", "sessions", "testing", "agents", "wires")
    others = [path for path in source.rglob("*.py") if not set(path.relative_to(source).parts[:2]) & {*left}]
    assert len(others) > 100
    found = [
        f"{path}: {line}"
        for path in others
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line)
    ]
    assert found == []
