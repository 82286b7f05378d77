"""`foldmark conversations`: list, rename, archive and delete conversations without being in one (SPEC 9)."""

import json
from collections.abc import Callable

import pytest
from command_line import Cli

import foldmark
from foldmark.log.doctor import examine
from terminal import Terminal


@pytest.fixture
def talks(log: foldmark.Log) -> foldmark.Log:
    """Conversations `my talk`, with a fork, and `default`, which was used last."""
    log.agent("my talk").append("user", "first")
    log.agent("my talk").do("/fork")
    log.agent("default").append("user", "second")
    return log


def names(log: foldmark.Log) -> list[str | None]:
    with log.store.read() as moment:
        return [record.name for record in moment.agents() if record.name]


def test_the_list_needs_no_conversation(cli: Cli, talks: foldmark.Log) -> None:
    listed = cli("conversations")
    assert (listed.code, listed.err) == (0, "")
    default, talk = listed.lines
    assert default.startswith(f"default  {talks.agent('default').id[:8]}  1 message, context 1 · last used ")
    assert talk.startswith(f"my talk  {talks.agent('my talk').id[:8]}  1 message, context 1 · 2 agents · ")
    assert cli("conversations", "list").out == listed.out


def test_the_list_as_json_has_the_facts_of_the_chat_command(cli: Cli, talks: foldmark.Log) -> None:
    data = json.loads(cli("conversations", "--json").out)["data"]
    in_chat = talks.agent("default").do("/session list").data
    assert data["conversations"] == [{**each, "current": False} for each in in_chat["conversations"]]
    assert [each["name"] for each in data["conversations"]] == ["default", "my talk"]


def test_archived_ones_are_listed_with_all(cli: Cli, talks: foldmark.Log) -> None:
    assert cli("conversations", "archive", "my talk").out == (
        "Conversation 'my talk' archived; --all lists it, `unarchive` brings it back.\n"
    )
    assert cli("conversations").lines[1:] == ["1 conversation archived; --all lists it as well"]
    assert cli("conversations", "--all").lines[1].endswith(" · archived")
    assert cli("conversations", "unarchive", "my talk").out == "Conversation 'my talk' is back from the archive.\n"
    assert len(cli("conversations").lines) == 2


@pytest.mark.parametrize("new", ["other talk", '"quoted"', 'a" b', "--yes"])
def test_a_conversation_is_renamed(cli: Cli, talks: foldmark.Log, new: str) -> None:
    done = cli("conversations", "rename", "--", "my talk", new)
    assert (done.code, done.out) == (0, f"Conversation 'my talk' is now named '{new}'.\n")
    assert names(talks) == [new, "default"]


def test_a_deletion_needs_a_yes(cli: Cli, talks: foldmark.Log) -> None:
    refused = cli("conversations", "delete", "my talk")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("foldmark: Erase conversation 'my talk' (")
    assert refused.err.endswith("Nothing was changed; repeat with --yes to do it.\n")
    assert names(talks) == ["my talk", "default"]
    for name in ("my talk", "default"):
        done = cli("conversations", "delete", name, "--yes", "--json")
        assert json.loads(done.out)["data"]["name"] == name
    assert talks.agents() == []
    assert cli("conversations").out == "No conversation yet; `foldmark chat` starts one.\n"
    assert list(examine(talks)) == []


def test_a_deletion_asks_on_a_terminal(talks: foldmark.Log, terminal: Callable[..., Terminal]) -> None:
    for answer, code, left in (("n", 2, ["my talk", "default"]), ("y", 0, ["default"])):
        with terminal("conversations", "delete", "my talk") as screen:
            screen.until("and its 1 fork for good (1 message)? This cannot be taken back. [y/N] ")
            screen.type(f"{answer}\r")
            assert screen.end() == code
        assert names(talks) == left


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("delete", "nobody"), "there is no conversation or agent 'nobody'; conversations: my talk, default"),
        (("rename", "my talk", "default"), "a conversation 'default' already exists; choose another name"),
        (("rename", "my talk", ""), "invalid name '': a conversation's name has 1 to 200 printable characters"),
        (("rename", "my talk"), "Missing argument 'NEW'. `foldmark conversations rename --help` shows the usage."),
        (("nope",), "there is no command 'nope'. `foldmark conversations --help` shows the usage."),
    ],
)
def test_wrong_requests_change_nothing(cli: Cli, talks: foldmark.Log, line: tuple[str, ...], message: str) -> None:
    refused = cli("conversations", *line)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err
    assert names(talks) == ["my talk", "default"]


def test_no_database_is_made_to_list_it(cli: Cli, db: str) -> None:
    refused = cli("conversations")
    assert (refused.code, refused.err) == (
        1,
        f"foldmark: there is no database at {db}. `foldmark chat` starts one; --db names another.\n",
    )
