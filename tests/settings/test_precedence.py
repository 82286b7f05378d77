"""The precedence of settings [SPEC 10]: files, agent, environment, command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from settings_place import Place

import foldmark
import forked
from foldmark import Agent, CommandError
from foldmark.core.config import KEYS, Config
from foldmark.settings.access import offline_delay
from foldmark.settings.given import GLOBAL, Settings, Value
from foldmark.settings.loading import ALL_KEYS, USER_KEYS, load
from foldmark.settings.user_folders import named_database

CONTEXT = "[context]\ncontext_size = {}\n"


def held(settings: Settings, key: str = "context_size", **own: Any) -> tuple[Any, str]:
    """Return the value of a key and its source, for an agent with the settings `own`."""
    return getattr(settings.config(own), key), settings.source(key, own, {})


def test_without_settings_the_defaults_apply(place: Place) -> None:
    settings = place.load()
    assert settings == Settings()
    assert settings.config({}) == Config()
    assert held(settings) == (0, "default")
    assert (settings.trim_threshold_chars, settings.trim_target_tools) == (500, ("Read", "Bash", "Grep", "Glob"))


def test_each_source_overrides_the_next(place: Place) -> None:
    place.user_file(CONTEXT.format(1))
    assert held(place.load()) == (1, "user file")
    place.project_file(CONTEXT.format(2), ".work.toml")
    assert held(place.load()) == (2, ".work.toml")
    place.project_file(CONTEXT.format(3))
    assert held(place.load()) == (3, ".foldmark.toml")
    assert held(place.load(), context_size=4) == (4, "this agent")
    environment = {"IKIGAI_CONTEXT_SIZE": "5"}
    assert held(place.load(environment), context_size=4) == (5, "environment IKIGAI_CONTEXT_SIZE")
    environment["FOLDMARK_CONTEXT_SIZE"] = "6"
    assert held(place.load(environment), context_size=4) == (6, "environment FOLDMARK_CONTEXT_SIZE")
    assert held(place.load(environment, {"context_size": "7"}), context_size=4) == (7, "command line")


def test_files_complete_each_other(place: Place) -> None:
    place.user_file("[context]\ncontext_size = 1\ntruncate_recent = 10\n")
    place.project_file("[context]\ncontext_size = 2\n")
    config = place.load({"FOLDMARK_TRUNCATION": "off"}).config({"memos_injected": 2})
    assert (config.context_size, config.truncate_recent, config.truncation, config.memos_injected) == (2, 10, False, 2)


def test_an_empty_variable_does_not_count(place: Place) -> None:
    place.project_file(CONTEXT.format(3))
    assert held(place.load({"FOLDMARK_CONTEXT_SIZE": ""})) == (3, ".foldmark.toml")
    both = {"FOLDMARK_CONTEXT_SIZE": "", "IKIGAI_CONTEXT_SIZE": "5"}
    assert held(place.load(both)) == (5, "environment IKIGAI_CONTEXT_SIZE")


@pytest.mark.parametrize("key", ALL_KEYS)
def test_every_key_can_be_set_in_files_and_environment(place: Place, key: str) -> None:
    typed = {
        "model": "openai/gpt-5",
        "system": "Be brief.",
        "sliding_context_low_water": "0.5",
        "context_policy": "eager",
        "truncate_shape": "head-tail",
        "truncation": "off",
        "isolation": "off",
        "model_commands": "mark, fork",
        "token_counting": "tokenizer",
        "thinking": "low",
        "cache_ttl": "1h",
        "trim_target_tools": "Read, Bash",
        "tools": "slash, grep",
        "tool_approval": "ask, grep=always",
        "provider_editing": "clear_tool_uses keep=5",
        "window_summary": "on",
        "evict_superseded": "on",
        "provider_compaction": "on",
        "live_sign": "%",
        "theme": "light",
        "live_evict": "stale, failed",
    }.get(key, "7")
    own = key in USER_KEYS
    (place.user_file if own else place.project_file)(f'[context]\n{key} = "{typed}"\n')
    filed = place.load().defaults[key]
    said = place.load({f"FOLDMARK_{key.upper()}": typed}).overrides[key]
    assert filed == Value(said.value, "user file" if own else ".foldmark.toml")
    assert said.source == f"environment FOLDMARK_{key.upper()}"
    before = {**{name: getattr(Config(), name) for name in KEYS}, **GLOBAL}
    assert filed.value != before[key]
    if key in KEYS:
        assert getattr(place.load().config({}), key) == filed.value


def test_a_project_cannot_set_what_runs_without_asking(place: Place) -> None:
    place.project_file('[context]\ntool_approval = "always"\n')
    with pytest.raises(CommandError, match="belongs in your own config"):
        place.load()
    place.project_file("")
    place.project_file('[context]\ntool_approval = "always"\ncontext_size = 7\n', ".work.toml")
    assert place.load().config({}).tool_approval == "ask"


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("sliding_context_tokens = 200_000", "sliding_context_tokens", 200_000),
        ('sliding_context_tokens = "200000"', "sliding_context_tokens", 200_000),
        ("sliding_context_low_water = 1", "sliding_context_low_water", 1.0),
        ("sliding_context_low_water = 0.75", "sliding_context_low_water", 0.75),
        ("truncation = false", "truncation", False),
        ('truncation = "on"', "truncation", True),
        ('model_commands = ["mark", "fork"]', "model_commands", "mark, fork"),
        ("model_commands = []", "model_commands", "none"),
        ('system = """\nBe brief.\n  Be kind."""', "system", "Be brief.\n  Be kind."),
        ('model = "google/gemini-2.5-pro"', "model", "google/gemini-2.5-pro"),
        ("warn_threshold = 100", "warn_threshold", 100),
    ],
)
def test_values_of_toml_keep_their_types(place: Place, line: str, key: str, value: Any) -> None:
    place.project_file(f"[context]\n{line}\n")
    found = getattr(place.load().config({}), key)
    assert (found, type(found)) == (value, type(value))


def test_the_example_of_work_toml_is_read(place: Place) -> None:
    """This is the example of [S4], together with that program's own keys."""
    place.project_file(
        """[workers]
model = 5
[context]
# Thresholds for system reminders (percentages)
warn_threshold = 50
recommend_threshold = 70
urgent_threshold = 80
colour = "red"

# Trim settings
trim_threshold_chars = 400
trim_target_tools = ["Read", "Bash"]

# Reminder frequency
check_interval_seconds = 30
""",
        ".work.toml",
    )
    settings = place.load()
    config = settings.config({})
    assert (config.warn_threshold, config.recommend_threshold, config.urgent_threshold) == (50, 70, 80)
    assert config.check_interval_seconds == 30
    assert (settings.trim_threshold_chars, settings.trim_target_tools) == (400, ("Read", "Bash"))
    assert set(settings.defaults) == {key for key in ALL_KEYS if key in settings.defaults}


def test_work_toml_counts_only_without_a_foldmark_file(place: Place) -> None:
    place.project_file("[context]\nwarn_threshold = 50\ncontext_size = 9\n", ".work.toml")
    place.project_file('[models."openai/x"]\nwindow = 5\n')
    assert place.load().config({}).warn_threshold == 50
    place.project_file("[context]\n")
    assert place.load().config({}) == Config()


def test_work_toml_of_a_nearer_folder_counts_only_without_a_context_of_foldmark(place: Place) -> None:
    place.project_file(CONTEXT.format(1), ".work.toml", folder=place.deep)
    assert held(place.load()) == (1, ".work.toml")
    place.project_file('[models."openai/x"]\nwindow = 5\n')
    assert held(place.load()) == (1, ".work.toml")
    place.project_file(CONTEXT.format(2))
    assert held(place.load()) == (2, ".foldmark.toml")


@pytest.mark.parametrize("text", ["x = 1", "context = 5", "[other]\ncontext_size = 5\n"])
def test_a_work_toml_of_another_program_is_ignored(place: Place, text: str) -> None:
    place.project_file(text, ".work.toml")
    assert place.load() == Settings()


def test_the_nearest_project_file_counts(place: Place) -> None:
    place.project_file(CONTEXT.format(1), folder=place.home)
    assert held(place.load()) == (1, ".foldmark.toml")
    place.project_file(CONTEXT.format(2))
    place.project_file(CONTEXT.format(3), folder=place.deep)
    assert held(place.load()) == (3, ".foldmark.toml")
    assert held(place.load(working=place.project)) == (2, ".foldmark.toml")


def test_files_above_the_home_folder_do_not_count(place: Place) -> None:
    place.project_file(CONTEXT.format(1), folder=place.home.parent)
    assert place.load() == Settings()
    elsewhere = place.home.parent / "elsewhere"
    elsewhere.mkdir()
    assert held(place.load(working=elsewhere)) == (1, ".foldmark.toml")


def test_a_home_folder_may_be_a_link(place: Place) -> None:
    place.project_file(CONTEXT.format(1), folder=place.home.parent)
    link = place.home.parent / "link"
    link.symlink_to(place.home)
    assert place.load({"HOME": str(link)}) == Settings()


def test_models_of_both_files_are_combined(place: Place) -> None:
    place.user_file('[models."team/x"]\nwindow = 5\noutput = 2\n[models."team/y"]\nwindow = 9\n')
    place.project_file('[models."team/x"]\nwindow = 6\n')
    assert place.load().models == {"team/x": {"window": 6, "output": 2}, "team/y": {"window": 9}}


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('"notes.db"', "{user}/notes.db"),
        ('"/data/notes.db"', "/data/notes.db"),
        ('":memory:"', ":memory:"),
        ('"postgresql://host/db"', "postgresql://host/db"),
    ],
)
def test_the_user_file_names_the_database(place: Place, line: str, path: str) -> None:
    place.user_file(f"database = {line}\noffline_delay = 1\n")
    settings = place.load()
    assert (settings.database, settings.offline_delay) == (path.format(user=place.user), 1)
    assert named_database({}, settings.database) == settings.database
    for other in ("other.db", "/data/other.db", ":memory:", "postgresql://~user@host/~"):
        assert named_database({"FOLDMARK_DB": other}, settings.database) == other
    assert offline_delay({}, True, settings.offline_delay) == 1
    assert offline_delay({"FOLDMARK_OFFLINE_DELAY": "2"}, True, settings.offline_delay) == 2


# With agents


def test_an_agents_own_settings_override_those_of_files(place: Place) -> None:
    place.user_file("[context]\ncontext_size = 3\n")
    with foldmark.open(":memory:", settings=place.load({"FOLDMARK_TRUNCATE_RECENT": "9"})) as log:
        agent = log.agent("a")
        assert (agent.standing().config.context_size, agent.standing().config.truncate_recent) == (3, 9)
        agent.do("/config set context_size=4")
        agent.do("/config set truncate_recent=5")
        assert (agent.standing().config.context_size, agent.standing().config.truncate_recent) == (4, 9)
        assert agent.standing().settings == {"context_size": 4, "truncate_recent": 5}


def test_the_window_follows_the_budget_of_a_file(place: Place) -> None:
    """The budget in a file sets the window of the request."""
    for size, sent in ((0, 3), (1, 1)):
        place.project_file(CONTEXT.format(size))
        with foldmark.open(":memory:", settings=place.load()) as log:
            agent = log.agent("a")
            for text in ("one", "two", "three"):
                agent.append("user", text)
                agent.end_turn()
            assert sum(1 for part in agent.request().manifest.parts if part.layer == "window") == sent


def test_a_fork_inherits_only_settings_of_its_parent(place: Place, tmp_path: Path) -> None:
    place.user_file("[context]\ncontext_size = 3\ntruncate_active = 8\n")
    path = tmp_path / "log.db"

    def child_of(agent: Agent) -> Agent:
        return agent.log.agent(agent.do("/fork").data["child"])

    with foldmark.open(path, settings=place.load({"FOLDMARK_TRUNCATE_RECENT": "9"})) as log:
        parent = log.agent("parent")
        parent.do("/config set truncate_shape=head-tail")
        child = child_of(parent)
        child.do("/config set memos_injected=1")
        grandchild = child_of(child)
    with foldmark.open(path, settings={}) as log:
        child, grandchild = log.agent(child.id), log.agent(grandchild.id)
        config = child.standing().config
        assert (config.truncate_shape, config.memos_injected) == ("head-tail", 1)
        assert (config.context_size, config.truncate_active, config.truncate_recent) == (0, 1000, 5000)
        sources = child.do("/config get").data["sources"]
        assert (sources["truncate_shape"], sources["memos_injected"]) == ("parent", "this agent")
        assert grandchild.do("/config get memos_injected").text == "memos_injected = 1 (parent)"


def test_a_program_passes_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`settings=` replaces all other sources."""
    (tmp_path / ".foldmark.toml").write_text("[context]\ncontext_size = 3\nthinking = 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOLDMARK_MODEL", "broken")
    with foldmark.open(":memory:", settings={}) as log:
        assert log.agent("a").standing().config == Config()
    with foldmark.open(":memory:", settings={"truncation": False, "sliding_context_tokens": 5}) as log:
        agent = log.agent("a")
        assert agent.standing().config == Config(truncation=False, sliding_context_tokens=5)
        agent.do("/context budget 6")
        assert agent.standing().config.sliding_context_tokens == 6


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"contxt_size": 5}, "there is no setting 'contxt_size'; did you mean context_size or context_policy?"),
        ({"context_size": -1}, "context_size must be a number from 0 to 1,000,000,000, not -1"),
        ({5: 5}, "there is no setting '5'; available: model, "),
        ("context_size", "settings must be a mapping of keys to values, not 'context_size'"),
    ],
)
def test_wrong_settings_of_a_program_are_refused(tmp_path: Path, keys: Any, message: str) -> None:
    with pytest.raises(CommandError, match="^" + message.replace("?", r"\?")):
        foldmark.open(tmp_path / "log.db", settings=keys)
    assert not list(tmp_path.iterdir())


# Whole programs


def ran(place: Place, *arguments: str, **environment: str) -> str:
    """Return the output of a program in the project's folder, with the test's own environment."""
    done = forked.run(
        [*arguments],
        cwd=place.deep,
        env={"PATH": os.environ["PATH"], "HOME": str(place.home), "LANG": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == (not done.stderr), done.stderr
    return str(done.stdout + done.stderr)


def test_the_library_and_the_command_line_agree(place: Place) -> None:
    place.user_file("[context]\ntruncate_recent = 77\n")
    place.project_file("[context]\ncontext_size = 3\n")
    program = str(Path(sys.executable).with_name("foldmark"))
    code = "import foldmark; print(foldmark.open('log.db').agent('a').do('/config get').text)"
    extra = {"FOLDMARK_THINKING": "low", "FOLDMARK_DB": "log.db"}
    library = ran(place, sys.executable, "-c", code, **extra)
    assert {
        "truncate_recent = 77 (user file)",
        "context_size = 3 (.foldmark.toml)",
        "thinking = low (environment FOLDMARK_THINKING)",
        "model = offline (default)",
    } <= set(library.splitlines())
    assert ran(place, program, "do", "a", "/config get", **extra) == library


def test_the_user_file_is_in_the_configuration_folder(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "xdg" / "foldmark"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONTEXT.format(5))
    place.user_file(CONTEXT.format(4))
    code = "import foldmark; print(foldmark.open(':memory:').agent('a').do('/config get context_size').text)"
    assert ran(place, sys.executable, "-c", code) == "context_size = 4 (user file)\n"
    moved = ran(place, sys.executable, "-c", code, XDG_CONFIG_HOME=str(folder.parent))
    assert moved == "context_size = 5 (user file)\n"


def test_a_wrong_setting_ends_a_program_in_one_line(place: Place) -> None:
    path = place.project_file("[context]\n\ncontext_size = true\n")
    program = str(Path(sys.executable).with_name("foldmark"))
    told = ran(place, program, "chat", FOLDMARK_DB="log.db")
    assert (
        told
        == f"foldmark: {path}, line 3: context_size must be a number from 0 to 1,000,000,000, not true; for example 0\n"
    )
    assert not (place.deep / "log.db").exists()


def test_a_deleted_working_folder_causes_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    foldmark.open(":memory:").close()


def test_without_a_file_no_toml_is_parsed() -> None:
    """An import reads neither TOML nor folders, and without a file no TOML parser is imported."""
    code = (
        "import sys, foldmark; early = {'tomllib', 'platformdirs', 'difflib'} & set(sys.modules)\n"
        "foldmark.open(':memory:'); print(early, 'tomllib' in sys.modules)"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
    done = subprocess.run([sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True)
    assert done.stdout == "set() False\n", done.stderr


# The documentation


def test_the_example_of_the_documentation_is_valid(place: Place) -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    place.user_file(example)
    settings = load({"HOME": str(place.home)}, None, place.user)
    assert set(settings.providers) == {"team", "openai"}
    assert settings.config({}).sliding_context_tokens == 150_000
    assert settings.models["team/qwen-coder"]["window"] == 131_072


def test_the_table_of_live(place: Place) -> None:
    assert place.load().live_evict == ()
    place.user_file('[live]\nevict = ["stale"]\n')
    place.project_file("[context]\ncontext_size = 3\n", ".work.toml")
    assert place.load().live_evict == ("stale",)
    place.project_file('[live]\nevict = ["failed", "repeated"]\n')
    found = place.load()
    assert (found.live_evict, found.defaults["live_evict"].source) == (("repeated", "failed"), ".foldmark.toml")
    assert found.config({}).context_size == 3
    assert place.load({"FOLDMARK_LIVE_EVICT": "stale"}).live_evict == ("stale",)
    place.project_file("[live]\nevict = []\n[context]\ncontext_size = 4\n")
    assert (place.load().live_evict, place.load().config({}).context_size) == ((), 4)
