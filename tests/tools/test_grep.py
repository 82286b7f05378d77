"""`grep` (SPEC 4.1): its matches, its limits, and the end of an expression that would never finish."""

import gc
import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import pytest
from place import Place, in_turn, place_in

from foldmark.sending.interruption import Interruption
from foldmark.tools.working import files, grep
from patience import LIMIT
from sampled import sampled

NEVER_ENDING = r"(a|a)+$"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with place_in(tmp_path, monkeypatch) as place:
        yield place


@pytest.fixture
def tree(place: Place) -> Place:
    place.write("a.py", "import os\n\ndef open(path):\n    return path\n")
    place.write("src/b.ts", "Open the door\r\nclosed\n")
    place.write("src/deep/c.py", "opened = 1\nlast: open")
    place.write(".git/objects", "open")
    place.write("node_modules/x.js", "open")
    return place


def lines(place: Place, **args: object) -> list[str]:
    return place.call("grep", **args).split("\n")


def matchers() -> list[int]:
    """Return this process's search processes that have not ended."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            arguments, stat = (each / "cmdline").read_bytes(), (each / "stat").read_text()
        except OSError:
            continue
        if b"matcher.py" in arguments and int(stat.rpartition(")")[2].split()[1]) == os.getpid():
            found.append(int(each.name))
    return found


def test_grep_finds_matching_lines(tree: Place) -> None:
    found = ["a.py:3:def open(path):", "src/deep/c.py:1:opened = 1", "src/deep/c.py:2:last: open"]
    assert lines(tree, pattern="open") == found
    assert lines(tree, pattern="OPEN", ignore_case=True) == [found[0], "src/b.ts:1:Open the door", *found[1:]]
    assert lines(tree, pattern=r"door$|^clo.ed$") == ["src/b.ts:1:Open the door", "src/b.ts:2:closed"]
    assert lines(tree, pattern="open", path="src/deep/c.py") == found[1:]
    assert lines(tree, pattern="open", path="node_modules") == ["node_modules/x.js:1:open"]
    assert lines(tree, pattern="nowhere") == ["[No match in 3 files. Skipped: .git, node_modules.]"]
    assert tree.asked == []


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.py", ["a.py", "src/deep/c.py"]),
        ("src/*", ["src/b.ts"]),
        ("src/**/*.{py,ts}", ["src/b.ts", "src/deep/c.py"]),
        ("b.*", ["src/b.ts"]),
    ],
)
def test_globs(tree: Place, glob: str, names: list[str]) -> None:
    found = lines(tree, pattern="o", glob=glob)
    assert list(dict.fromkeys(line.split(":")[0] for line in found)) == names


def test_lines_around(place: Place) -> None:
    place.write("f.txt", "".join(f"{n}\n" for n in range(1, 31)))
    place.write("g.txt", "5\n")
    assert lines(place, pattern="^(5|7|20)$", context=1) == [
        *("f.txt-4-4", "f.txt:5:5", "f.txt-6-6", "f.txt:7:7", "f.txt-8-8", "--"),
        *("f.txt-19-19", "f.txt:20:20", "f.txt-21-21", "--", "g.txt:1:5"),
    ]
    assert lines(place, pattern="^(1|30)$", context=2, path="f.txt") == [
        *("f.txt:1:1", "f.txt-2-2", "f.txt-3-3", "--", "f.txt-28-28", "f.txt-29-29", "f.txt:30:30")
    ]


def test_lines_end_at_line_feeds_alone(place: Place) -> None:
    place.write("f.txt", "one\u2028still one\x0bstill\rone\ntwo")
    assert lines(place, pattern="two") == ["f.txt:2:two"]


def test_binary_files_are_passed_over_and_other_bytes_are_replaced(place: Place) -> None:
    place.write("b.bin", b"needle\0")
    place.write("l.txt", b"caf\xe9 needle")
    assert lines(place, pattern="needle") == ["l.txt:1:caf\ufffd needle"]
    assert place.refused("grep", pattern="needle", path="b.bin").startswith("b.bin is not text; bash can")


def test_a_long_line_is_cut_around_what_was_found(place: Place) -> None:
    place.write("f.txt", "x" * 5000 + "needle" + "y" * 5000)
    (found,) = lines(place, pattern="needle")
    assert found == f"f.txt:1:…{'x' * 100}needle{'y' * 194}…"


def test_files_that_may_hold_secrets_are_passed_over_with_a_remark(place: Place) -> None:
    place.write(".env", "needle")
    place.write("deep/server.key", "needle")
    assert lines(place, pattern="needle") == ["[No match in 0 files. 2 files that may hold secrets not searched.]"]
    assert place.asked == []
    assert lines(place, pattern="needle", path=".env") == [".env:1:needle"]
    assert place.asked == [f"search {place.folder}/.env, which may hold secrets"]


def test_links_are_not_followed(place: Place) -> None:
    place.write("secret.txt", "needle", place.outside)
    (place.folder / "file").symlink_to(place.outside / "secret.txt")
    (place.folder / "way").symlink_to(place.outside)
    (place.folder / "loop").symlink_to(".")
    place.answer = None
    assert lines(place, pattern="needle") == ["[No match in 0 files.]"]


def test_large_files(place: Place) -> None:
    os.truncate(place.write("large.txt", "needle\n" + "x" * 9000), grep.MOST_FILE + 1)
    place.write("small.txt", "needle")
    tracemalloc.start()
    try:
        told = lines(place, pattern="needle")
        assert tracemalloc.get_traced_memory()[1] < 3 * grep.MOST_FILE
    finally:
        tracemalloc.stop()
    assert told == ["small.txt:1:needle", "[1 file of more than 16 MB not searched.]"]
    assert place.refused("grep", pattern="x", path="large.txt").startswith("large.txt is larger than 16 MB;")


def test_an_answer_is_bounded(place: Place) -> None:
    place.write("f.txt", ("x" * 1000 + "\n") * 5000)
    more = "[There may be more; use a narrower pattern, path or glob, or a higher limit.]"
    found = lines(place, pattern="x")
    assert (len(found), found[-1]) == (101, more)
    found = lines(place, pattern="x", limit=1)
    assert (len(found), found[-1]) == (2, more)
    found = lines(place, pattern="x", limit=1000, context=20)
    assert found[-1] == more
    assert len("\n".join(found)) < 300_000


def test_too_many_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(10):
        place.write(f"{n}.txt", "needle")
    monkeypatch.setattr(files, "MOST_ENTRIES", 5)
    found = lines(place, pattern="needle")
    assert len(found) == 6
    assert found[-1] == "[There is too much to search everything; use a narrower path or glob.]"


@pytest.mark.parametrize(
    "pattern",
    sampled(["(", "[a", "x{99999999999999}", "*", "(" * 5000, r"\z", "(?P<a>x)(?P<a>y)", "(?<=a+)b"], 4),
)
def test_an_invalid_expression_is_refused(place: Place, pattern: str) -> None:
    place.write("f.txt", "x")
    told = place.refused("grep", pattern=pattern)
    assert told.startswith("the pattern is not a regular expression that can be searched for: ")


@pytest.mark.parametrize(
    "pattern", sampled(["\0", "\n", "\ud800", "(?i)X", "[[:alpha:]]", "a&&b||c--d", "é", "x\r", "(?#c)x"], 5)
)
def test_odd_expressions(place: Place, pattern: str) -> None:
    place.write("f.txt", "x")
    place.call("grep", pattern=pattern)


def test_a_never_ending_expression_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("1.txt", "aaa\n")
    place.write("2.txt", "a" * 60 + "!\n")
    place.write("3.txt", "x" * 1_000_000)
    monkeypatch.setattr(grep, "SECONDS", 0.2)
    found, receive = threading.Event(), grep._Search._receive

    def receiving(search: grep._Search, answers: IO[bytes]) -> None:
        def each() -> Iterator[bytes]:
            for answer in answers:
                yield answer
                found.set()  # this answer was recorded

        receive(search, cast("IO[bytes]", each()))

    class Timer(threading.Timer):
        """A timer whose time begins with the first match, however long the search takes to start."""

        def run(self) -> None:
            found.wait(LIMIT)
            super().run()

    monkeypatch.setattr(grep._Search, "_receive", receiving)
    monkeypatch.setattr(grep, "Timer", Timer)
    assert lines(place, pattern=NEVER_ENDING) == [
        *("1.txt:1:aaa", "[The search was ended after 0.2 seconds; use a simpler pattern or a narrower path.]")
    ]
    assert matchers() == []


def test_an_expression_that_takes_all_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is distinguished from one that finds nothing."""
    place.write("f.txt", "x" * 15_000_000)
    monkeypatch.setattr(grep, "SECONDS", 20)
    told = place.refused("grep", pattern=r"((x)|(y)|(z))*!")
    assert "memory" in told


def test_an_interruption_ends_it_at_once(place: Place) -> None:
    place.write("2.txt", "a" * 60 + "!\n")
    interruption = Interruption()
    thread, came = in_turn(lambda: place.call("grep", pattern=NEVER_ENDING), interruption)
    while not matchers():
        threading.Event().wait(0.005)
    interruption.happen()
    thread.join(LIMIT)
    assert came == ["the turn was interrupted"]
    assert matchers() == []
    thread, came = in_turn(lambda: place.call("grep", pattern=NEVER_ENDING), interruption)
    thread.join(LIMIT)
    assert came == ["the turn was interrupted"]


def test_nothing_is_left_open(tree: Place) -> None:
    def descriptors() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.freeze()  # garbage of other tests stays, and is not scanned
    before = descriptors()
    tree.call("grep", pattern="o", limit=1)
    tree.refused("grep", pattern="(")
    tree.refused("grep", pattern="x", path="nowhere")
    assert descriptors() == before
    assert matchers() == []


def test_a_broken_matcher_is_no_empty_answer(tree: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert tree.refused("grep", pattern="open").startswith("the search failed, perhaps")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert tree.refused("grep", pattern="open").startswith("no process can be started")
    monkeypatch.setattr("sys.executable", None)
    assert tree.refused("grep", pattern="open").startswith("no process can be started")
