"""Search in a log of 1,000,000 messages: its time, also while the log grows, and the cost of the index [SPEC 7].

Builds a log of `--messages` messages in `--conversations` conversations: generated words as frequent as those of
English (the most frequent ones are English), names in code, a little Chinese; messages of some forty words, tool calls,
and results of up to several KB. Then runs a list of different queries in turn, round after round, on a log that has
answered before, and prints the median and the 90th percentile of each. Finally, every query opens the log anew: first
alone, then while another process appends in batches, then while a thread of this process also embeds messages, if there
is a model; messages without vectors are found by words.

Machines differ and are shared, so the time of a fixed loop in Python and in SQLite is printed with the figures, before
and after. The cost of the index for appends is measured on two logs of `--sample` messages, with and without it, in
turn.

`--keep FILE` keeps the log there, and uses it again. Exit code 1 if the median over all queries is above 50 ms, or a
query takes more than 2 s to its first results while the log grows.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from threading import Event, Thread

import apsw

import foldmark
from foldmark.core.search import ANY, Filters
from foldmark.recall.embeddings import EmbeddingError
from foldmark.recall.embeddings.model import load
from foldmark.stores.sqlite.events import SqliteEvents

MEDIAN, GROWING = 0.050, 2.0
"""Limits in seconds: the median over all queries, and any query while the log grows."""

BATCH = 5000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

ENGLISH = (
    "the of and to a in that is it for you was on with as be have not this but at they we can from or are an all will "
    "do what if there when one so up out no would about how into time has more like then other some these could file "
    "make than first been its who now people my made over did down only way find use may water long little very after"
)
"""The most frequent words, approximately in order."""

HANZI = (
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多天而能好都"
    "然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长"
)

Query = tuple[str, str, Filters]
"""The kind of the query, the query, and the filters."""


class Language:
    """Words with the frequencies of a language, always the same ones."""

    def __init__(self, size: int = 60_000) -> None:
        chance = random.Random(7)
        found = dict.fromkeys(ENGLISH.split())
        while len(found) < size:
            syllables = chance.choices((1, 2, 3, 4), (1, 8, 6, 2))[0]
            word = "".join(chance.choice("bcdfghklmnprstvw") + chance.choice("aeiou") for _ in range(syllables))
            found.setdefault(word + chance.choice(("", "n", "r", "s", "t", "ing", "ed", "ly")))
        self.words = list(found)
        # The Zipf-Mandelbrot law: the first word is one in thirty, the thousandth one in ten thousand.
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(size)))

    def text(self, chance: random.Random, words: int) -> str:
        """Return `words` words as sentences."""
        said = chance.choices(self.words, cum_weights=self._weights, k=words)
        for at in range(0, words, 12):
            said[at] = said[at].capitalize()
            said[at - 1] += "." if at else ""
        return " ".join(said) + "."

    def name(self, chance: random.Random) -> str:
        """Return a name in code, made of words that are not too rare."""
        parts = [self.words[int(300 * chance.paretovariate(1.2)) % 8000] for _ in range(chance.choice((2, 2, 3)))]
        return "_".join(parts) if chance.random() < 0.4 else parts[0] + "".join(map(str.capitalize, parts[1:]))

    def message(self, chance: random.Random) -> str:
        """Return a message of a person or a model."""
        text = self.text(chance, min(600, max(3, int(chance.lognormvariate(3.5, 0.8)))))
        if chance.random() < 0.15:
            text += f" See {self.name(chance)} in {self.name(chance)}.py."
        if chance.random() < 0.01:
            text += " " + "".join(chance.choices(HANZI, k=20))
        return text

    def result(self, chance: random.Random) -> str:
        """Return the result of a tool: lines of code or numbers, one in twenty of several KB."""
        lines = chance.randint(30, 110) if chance.random() < 0.05 else chance.randint(1, 8)
        return "\n".join(
            f"{number:4} {self.name(chance)}({self.text(chance, chance.randint(2, 8))})" for number in range(lines)
        )


LANGUAGE = Language()


def add_turn(agent: foldmark.Agent, chance: random.Random, at: datetime) -> int:
    """Append a question, an answer, and in every third turn a tool call with its result between them. Return the number
    of messages."""
    agent.append("user", LANGUAGE.message(chance), created_at=at)
    more = chance.random() < 0.33
    if more:
        id = f"call_{chance.getrandbits(48):012x}"
        name = chance.choice(("read_file", "bash", "grep"))
        agent.append_tool_call(name, {"path": f"src/{LANGUAGE.name(chance)}.py"}, call_id=id, created_at=at)
        agent.append_tool_result(id, LANGUAGE.result(chance), created_at=at)
    agent.append("assistant", LANGUAGE.message(chance), created_at=at)
    agent.end_turn(created_at=at)
    return 4 if more else 2


def build(path: str, messages: int, conversations: int) -> list[float]:
    """Build a log in batches. Return the seconds of each tenth."""
    chance, done, began, tenths = random.Random(2026), 0, time.perf_counter(), list[float]()
    with foldmark.open(path, settings={}) as log:
        while done < messages:
            agent, until = log.agent(f"talk-{chance.randrange(conversations)}"), done + BATCH
            with agent.batch():
                while done < min(until, messages):
                    done += add_turn(agent, chance, BEGIN + timedelta(seconds=30 * done))
            if done * 10 >= messages * (len(tenths) + 1):
                tenths.append(time.perf_counter() - began)
                began = time.perf_counter()
    return tenths


def share_of_index(folder: Path, messages: int) -> float:
    """Return the index's share of the time of appending, measured on two logs in turn, one without an index."""

    def timed(number: int, indexed: bool) -> float:
        whole = SqliteEvents.index
        if not indexed:
            SqliteEvents.index = lambda *_: None  # type: ignore[method-assign]
        try:
            began = time.perf_counter()
            build(str(folder / f"sample-{number}-{indexed}.db"), messages, 3)
            return time.perf_counter() - began
        finally:
            SqliteEvents.index = whole  # type: ignore[method-assign]

    shares = []
    for number in range(3):
        with_it, without = timed(number, True), timed(number, False)
        shares.append(1 - without / with_it)
    return statistics.median(shares)


def sizes(path: str) -> tuple[int, dict[str, int]]:
    """Return the bytes of all texts of messages, and of the pages of each table of the index ("all": of the
    database)."""
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    ((text,),) = db.execute("SELECT sum(octet_length(content)) FROM events WHERE nth IS NOT NULL")
    pages = dict(db.execute("SELECT name, sum(pgsize) FROM dbstat WHERE aggregate = TRUE GROUP BY name"))
    found = {name: size for name, size in pages.items() if name.startswith("search") or name == "parts"}
    return text, {**found, "all": sum(pages.values())}


def queries(log: foldmark.Log, conversations: int, messages: int) -> list[Query]:
    """Return different queries; the words of phrases and names occur in the log."""
    words, chance = LANGUAGE.words, random.Random(5)
    name = next(hit.snippet for hit in log.search("see*", 5) if "See " in hit.snippet).partition("See ")[2].split()[0]
    said = LANGUAGE.text(chance, 6).split()
    half = BEGIN + timedelta(seconds=15 * messages)
    plain: list[tuple[str, str]] = [
        ("rare word", words[40_000]),
        ("rare word", words[12_000]),
        ("usual word", words[2000]),
        ("common word", words[300]),
        ("very common word", words[90]),
        ("function word", "the"),
        ("two words, rare and common", f"{words[9000]} {words[200]}"),
        ("two usual words", f"{words[1500]} {words[2500]}"),
        ("two common words", f"{words[150]} {words[250]}"),
        ("three words", f"{words[500]} {words[5000]} {words[800]}"),
        ("three common words", f"{words[110]} {words[180]} {words[330]}"),
        ("phrase", f'"{words[120]} {words[140]}"'),
        ("phrase with function words", f'"the {words[400]}"'),
        ("beginning", f"{words[3000][:4]}*"),
        ("long beginning", f"{words[20_000][:6]}*"),
        ("question", f"When did the {words[700]} talk to {words[8000]} about the {words[350]}?"),
        ("question of common words", f"What did you make of the {words[130]} and how long was the {words[220]}?"),
        ("question", f"how do I find the {words[1100]} in {words[6000]}"),
        ("sentence", " ".join(said)),
        ("name in code", name),
        ("part of a name", words[450].capitalize()),
        ("Chinese", HANZI[30:32]),
        ("longer Chinese", HANZI[3:9]),
        ("nothing has it", "xylophonequux"),
    ]
    filtered = [
        ("one conversation", Filters(agent=f"talk-{conversations // 2}")),
        ("role", Filters(role="user")),
        ("time", Filters(since=half, before=half + timedelta(days=5))),
        ("tool", Filters(tool="bash")),
    ]
    found = [(kind, query, ANY) for kind, query in plain]
    found += [(f"usual word, {kind}", words[2000], filters) for kind, filters in filtered]
    return found + [(f"two common words, {kind}", f"{words[150]} {words[250]}", filters) for kind, filters in filtered]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def calibration() -> str:
    """Return the machine's time for a fixed amount of work."""

    def python() -> None:
        found = 0
        for number in range(1_000_000):
            found += number & 7

    def sqlite() -> None:
        asked = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500000) SELECT sum(x) FROM n"
        list(apsw.Connection(":memory:").execute(asked))

    loops = [statistics.median(seconds(work) for _ in range(5)) * 1000 for work in (python, sqlite)]
    return f"calibration: a million additions in Python {loops[0]:.0f} ms, 500,000 rows in SQLite {loops[1]:.0f} ms"


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def warm(log: foldmark.Log, asked: list[Query], rounds: int) -> float:
    """Print the table. Return the median over all queries."""
    times: list[list[float]] = [[] for _ in asked]
    for number in range(rounds + 2):  # the first two rounds warm up
        for place, (_, query, filters) in enumerate(asked):
            taken = seconds(lambda query=query, filters=filters: log.search(query, 10, filters))  # type: ignore[misc]
            times[place] += [taken] if number > 1 else []
    print(f"\n{'milliseconds, warm':36}{'hits':>6}{'median':>9}{'p90':>9}")
    for (kind, query, filters), each in zip(asked, times, strict=True):
        hits = len(log.search(query, 10, filters))
        print(f"{kind:36}{hits:6}{statistics.median(each) * 1000:9.1f}{percentile(each, 0.9) * 1000:9.1f}  {query}")
    every = [each for row in times for each in row]
    median = statistics.median(every)
    print(f"{'all':42}{median * 1000:9.1f}{percentile(every, 0.9) * 1000:9.1f}")
    return median


@contextmanager
def growing(path: str) -> Iterator[None]:
    """Append from another process during the block."""
    writer = subprocess.Popen([sys.executable, __file__, "--append", path], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        yield
    finally:
        writer.terminate()
        writer.wait()


@contextmanager
def embedding(path: str) -> Iterator[bool]:
    """Embed messages in a thread of this process during the block. Yield False if there is no model."""
    try:
        model = load()
    except EmbeddingError as error:
        print(error)
        yield False
        return
    from foldmark.recall.embeddings.stored import StoredVectors

    begun, enough = Event(), Event()

    def work() -> None:
        with foldmark.open(path, settings={}) as log:
            StoredVectors(log.store.vectors, model).bring_up(lambda *_: begun.set(), enough.is_set)

    thread = Thread(target=work)
    thread.start()
    begun.wait()
    try:
        yield True
    finally:
        enough.set()
        thread.join()


def append(path: str) -> None:
    """Append batch after batch until this process is ended."""
    chance = random.Random()
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("growing")
        for number in range(1 << 30):
            with agent.batch():
                for _ in range(200):
                    add_turn(agent, chance, datetime.now(UTC))
            if not number:
                print("begun", flush=True)


def first_results(path: str, asked: list[Query]) -> list[float]:
    """Return the seconds from opening the log to the hits, for each query."""

    def once(query: str, filters: Filters) -> None:
        with foldmark.open(path, create=False, settings={}) as log:
            log.search(query, 10, filters)

    return [seconds(lambda query=query, filters=filters: once(query, filters)) for _, query, filters in asked]  # type: ignore[misc]


def report_index(path: str, messages: int, share: float, tenths: list[float]) -> None:
    text, pages = sizes(path)
    index = sum(size for name, size in pages.items() if name != "all")
    if tenths:
        rates = [messages / 10 / each for each in (tenths[0], tenths[-1])]
        print(
            f"built in {sum(tenths):,.0f} s, making the texts included: {messages / sum(tenths):,.0f} messages a "
            f"second, {rates[0]:,.0f} in the first tenth and {rates[1]:,.0f} in the last"
        )
    print(f"of the time of appending, the index takes {share:.0%}")
    parts = ", ".join(f"{name} {size / 1e6:,.0f}" for name, size in sorted(pages.items()) if name != "all")
    print(f"texts {text / 1e6:,.0f} MB, database {pages['all'] / 1e6:,.0f} MB, index {index / 1e6:,.0f} MB ({parts}):")
    print(f"the index is {index / text:.0%} of the texts and {index / pages['all']:.0%} of the database")


def main() -> int:
    """Build, measure, print. Return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sample", type=int, default=20_000, help="messages of the logs with and without an index")
    parser.add_argument("--keep", metavar="FILE", type=Path, help="build the log there, or use the one that is there")
    parser.add_argument("--append", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.append:
        append(options.append)
    with tempfile.TemporaryDirectory() as folder:
        print(calibration())
        path = str(options.keep or Path(folder, "log.db"))
        tenths = [] if Path(path).exists() else build(path, options.messages, options.conversations)
        report_index(path, options.messages, share_of_index(Path(folder), options.sample), tenths)
        with foldmark.open(path, settings={}) as log:
            asked = queries(log, options.conversations, options.messages)
            median = warm(log, asked, options.rounds)
        found = {"nobody writes": first_results(path, asked)}
        with growing(path):
            found["another process appends"] = first_results(path, asked)
            with embedding(path) as there:
                if there:
                    found["and a thread makes vectors"] = first_results(path, asked)
        print(f"\n{'milliseconds from opening the log':36}{'median':>9}{'longest':>9}")
        for name, times in found.items():
            print(f"{name:36}{statistics.median(times) * 1000:9.1f}{max(times) * 1000:9.1f}")
        print(calibration())
    bad = [f"the median of all queries is above {MEDIAN * 1000:.0f} ms"] if median > MEDIAN else []
    longest = max(max(times) for times in found.values())
    bad += [f"a query takes more than {GROWING:.0f} s to its first results"] if longest > GROWING else []
    print("; ".join(bad) or "Both limits hold.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
