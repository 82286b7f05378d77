"""`read_file` and `list_files` (SPEC 4.1): files that a model reads freely, only with approval, or never."""

import os
import socket
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from place import Place, in_turn, place_in

from cases import case
from foldmark import CommandError
from foldmark.sending.interruption import Interruption
from foldmark.tools.working import files, paths
from patience import LIMIT


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with place_in(tmp_path, monkeypatch) as place:
        yield place


# Reading


def test_lines_are_numbered_as_models_know_it(place: Place) -> None:
    place.write("notes.txt", "first\n\tsecond\r\nthird\u2028still third\x0cand still\nlast")
    told = place.call("read_file", path="notes.txt")
    assert told == "     1\tfirst\n     2\t\tsecond\r\n     3\tthird\u2028still third\x0cand still\n     4\tlast"
    assert place.asked == []


def test_reading_on(place: Place) -> None:
    place.write("long.txt", "".join(f"line {n}\n" for n in range(1, 3001)))
    told = place.call("read_file", path="long.txt").split("\n")
    assert len(told) == 2001
    assert told[1999:] == ["  2000\tline 2000", "[... 10,000 bytes more; offset=2001 goes on]"]
    assert place.call("read_file", path="long.txt", offset=2001).endswith("  3000\tline 3000")
    assert place.call("read_file", path="long.txt", offset=3, limit=2) == (
        "     3\tline 3\n     4\tline 4\n[... 28,865 bytes more; offset=5 goes on]"
    )
    assert place.call("read_file", path="long.txt", offset=3000) == "  3000\tline 3000"
    refusal = place.refused("read_file", path="long.txt", offset=3001)
    assert refusal == "the file has 3,000 lines; offset 3,001 is after the last one"
    place.write("one.txt", "no end of line")
    assert "has 1 line;" in place.refused("read_file", path="one.txt", offset=5)


def test_an_answer_is_bounded_and_all_of_it_can_be_read(place: Place) -> None:
    lines = [f"{n} " + "x" * 90 for n in range(9000)]
    place.write("big.txt", "\n".join(lines))
    found: list[str] = []
    offset, answers = 1, 0
    while offset:
        told = place.call("read_file", path="big.txt", offset=offset, limit=10**6).split("\n")
        assert len("\n".join(told)) < 300_000
        offset = int(told.pop().split("offset=")[1].split()[0]) if told[-1].startswith("[...") else 0
        if offset and " more; bash: " in told[-1]:
            told.pop()
            offset -= 1
        found += [line.split("\t", 1)[1] for line in told]
        answers += 1
    assert found == lines
    assert answers == 4


def test_a_very_long_line_is_cut_between_characters(place: Place) -> None:
    place.write("line.txt", "ä" * 100_000 + "\nnext\n")
    first, second = place.call("read_file", path="line.txt").split("\n")
    assert first == f"     1\t{'ä' * 8192} [... 183,616 bytes more; bash: sed -n 1p FILE | cut -b 16385-]"
    assert second == "     2\tnext"
    place.write("odd.txt", "x" + "ä" * 100_000)
    assert place.call("read_file", path="odd.txt").startswith(f"     1\tx{'ä' * 8191} [... 183,617 bytes more;")


def test_what_is_no_utf_8_is_replaced(place: Place) -> None:
    place.write("latin.txt", b"caf\xe9\nok\n")
    assert place.call("read_file", path="latin.txt") == "     1\tcaf\ufffd\n     2\tok"
    place.write("late.txt", b"a\n" * 5000 + b"NUL \0 here\n")
    assert place.call("read_file", path="late.txt", offset=5001) == "  5001\tNUL \ufffd here"


def test_an_empty_file(place: Place) -> None:
    place.write("empty.txt", "")
    assert place.call("read_file", path="empty.txt") == "[The file is empty.]"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0", "PNG image, 11 bytes"),
        (b"%PDF-1.7\nno NUL", "PDF document, 15 bytes"),
        (b"SQLite format 3\0", "SQLite database, 16 bytes"),
        ("text".encode("utf-16"), "UTF-16 text; iconv -f utf-16 reads it, 10 bytes"),
        (b"\1\2\0\3", "binary, 4 bytes"),
    ],
)
def test_binary_files_are_refused_by_size_and_kind(place: Place, content: bytes, kind: str) -> None:
    place.write("file", content)
    assert f"is not text ({kind})" in place.refused("read_file", path="file")


def test_a_large_file_takes_no_memory(place: Place) -> None:
    path = place.write("large.log", "x" * 99 + "\n" + "short\n" * 5000)
    os.truncate(path, 1 << 27)
    tracemalloc.start()
    try:
        told = place.call("read_file", path="large.log", limit=1)
        assert told.endswith("[... 134,217,628 bytes more; offset=2 goes on]")
        told = place.call("read_file", path="large.log", offset=5002)
        assert "bytes more; bash: sed -n 5002p" in told
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_long_look_for_a_line_ends_with_the_turn(place: Place) -> None:
    path = place.write("large.log", "x" * 9000)
    os.truncate(path, 1 << 40)
    interruption = Interruption()
    thread, came = in_turn(lambda: place.call("read_file", path="large.log", offset=3), interruption)
    thread.join(0.05)
    assert came == []
    interruption.happen()
    thread.join(LIMIT)
    assert came == ["the turn was interrupted"]


def test_a_missing_file_is_an_error_with_similar_names(place: Place) -> None:
    place.write("src/Settings.py")
    place.write("src/other.py")
    assert place.refused("read_file", path="src/settings.py") == (
        "there is no src/settings.py; did you mean Settings.py?"
    )
    assert place.refused("read_file", path="src/zzz") == "there is no src/zzz; that folder has: Settings.py, other.py"
    assert place.refused("read_file", path="scr/deep/x.py") == (
        "there is no scr/deep/x.py, nor a folder scr; did you mean src?"
    )
    assert place.refused("read_file", path="src/other.py/x") == (
        f"{place.folder}/src/other.py/x cannot be reached: a part of it is not a folder, or was replaced meanwhile"
    )
    assert place.refused("read_file", path="src") == f"{place.folder}/src is a folder; list_files shows what is in it"
    assert place.refused("list_files", path="src/other.py") == "src/other.py is not a folder; read_file reads files"
    assert place.refused("list_files", path="scr") == "there is no scr; did you mean src?"


def test_of_what_is_outside_nothing_more_is_told(place: Place) -> None:
    place.write("neighbour.txt", folder=place.outside)
    told = place.refused("read_file", path="../outside/neighbor.txt")
    assert told == f"there is no {place.outside}/neighbor.txt"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_an_error(place: Place) -> None:
    place.write("closed.txt").chmod(0)
    assert place.refused("read_file", path="closed.txt") == "closed.txt may not be read by this user"


# Where it may read


@pytest.fixture
def links(place: Place) -> Place:
    """Files inside and outside, and links between them."""
    place.write("deep/inside.txt", "inside")
    place.write("secret.txt", "SECRET", place.outside)
    (place.folder / "link").symlink_to(place.outside / "secret.txt")
    (place.folder / "relative").symlink_to("../outside/secret.txt")
    (place.folder / "way").symlink_to(place.outside)
    (place.folder / "deep" / "up").symlink_to("../..")
    (place.folder / "chain").symlink_to("link")
    (place.folder / "home").symlink_to("deep/inside.txt")
    (place.folder / "loop").symlink_to("loop")
    (place.folder / "broken").symlink_to("nowhere")
    return place


@pytest.mark.parametrize(
    "path",
    [
        *("../outside/secret.txt", "deep/../../outside/secret.txt", "link", "relative", "way/secret.txt", "chain"),
        *("deep/up/outside/secret.txt", "way/../outside/secret.txt", "/proc/self/cwd/../outside/secret.txt"),
        *("./././../outside//secret.txt", "{outside}/secret.txt", "//{outside}/secret.txt"),
        *("/proc/self/root/{outside}/secret.txt", "{folder}/../outside/secret.txt", "deep/up/work/link"),
    ],
)
def test_outside_of_the_folder_a_person_is_asked_for_the_real_place(links: Place, path: str) -> None:
    path = path.format(outside=links.outside, folder=links.folder)
    links.answer = "no"
    assert "did not allow" in links.refused("read_file", path=path)
    assert links.asked == [f"read {links.outside}/secret.txt, outside of the working folder {links.folder}"]
    links.answer = None
    assert "nobody is there" in links.refused("read_file", path=path)
    assert "nobody is there" in links.refused("grep", pattern="S", path=path)
    links.answer = "yes"
    assert links.call("read_file", path=path) == "     1\tSECRET"


@pytest.mark.parametrize("path", ["deep/inside.txt", "home", "deep/up/work/home", "way/../work/home", "{folder}/home"])
def test_inside_nobody_is_asked(links: Place, path: str) -> None:
    assert links.call("read_file", path=path.format(folder=links.folder)) == "     1\tinside"
    assert links.asked == []


@pytest.mark.parametrize("path", ["..", "way", "deep/up", "/", "/etc", "{outside}"])
def test_folders_outside_are_asked_for_too(links: Place, path: str) -> None:
    links.answer = "no"
    path = path.format(outside=links.outside)
    for tool, more in (("list_files", {}), ("grep", {"pattern": "SECRET"})):
        assert "did not allow" in links.refused(tool, path=path, **more)
    real = os.path.realpath(path)
    end = f"{real}, outside of the working folder {links.folder}"
    assert links.asked == [f"list {end}", f"search {end}"]


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/mem", "/sys/kernel/notes", "/dev/zero", "/dev/stdin", "/proc/1/maps"]
)
def test_the_systems_own_files_are_asked_for(place: Place, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place.answer = None
    assert "nobody is there" in place.refused("read_file", path=path)
    monkeypatch.chdir("/")
    assert "nobody is there" in place.refused("read_file", path=path)
    place.answer = "yes"
    place.call("read_file", path="/proc/self/status", limit=1)
    assert place.asked == [f"read /proc/{os.getpid()}/status, which is the system's"]


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", ".ENV", "prod.env", "server.pem", "id_rsa", "id_ed25519.old", ".netrc", ".npmrc"),
        *(
            ".pypirc",
            "credentials.json",
            "credentials-prod.json",
            ".git-credentials",
            ".ssh/config",
            ".aws/credentials",
        ),
        *(".git/config", ".docker/config.json", ".bash_history", "private.key", "deep/.env"),
    ],
)
def test_files_that_may_hold_secrets_are_asked_for_inside_the_folder_too(place: Place, name: str) -> None:
    path, place.answer = place.write(name, "TOKEN=1"), "no"
    (place.folder / "harmless.txt").symlink_to(name)
    for each in (name, "harmless.txt"):
        assert "did not allow" in place.refused("read_file", path=each)
        assert "did not allow" in place.refused("grep", pattern="TOKEN", path=each)
    assert place.asked == [f"{doing} {path}, which may hold secrets" for doing in ("read", "search")] * 2


@pytest.mark.parametrize("name", ["environment.py", "key.py", "secrets.py", "config", "identity.rs", "tokens.md"])
def test_what_only_sounds_secret_is_not(place: Place, name: str) -> None:
    place.write(name)
    assert place.call("read_file", path=name) == "     1\ttext"
    assert place.asked == []


def test_a_question_cannot_disguise_itself(place: Place) -> None:
    place.answer = "no"
    place.refused("read_file", path="../x\r\x1b[2Kread notes.txt\n\u202e")
    assert place.asked == [
        f"read {place.folder.parent}/x\\r\\x1b[2Kread notes.txt\\n\\u202e, outside of the working folder {place.folder}"
    ]


def test_only_regular_files_are_opened_and_nothing_hangs(place: Place) -> None:
    os.mkfifo(place.folder / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for name, kind in (("pipe", "a pipe"), ("socket", "a socket"), ("/dev/null", "a device")):
            for tool, more in (("read_file", {}), ("grep", {"pattern": "x"})):
                told = place.refused(tool, path=name, **more)
                assert told == f"{os.path.realpath(name)} is {kind}; only regular files are read"
        place.write("text.txt", "x")
        assert place.call("grep", pattern="x") == "text.txt:1:x"
        assert place.call("list_files").split("\n") == ["pipe", "socket", "text.txt"]


def test_links_that_lead_nowhere(links: Place) -> None:
    assert "symbolic link that leads nowhere" in links.refused("read_file", path="loop")
    assert links.refused("read_file", path="broken").startswith("there is no nowhere; that folder has: ")
    previous = "deep/inside.txt"
    for n in range(1200):
        (links.folder / f"l{n}").symlink_to(previous)
        previous = f"l{n}"
    if sys.version_info < (3, 13):  # Python follows any number of links from then on
        links.refused("read_file", path=previous)
    else:
        assert links.call("read_file", path=previous) == links.call("read_file", path="deep/inside.txt")


INVALID_PATHS = (
    *("", "\0", "a\0b", "/" * 5000, "a/" * 500_000, "x" * 4096, "x/" * 2000, "\ud800", "~nobody-here/x", "\x1b[2K"),
    "é" * 4000,
)


@pytest.mark.parametrize("tool", ["read_file", "list_files", "grep"])
def test_an_invalid_path_is_refused(place: Place, tool: str) -> None:
    for path in INVALID_PATHS:
        with case(path):
            place.refused(tool, path=path, **({"pattern": "x"} if tool == "grep" else {}))


WRONG_ARGUMENTS: list[Any] = [
    {},
    {"path": None},
    {"path": 5},
    {"path": ["a"]},
    {"path": "a", "command": "x", "pattern": "x"},
    *({"path": "a", "offset": each} for each in (0, -1, 1.5, "2", 10**30, True, None)),
    *({"path": "a", "limit": each} for each in (0, -1, 1.5, "2", 10**30, True, None)),
    *({"pattern": "x", "context": each} for each in (-1, 21, "2", 10**30, None)),
    *({"pattern": each} for each in ("", None, 5, "x" * 20_000)),
    *({"command": "true", "timeout": each} for each in (0, -1, 1.5, "2", 10**30, True, None)),
    *({"command": each} for each in ("", "  \n", "a\0b", None, 5, ["ls"], "x" * 200_000)),
]


@pytest.mark.parametrize("name", ["read_file", "list_files", "grep", "bash"])
def test_wrong_arguments(place: Place, name: str) -> None:
    for args in WRONG_ARGUMENTS:
        if (name, args) != ("list_files", {}):
            with case(args):
                place.refused(name, **args)
                assert place.asked == []


def test_a_home_folder_is_understood(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.folder))
    place.write("in-home.txt")
    assert place.call("read_file", path="~/in-home.txt") == "     1\ttext"


def test_the_working_folder_is_removed(place: Place) -> None:
    place.folder.rmdir()
    for name, args in (("read_file", {"path": "x"}), ("list_files", {}), ("bash", {"command": "ls"})):
        assert place.refused(name, **args).startswith("the working folder was removed")


def test_a_program_chooses_the_folder(place: Place) -> None:
    place.write("there.txt", "outside", place.outside)
    paths.work_in(place.log, place.outside)
    assert place.call("read_file", path="there.txt") == "     1\toutside"
    assert place.call("bash", command="pwd") == f"{place.outside}\n[exit code 0]"
    assert place.asked == [f"run in {place.outside}:\n  pwd"]
    with pytest.raises(CommandError, match=r"^there is no folder .*; name one to work in$"):
        paths.work_in(place.log, place.outside / "nowhere")


# Replaced between the check and the opening


def exchange(folder: Path, target: Path) -> None:
    """Replace a folder with a link."""
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def test_a_folder_that_becomes_a_link_while_a_person_is_asked(place: Place) -> None:
    place.write("sub/.env", "MINE")
    place.write(".env", "SECRET", place.outside)
    place.meanwhile = lambda: exchange(place.folder / "sub", place.outside)
    assert "replaced meanwhile" in place.refused("read_file", path="sub/.env")
    place.meanwhile = lambda: None
    assert place.call("read_file", path="moved/.env") == "     1\tMINE"


def test_a_file_that_becomes_a_link_while_a_person_is_asked(place: Place) -> None:
    env, secret = place.write(".env", "MINE"), place.write("secret.txt", "SECRET", place.outside)

    def swap() -> None:
        env.unlink()
        env.symlink_to(secret)

    place.meanwhile = swap
    assert "replaced meanwhile" in place.refused("read_file", path=".env")


@pytest.mark.parametrize("stepwise", [True, False])
def test_what_is_opened_is_what_was_resolved(place: Place, stepwise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds even if the system cannot open below an open folder."""
    monkeypatch.setattr(paths, "STEPWISE", stepwise)
    place.write("sub/file.txt", "MINE")
    place.write("file.txt", "SECRET", place.outside)
    real = paths.resolved_path("sub/file.txt", str(place.folder))
    with paths.opened_file(real) as file:
        assert file.read() == b"MINE"
    assert place.call("list_files", path="sub") == "sub/file.txt"
    assert place.call("grep", pattern="MINE") == "sub/file.txt:1:MINE"
    exchange(place.folder / "sub", place.outside)
    for opened in (paths.opened_file(real), paths.opened_folder(str(place.folder / "sub"))):
        with pytest.raises(OSError, match=r"replaced|Not a directory"), opened:
            pass


def test_no_race_leads_outside(place: Place) -> None:
    """The folder links outside half of the time."""
    place.write("real/file.txt", "inside")
    place.write("file.txt", "SECRET", place.outside)
    way, over = place.folder / "way", threading.Event()

    def swap() -> None:
        target = 0
        while not over.is_set():
            new = place.folder / "new"
            new.symlink_to((place.folder / "real", place.outside)[target])
            new.replace(way)
            target = 1 - target

    way.symlink_to(place.folder / "real")
    place.answer = None
    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        came = list[str]()
        while len(came) < 300 or (len(came) < 30_000 and len(set(came)) < 2):
            try:
                came.append(place.call("read_file", path="way/file.txt"))
            except CommandError:
                came.append("")
    finally:
        over.set()
        swapping.join()
    assert set(came) == {"     1\tinside", ""}


def test_descriptors_are_closed(place: Place) -> None:
    place.write("a/b/c.txt")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for path in ("a/b/c.txt", "a/b", "a/b/none", "a/none/c"):
        for tool in ("read_file", "list_files"):
            try:
                place.call(tool, path=path)
            except CommandError:
                continue
    place.call("grep", pattern="text")
    place.call("bash", command="true")
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


# Listing


@pytest.fixture
def tree(place: Place) -> Place:
    for name in ("b.py", "a.py", "src/one.py", "src/two.ts", "src/deep/three.py", ".github/x.yml"):
        place.write(name)
    for name in (".git/HEAD", "node_modules/left/index.js", ".venv/bin/python", "src/__pycache__/one.pyc"):
        place.write(name)
    (place.folder / "src" / "loop").symlink_to("..")
    return place


def test_one_folder(tree: Place) -> None:
    assert tree.call("list_files").split("\n") == [
        *(".git/", ".github/", ".venv/", "a.py", "b.py", "node_modules/", "src/")
    ]
    assert tree.call("list_files", path="src").split("\n") == [
        *("src/__pycache__/", "src/deep/", "src/loop -> ..", "src/one.py", "src/two.ts")
    ]
    assert tree.call("list_files", path="node_modules/left") == "node_modules/left/index.js"


NOT = "[Skipped: .git, .venv, __pycache__, node_modules.]"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "b.py"]),
        ("src/*.py", ["src/one.py"]),
        ("**/*.py", ["a.py", "b.py", "src/one.py", "src/deep/three.py", NOT]),
        (
            "src/**",
            ["src/__pycache__/", "src/deep/", "src/loop -> ..", "src/one.py", "src/two.ts", "src/deep/three.py", NOT],
        ),
        ("**/*.{ts,yml}", [".github/x.yml", "src/two.ts", NOT]),
        ("{a,src/{one,two}}.{py,ts}", ["a.py", "src/one.py", "src/two.ts"]),
        ("**/deep/**/*.py", ["src/deep/three.py", NOT]),
        ("[ab].p?", ["a.py", "b.py"]),
        ("[!a].py", ["b.py"]),
        ("nothing", ["[Nothing matches nothing.]"]),
        ("{a.py", ["[Nothing matches {a.py.]"]),
    ],
)
def test_patterns(tree: Place, pattern: str, found: list[str]) -> None:
    told = tree.call("list_files", pattern=pattern).split("\n")
    assert [line for line in told if line != NOT] == [line for line in found if line != NOT]
    assert told[-1] == NOT or "**" not in pattern


@pytest.mark.parametrize(
    "pattern", ["/etc/*", "../*", "a/../../*", "", "/", "a/" * 100, "{a,b}" * 9, "{" + "," * 900 + "}"]
)
def test_wrong_patterns(tree: Place, pattern: str) -> None:
    tree.refused("list_files", pattern=pattern)
    tree.refused("grep", pattern="x", glob=pattern)


def test_a_hostile_pattern_takes_no_time(place: Place) -> None:
    for n in range(20):
        place.write("a" * 240 + str(n))
    pattern = "/".join(["**"] * 20 + ["*a" * 200 + "b"])
    assert place.call("list_files", pattern=pattern).startswith("[Nothing matches")
    assert place.call("list_files", pattern="[[:alpha:]-&&~~||") == "[Nothing matches [[:alpha:]-&&~~||.]"


def test_a_list_is_bounded_and_shows_the_nearest_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(30):
        place.write(f"a/{n:02}")
    place.write("z")
    told = place.call("list_files", pattern="**/*", limit=3).split("\n")
    assert told == ["a/", "z", "a/00", "[29 more; use a narrower path or pattern, or a higher limit.]"]
    monkeypatch.setattr(files, "MOST_ENTRIES", 10)
    told = place.call("list_files", pattern="**/*").split("\n")
    assert len(told) == 11
    assert told[-1] == "[There is too much to list everything; use a narrower path or pattern.]"
    monkeypatch.setattr(files, "SECONDS", -1)
    assert "There is too much to list everything" in place.call("list_files")


def test_names_that_are_not_harmless(place: Place) -> None:
    place.write("two\nlines\x1b[2K")
    (Path(os.fsdecode(os.fsencode(place.folder) + b"/caf\xe9"))).write_text("x")
    told = place.call("list_files")
    assert told.split("\n") == ["caf\ufffd", "two\\nlines\\x1b[2K"]
    told.encode()
    assert place.call("grep", pattern="x", glob="caf*") == "caf\ufffd:1:x"


def test_a_list_of_what_is_outside_has_whole_paths(place: Place) -> None:
    place.write("x.txt", folder=place.outside)
    assert place.call("list_files", path="../outside") == f"{place.outside}/x.txt"


def test_a_deep_tree(place: Place) -> None:
    """The tree is deeper than any intended one."""
    at = os.open(place.folder, os.O_RDONLY)
    for _ in range(150):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    told = place.call("list_files", pattern="**/*", limit=5000).split("\n")
    assert len(told) == 101
    assert told[-1].startswith("[There is too much to list everything")
    assert place.call("grep", pattern="x").startswith("[No match in 0 files. There is too much to search everything")


def test_these_tools_may_run_together(place: Place) -> None:
    from foldmark.tools import TOOLS

    assert {name for name in ("read_file", "list_files", "grep", "bash") if TOOLS[name].together} == {
        *("read_file", "list_files", "grep")
    }
