"""Invalid settings: the error gives their place and the allowed values."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from settings_place import Place

from foldmark import CommandError
from foldmark.settings.given import Settings
from foldmark.settings.loading import MOST_BYTES
from patience import LIMIT
from sampled import DEEP

A_NUMBER = "must be a number from 0 to 1,000,000,000"
A_MODEL = "a model must be 'offline' or PROVIDER/MODEL with one of anthropic, openai, openai_responses, gemini, "


def refused(place: Place, text: str | bytes, name: str = ".foldmark.toml") -> str:
    """Return the error for a project's file, without its path."""
    path = place.project_file(text, name)
    with pytest.raises(CommandError) as error:
        place.load()
    told = str(error.value)
    assert told.startswith(str(path))
    return told.removeprefix(str(path))


WRONG_VALUES = [
    ("context_size = -1", f"context_size {A_NUMBER}, not -1"),
    ("context_size = 5.5", f"context_size {A_NUMBER}, not 5.5"),
    ("context_size = 5.0", f"context_size {A_NUMBER}, not 5.0"),
    ("context_size = true", f"context_size {A_NUMBER}, not true"),
    ("context_size = nan", f"context_size {A_NUMBER}, not nan"),
    ("context_size = inf", f"context_size {A_NUMBER}, not a number that large"),
    ("context_size = 1000000001", f"context_size {A_NUMBER}, not 1000000001"),
    (f"context_size = 0x{'f' * 9000}", f"context_size {A_NUMBER}, not a number that large"),
    ('context_size = "many"', f"context_size {A_NUMBER}, not 'many'"),
    ('context_size = "²"', f"context_size {A_NUMBER}, not '²'"),
    ("context_size = [5]", f"context_size {A_NUMBER}, not a list"),
    ("context_size = {a = 5}", f"context_size {A_NUMBER}, not a table"),
    ("context_size = 2026-01-01", f"context_size {A_NUMBER}, not a date"),
    ("warn_threshold = 101", "warn_threshold must be a number from 0 to 100, not 101"),
    ('urgent_threshold = "101"', "urgent_threshold must be a number from 0 to 100, not '101'"),
    ("sliding_context_low_water = nan", "sliding_context_low_water must be a share above 0 and up to 1, not nan"),
    ("sliding_context_low_water = 0", "sliding_context_low_water must be a share above 0 and up to 1, not 0"),
    ("sliding_context_low_water = true", "sliding_context_low_water must be a share above 0 and up to 1, not true"),
    ("truncation = 1", "truncation must be one of on, off, not 1"),
    ('truncation = "yes"', "truncation must be one of on, off, not 'yes'"),
    ("truncate_shape = true", "truncate_shape must be one of head, head-tail, not true"),
    ('truncate_shape = "middle"', "truncate_shape must be one of head, head-tail, not 'middle'"),
    ("system = 5", "system must be a text, not 5"),
    ('thinking = "much"', "thinking must be one of default, off, low, medium, high, not 'much'"),
    (
        'model_commands = ["mark", "undo"]',
        "model_commands must be 'all', 'none' or any of mark, clear, fork, send, check-mail, kill, not 'undo'",
    ),
    (
        "model_commands = [5]",
        "model_commands must be 'all', 'none' or any of mark, clear, fork, send, check-mail, kill, not a list",
    ),
    ("trim_threshold_chars = -1", f"trim_threshold_chars {A_NUMBER}, not -1"),
    ("trim_target_tools = [1]", "trim_target_tools must be a list of tools' names, not a list"),
    ("trim_target_tools = 5", "trim_target_tools must be a list of tools' names, not 5"),
]


@pytest.mark.parametrize(
    ("line", "told", "name"),
    [
        (*wrong, name)
        for number, wrong in enumerate(WRONG_VALUES)
        for kind, name in enumerate((".foldmark.toml", ".work.toml"))
        if DEEP or number % 2 == kind
    ],
)
def test_wrong_values_are_refused(place: Place, line: str, told: str, name: str) -> None:
    assert without_hint(refused(place, f"# settings\n[context]\n\n{line}\n", name)) == f", line 4: {told}"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpt-5", "openai/gpt-5"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("claude", "anthropic/claude-…"),
        ("llama3:8b", "ollama/llama3:8b"),
        ("openai:gpt-5", "openai/gpt-5"),
        ("antropic/claude-x", "anthropic/claude-x"),
        ("openai", "openai/gpt-…"),
        ("openai/", "openai/gpt-…"),
        ("google", "google/gemini-…"),
        ("vllm", "vllm/MODEL"),
        ("ofline", "offline"),
        ("/gpt-5", "openai/gpt-5"),
        ("xyzw/gpt-5", "openai/gpt-5"),
        ("OPENAI/gpt-5", "openai/gpt-5"),
    ],
)
def test_a_wrong_model_names_the_one_that_was_meant(place: Place, name: str, meant: str) -> None:
    told = refused(place, f'[context]\nmodel = "{name}"\n')
    assert told == (f", line 2: a model must be 'offline' or PROVIDER/MODEL, not '{name}'; did you mean {meant}?")


@pytest.mark.parametrize("name", ["", "best", "xyzw/best", "/"])
def test_wrong_models_are_refused(place: Place, name: str) -> None:
    told = refused(place, f'[context]\nmodel = "{name}"\n')
    assert told.startswith(f", line 2: {A_MODEL}")
    assert told.endswith(f", not '{name}'; for example anthropic/claude-opus-4-5")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('sliding_context_tokens = "20k"', "did you mean 20000?"),
        ('sliding_context_tokens = "1.5M"', "did you mean 1500000?"),
        ('sliding_context_tokens = "20_000"', "did you mean 20000?"),
        ("sliding_context_tokens = -5", "for example 100000"),
        ('sliding_context_tokens = "lots"', "for example 100000"),
        ('sliding_context_low_water = "80%"', "did you mean 0.8?"),
        ('warn_threshold = "80%"', "did you mean 80?"),
        ("warn_threshold = 180", "for example 60"),
        ('truncation = "no"', "did you mean off?"),
        ('thinking = "hihg"', "did you mean high?"),
        ('context_policy = "Eager"', "did you mean eager?"),
        ("trim_threshold_chars = -1", "for example 500"),
    ],
)
def test_a_wrong_value_names_the_one_that_was_meant_or_an_example(place: Place, line: str, hint: str) -> None:
    assert refused(place, f"[context]\n{line}\n").endswith(f"; {hint}")


def without_hint(told: str) -> str:
    """Return an error without the value that was meant or the example at its end."""
    return re.sub(r"; (did you mean [^ ]+\?|for example [^ ]+)$", "", told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[context]\nsliding_context_token = 5\n",
            ", line 2: there is no setting 'sliding_context_token'; did you mean sliding_context_tokens",
        ),
        ("[context]\nCONTEXT_SIZE = 5\n", ", line 2: there is no setting 'CONTEXT_SIZE'; did you mean context_size"),
        ("[context]\nxyz = 5\n", ", line 2: there is no setting 'xyz'; available: model, system, sliding"),
        ('[context]\n"a b" = 5\n', ", line 2: there is no setting 'a b'; available: model, "),
        ("\ncontext_size = 5\n", ", line 2: context_size belongs in the table [context]; write [context] in a line"),
        ('[live]\nevict = ["stale", "old"]\n', ", line 2: evict takes stale, repeated, failed, and there is no 'old'"),
        ('[live]\nevict = "todos"\n', ", line 2: evict must be a list of stale, repeated, failed, not 'todos'"),
        ("[live]\nevcit = []\n", ", line 2: there is no 'evcit' in [live]; did you mean evict?"),
        ("live = 5\n", ", line 1: live must be a table, as [live] on its own line"),
        ("[contxt]\n", ", line 1: there is no 'contxt'; did you mean context?"),
        ("\n\ncontext = 5\n", ", line 3: context must be a table, as [context] on its own line"),
        ("[models]\nx = 5\n", ", line 2: x must be a table, as [models.x] on its own line"),
        ('database = "x.db"\n', ", line 1: database is not allowed in .foldmark.toml; it belongs in your own config"),
        ("[providers.evil]\n", ", line 1: providers is not allowed in .foldmark.toml; it belongs in your own config"),
    ],
)
def test_wrong_keys_are_refused(place: Place, text: str, told: str) -> None:
    assert refused(place, text).startswith(told)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[context]\ncontext_size = -1", 2),
        ("# context_size = -1\n[models.context_size]\ncontext_size = 1\n[context]\ncontext_size = -1", 5),
        ('[context]\nsystem = """\ncontext_size = -1\n"""\ncontext_size = -1\n# context_size', 5),
        ('[context]\nmodel_commands = [\n"mark", # context_size\n]\n"context_size" = -1', 5),
        ("context.truncate_recent = 5\ncontext.context_size = -1", 2),
        ("context = { truncate_recent = 5, context_size = -1 }", 1),
        ("[context]\r\n\r\ncontext_size = -1\r\n", 3),
        ("\ufeff[context]\ncontext_size = -1", 2),
    ],
)
def test_an_error_names_the_line_of_the_key(place: Place, text: str, line: int) -> None:
    assert refused(place, text) == f", line {line}: context_size {A_NUMBER}, not -1; for example 0"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("FOLDMARK_CONTEXT_SIZE", "many", f"context_size {A_NUMBER}, not 'many'"),
        ("IKIGAI_CONTEXT_SIZE", "-1", f"context_size {A_NUMBER}, not '-1'"),
        ("IKIGAI_SLIDING_CONTEXT_TOKENS", "9" * 5000, f"sliding_context_tokens {A_NUMBER}, not '{'9' * 40}'"),
        ("FOLDMARK_TRUNCATION", "false", "truncation must be one of on, off, not 'false'"),
        ("FOLDMARK_TRIM_THRESHOLD_CHARS", "-1", f"trim_threshold_chars {A_NUMBER}, not '-1'"),
        ("FOLDMARK_MODEL", "gpt-5", "a model must be 'offline' or PROVIDER/MODEL, not 'gpt-5'"),
    ],
)
def test_wrong_variables_are_refused(place: Place, name: str, value: str, told: str) -> None:
    with pytest.raises(CommandError) as error:
        place.load({name: value})
    assert without_hint(str(error.value)) == f"{name} in the environment: {told}"


def test_a_variable_that_is_not_utf8_is_accepted(place: Place) -> None:
    """The environment may hold such bytes, and requests are UTF-8."""
    assert place.load({"FOLDMARK_SYSTEM": "a\udcffb"}).config({}).system == "a\ufffdb"


def test_a_wrong_variable_is_refused_even_if_another_overrides_it(place: Place) -> None:
    with pytest.raises(CommandError, match="FOLDMARK_CONTEXT_SIZE in the environment"):
        place.load({"FOLDMARK_CONTEXT_SIZE": "x"}, {"context_size": 5})


# Malformed and unreadable files


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"[context]\ncontext_size 5\n", ", line 2, column 14: this is not TOML: Expected '=' after a key"),
        (b"[context]\ncontext_size =", ", line 2: this is not TOML: Invalid value"),
        (b"[context]\ncontext_size = 1\ncontext_size = 2\n", ", line 3, column 17: this is not TOML: Cannot overwrite"),
        (b"[context]\nmodel = offline\n", ", line 2, column 9: this is not TOML: Invalid value"),
        (b'[context]\n\nsystem = "\xff"\n', ", line 3: not UTF-8, as TOML has to be; save the file as UTF-8"),
        ("[context]\n".encode("utf-16"), ", line 1: not UTF-8, as TOML has to be"),
        (b'[context]\nsystem = "\x00"', ", line 2, column 11: this is not TOML: "),
        (b"context_size = " + b"9" * 5000, ", line 1: this is not TOML: "),
        (b"context = " + b"[" * 100_000, ": lists or tables are nested too deeply"),
        (b"a = " + b"{a=" * 50_000, ": lists or tables are nested too deeply"),
        (b"#" * (MOST_BYTES + 1), " is too large: a settings file has at most 262,144 bytes"),
    ],
)
def test_a_file_that_is_not_toml_is_an_error_with_its_line(place: Place, text: bytes, told: str) -> None:
    assert refused(place, text).startswith(told)


@pytest.mark.parametrize(
    "text",
    [
        b"\n".join(b"[a%d]" % number for number in range(20_000)),
        b"[context]\ncontext_size = " + b"[" * 300 + b"]" * 300,
        b"".join(b"context_size%d.context_size = -1\n" % number for number in range(7000)),
        b"a" + b".a" * 100_000 + b" = 1",
        b"['a'" + b" . 'a'" * 40_000 + b"]",
        b"a" * 200_000,
        b"\"'" * 100_000,
    ],
    ids=["tables", "nested", "lines", "dotted", "header", "word", "quotes"],
)
def test_hostile_files_take_no_time(place: Place, text: bytes) -> None:
    began = time.perf_counter()
    assert refused(place, text)
    assert time.perf_counter() - began < LIMIT


def test_a_folder_in_place_of_a_file_is_refused(place: Place) -> None:
    (place.project / ".foldmark.toml").mkdir()
    with pytest.raises(CommandError, match=r"\.foldmark\.toml is a folder; settings are read from a TOML file"):
        place.load()


@pytest.mark.parametrize("name", [".foldmark.toml", ".work.toml"])
def test_a_pipe_is_not_waited_for(place: Place, name: str) -> None:
    os.mkfifo(place.project / name)
    if name == ".work.toml":
        assert place.load() == Settings()
    else:
        with pytest.raises(CommandError, match="is not a regular file"):
            place.load()


def test_a_link_to_an_endless_file_is_refused(place: Place) -> None:
    (place.user / "config.toml").symlink_to("/dev/zero")
    with pytest.raises(CommandError, match="is not a regular file"):
        place.load()


def test_a_link_to_itself_is_refused_and_a_dangling_one_ignored(place: Place) -> None:
    (place.project / ".foldmark.toml").symlink_to(place.project / "nothing")
    (place.project / ".work.toml").symlink_to(place.project / ".work.toml")
    assert place.load() == Settings()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(place: Place) -> None:
    place.project_file("[context]\n").chmod(0)
    with pytest.raises(CommandError, match="cannot be read: Permission denied"):
        place.load()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no such file")
def test_a_read_error_names_the_file(place: Place) -> None:
    (place.user / "config.toml").symlink_to("/proc/self/mem")
    with pytest.raises(CommandError, match=r"config\.toml cannot be read: Input/output error"):
        place.load()


def test_an_empty_file_sets_nothing(place: Place) -> None:
    place.user_file("")
    place.project_file("\n")
    place.project_file("# nothing\n", ".work.toml")
    assert place.load() == Settings()


def test_errors_of_the_user_file_name_it(place: Place) -> None:
    for text, told in (
        ("[context]\nx = 1\n", "line 2: there is no setting 'x'"),
        ("databse = 5\n", "line 1: there is no 'databse'; did you mean database?"),
        ("database = 5\n", "line 1: database must be a path or a URL, not 5"),
        ('database = " "\n', "line 1: database must be a path or a URL, not ' '"),
        ("\noffline_delay = 11\n", "line 2: offline_delay must be a number of seconds from 0 to 10, not 11"),
        ("offline_delay = nan\n", "line 1: offline_delay must be a number of seconds from 0 to 10, not nan"),
        ("offline_delay = true\n", "line 1: offline_delay must be a number of seconds from 0 to 10, not true"),
    ):
        path = place.user_file(text)
        with pytest.raises(CommandError) as error:
            place.load()
        assert str(error.value).startswith(f"{path}, {told}")
