"""What an answer of always or never about a command covers (SPEC 4.1): a plain command by its beginning, any other
exactly."""

import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from place import Place, place_in

import foldmark
from foldmark.core.config import approvals, approved, checked
from foldmark.tools.working.command_prefix import command_coverage


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with place_in(tmp_path, monkeypatch) as place:
        yield place


@pytest.mark.parametrize(
    ("command", "remembered"),
    [
        ("git status", "git status"),
        ("git\tstatus  -s --long 'a; b'", "git status"),
        ("'git' sta\"tus\" *.py ~/x # comment", "git status"),
        ("/usr/bin/git log", "/usr/bin/git log"),
        ("ls", "ls"),
        ("./run.sh x", "./run.sh"),
        ("cargo test --all", "cargo test"),
    ],
)
def test_the_beginning_of_a_plain_command(command: str, remembered: str) -> None:
    found = command_coverage("bash", command, "/w")
    assert found.remembered == f"bash({remembered})"
    assert found.words == f"{remembered} … (with any arguments)"
    assert found.remembered in found.names
    assert found.names[-1] == "bash"
    assert not found.unclear


EXACT = [
    *("git status; rm -rf ~", "git status $(x)", "git status > file", "X=1 git status", "git status && x"),
    *("git status &", "git status | sh", "git status `x`", 'git status "$(x)"', "git status\nrm x", "git status \\\nx"),
    *("(git status)", "git status <(x)", "! git status", "git status 'open", "git status \x00x", "git status\rx"),
    *("git st*", "{git,rm} x", "git -c alias.status='!rm' status", "git", "git -C x status", "npm run x", "uv run x"),
    *("docker compose exec x rm", "sudo git status", "env git status", "bash -c 'git status'", "python3.11 -c x"),
    *("/bin/sh x", "time git status", "find . -delete", "xargs rm", "eval git", ". x", "if true", "[ x ]", "~/x"),
    *("-x", "", "''", "é"),
]


@pytest.mark.parametrize("command", EXACT)
def test_any_other_command_is_covered_exactly(command: str) -> None:
    found = command_coverage("bash", command, "/w")
    assert found.remembered.startswith("bash(sha256:")
    assert found.words == "exactly this command in this folder"
    assert found.unclear
    assert found.remembered != command_coverage("bash", f"{command} ", "/w").remembered
    assert found.remembered != command_coverage("bash", command, "/v").remembered


@pytest.mark.parametrize("command", [*EXACT, "git statusx", "git  status-x", "gitstatus", "git 'status x'"])
def test_a_rule_for_a_beginning_covers_no_other_command(command: str) -> None:
    assert "bash(git status)" not in command_coverage("bash", command, "/w").names


def test_a_program_is_never_taken_for_the_digest_of_another_command() -> None:
    exact = command_coverage("bash", "rm -rf ~; true", "/w").remembered
    program = exact.removeprefix("bash(").removesuffix(")")
    for command in (program, f"{program} x"):
        found = command_coverage("bash", command, "/w")
        assert exact not in found.names
        assert found.remembered != exact


def test_a_name_is_what_the_setting_takes() -> None:
    for command in ("git status", "a.b/c:d@e+f-g", *EXACT):
        name = command_coverage("bash", command, "/w").remembered
        value = approved("ask, grep=always", name, "always")
        assert approvals(value)[name] == "always"
        assert checked("tool_approval", value) == value


PARTS = [
    *(
        "git",
        "status",
        "push",
        "rm",
        "'",
        '"',
        " ",
        "\t",
        ";",
        "&",
        "|",
        ">",
        "<",
        "(",
        ")",
        "$",
        "`",
        "\\",
        "\n",
        "\r",
    ),
    *("#", "!", "{", "}", ",", "*", "?", "[", "~", "=", "-", "é", "\xa0", "if", "time"),
    *(
        " ;rm",
        " && rm x",
        "\nrm",
        "\n rm x",
        " | rm",
        " > x",
        " 2>x",
        " $(rm)",
        ' "$(rm)"',
        " `rm`",
        ' "`rm`"',
        " <(rm)",
    ),
    *(
        " \\\n",
        "\r\nrm",
        " '",
        ' "',
        "; ",
        " 'a;b' ",
        ' "a|b" ',
        " & rm",
        " ||rm",
        " {rm,x}",
        "\x0brm",
        " ;;rm",
        " |& rm",
    ),
]

BEGINNINGS = ["git status", "git status x", "git", "", "X=1 git status", "'git' \"status\""]


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs that write their names and arguments into the file `$RAN`."""
    folder = tmp_path_factory.mktemp("stubs")
    for name in ("git", "status", "push", "rm", "x"):
        program = folder / name
        program.write_text('#!/bin/bash\n{ printf "%s\\x1f" "${0##*/}" "$@"; echo; } >> "$RAN"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def check_in_bash(stubs: Path, command: str) -> None:
    """If `bash(git status)` covers a command, run it in a real bash: it may start one program, `git`, with `status` as
    its first argument, and it may write no file."""
    if "bash(git status)" not in command_coverage("bash", command, "/w").names:
        return
    ran, empty = stubs / "ran", stubs / "empty"
    ran.unlink(missing_ok=True)
    shutil.rmtree(empty, ignore_errors=True)
    empty.mkdir()
    env = {"PATH": str(stubs), "RAN": str(ran), "LC_ALL": "C.UTF-8", "HOME": str(empty)}
    subprocess.run(["/bin/bash", "-c", "--", command], cwd=empty, env=env, capture_output=True, check=False)
    assert [*empty.iterdir()] == [], command
    started = [line.split("\x1f")[:2] for line in ran.read_text().splitlines()] if ran.exists() else []
    assert started in ([], [["git", "status"]]), command


needs_bash = pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash, which runs the commands, is missing")


@needs_bash
def test_bash_runs_what_a_rule_covers_and_nothing_else(stubs: Path) -> None:
    for begin in BEGINNINGS:
        for part in PARTS:
            check_in_bash(stubs, begin + part)


@needs_bash
@given(begin=st.sampled_from(BEGINNINGS), parts=st.lists(st.sampled_from(PARTS), min_size=2, max_size=5))
def test_bash_runs_what_a_rule_covers_and_nothing_else_in_longer_lines(
    stubs: Path, begin: str, parts: list[str]
) -> None:
    check_in_bash(stubs, begin + "".join(parts))


# In a conversation


def test_always_holds_for_the_beginning_and_after_a_restart(place: Place) -> None:
    place.write("a.txt")
    place.answer = "always"
    place.call("bash", command="ls a.txt")
    place.answer = None
    assert place.call("bash", command="ls -a").startswith(".\n")
    for command in ("ls; echo x", "ls > b", "X=1 ls", "lsblk", "echo ls"):
        assert "nobody is there to ask" in place.refused("bash", command=command)
    assert not (place.folder / "b").exists()
    assert place.agent.standing().config.tool_approval == "ask, bash(ls)=always"
    child = place.log.agent(place.agent.do("/fork").data["child"])
    assert child.call_tool("bash", {"command": "ls -a"}).startswith(".\n")


def test_always_for_several_commands_holds_for_exactly_these(place: Place) -> None:
    place.answer = "always"
    place.call("bash", command="echo a; echo b")
    place.answer = None
    assert place.call("bash", command="echo a; echo b") == "a\nb\n[exit code 0]"
    assert "nobody is there to ask" in place.refused("bash", command="echo a; echo c")
    assert "nobody is there to ask" in place.refused("bash", command="echo a")


def test_never_holds_for_the_beginning_and_goes_before_always_for_the_tool(place: Place) -> None:
    place.answer = "never"
    place.refused("bash", command="git push origin")
    asked = len(place.asked)
    assert "nobody is asked" in place.refused("bash", command="git push --force")
    place.agent.do("/config set tool_approval=ask, bash=always, bash(git push)=never")
    assert "nobody is asked" in place.refused("bash", command="git push --force")
    assert place.call("bash", command="echo a") == "a\n[exit code 0]"
    assert len(place.asked) == asked
    place.answer = "no"
    for command in ("true && git push", "env git push", "git -C . push"):
        assert "did not allow" in place.refused("bash", command=command), "it may contain what is forbidden"


def test_the_most_specific_answer_decides(place: Place) -> None:
    place.answer = None
    place.agent.do("/config set tool_approval=never, bash(echo)=always, bash(echo b)=never")
    assert place.call("bash", command="echo a") == "a\n[exit code 0]"
    assert "nobody is asked" in place.refused("bash", command="echo b c")
    assert "nobody is asked" in place.refused("bash", command="ls")


def test_nobody_there_is_told_of_the_rule(place: Place) -> None:
    place.answer = None
    told = place.refused("bash", command="ls -a")
    place.agent.do(told[told.index("/config") :])
    assert place.agent.standing().config.tool_approval == "ask, bash(ls)=always"
    assert place.call("bash", command="ls -a").startswith(".\n")


NO_RULES = [
    *("bash(=always", "bash)=always", "bash()=always", "bash(a;b)=always", "bash(a  b)=always", "bash(a)b=always"),
    *("(a)=always", "ask bash(a", "bash(a)", "bash(a)(b)=always", "bash(a=always)"),
]


@pytest.mark.parametrize("value", NO_RULES)
def test_a_rule_that_is_none_is_refused(place: Place, value: str) -> None:
    with pytest.raises(foldmark.CommandError, match="tool_approval must be ask, always or never, then exceptions"):
        place.agent.do(f"/config set tool_approval={value}")


def test_a_file_tool_names_all_that_always_covers(place: Place) -> None:
    covers: list[str] = []

    def approve(permission: foldmark.operations.effects.Permission) -> foldmark.operations.effects.Decision:
        covers.append(permission.covers)
        return "yes"

    asking = foldmark.operations.effects.Asking(approve=approve)
    place.agent.call_tool("read_file", {"path": str(place.write("a", folder=place.outside))}, asking=asking)
    place.agent.call_tool("bash", {"command": "true"}, asking=asking)
    assert covers == [
        "read_file of any file and folder, also outside of the working folder and with secrets",
        "true … (with any arguments)",
    ]
