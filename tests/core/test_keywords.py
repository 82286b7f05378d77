"""The keywords of a prompt (SPEC 7, S2) name its subject; "continue" and "go on" have none."""

from __future__ import annotations

import re

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.text.keywords import LOOKED_AT, MOST, STOP, folded, keywords, occurring, ranked, spellings

TALK = """
continue | go on | Go on! | next | please continue | yes | yes please | ok | OK, thanks! | thanks
Thank you very much. | do it | do that | fix | fix it | fix this please | keep going | carry on | and then?
what's next? | lgtm | LGTM, ship it | sounds good, let's do that | yep, go ahead | try again | that didn't work
it's still broken, fix the error | hi | hello! | next step please | option 2 | 1 | y | n | k | ... | 👍
what do you think? | are you sure? | can you explain that again? | no, that's wrong | Perfect. Now do the rest
please finish the task | show me the code | can you fix the bug in this file? | weiter | Mach weiter
mach bitte weiter | Fahre fort | weiter so | ja | ja bitte | danke | Danke schön! | passt, weiter
bitte behebe den Fehler | und jetzt? | nächster Schritt | das funktioniert nicht | Stimmt. Mach das so.
sieht gut aus | continuez | oui, merci | sigue por favor | gracias | продолжай | спасибо | 继续 | 好的 | 続けて
ありがとう | 계속
"""


@pytest.mark.parametrize("prompt", [each.strip() for line in TALK.strip().splitlines() for each in line.split(" | ")])
def test_ordinary_talk_has_no_keywords(prompt: str) -> None:
    assert keywords(prompt) == ()


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("How do we deploy to Fly?", "deploy fly"),
        ("please continue with the database migration", "database migration"),
        ("Füge die Größenprüfung für Anhänge hinzu", "großenprufung anhange"),
        ("Wie läuft unser Deployment?", "deployment"),
        ("Crème BRÛLÉE naïve", "creme brulee naive"),
        ("rename user_session to login_session", "rename user_session user session login_session login"),
        ("see src/app/sqlite_memos.py", "app sqlite_memos.py sqlite"),
        ("why does SqliteStore.size differ?", "sqlitestore.size sqlitestore sqlite store differ"),
        ("what is on port 8080, v2 or 3.11 x 7?", "port 8080 v2"),
        ("__init__ and __main__.py", "init"),
        ('content:"drop table" OR tags* NEAR(a b) - ^x {y}', "drop table tags"),
        ("база данных", "база данных"),
        ("数据库", "数据库"),
        ("x" * 65 + " token " + "A1b2" * 16 + "c", "token"),
    ],
)
def test_the_keywords_of_a_prompt(prompt: str, found: str) -> None:
    assert keywords(prompt) == tuple(found.split())


def test_single_letters_are_not_keywords() -> None:
    assert keywords("a b c é x_y q.r i/o C++ C# F#") == ()


def test_stop_words_are_folded_and_lists_of_them_are_not_empty() -> None:
    assert {word for word in STOP if word != folded(word)} == set()
    assert {"continue", "weiter", "please", "danke"} <= STOP


def test_keywords_are_few_and_from_both_ends_of_a_long_prompt() -> None:
    long = " ".join(f"word{number:04}" for number in range(5000))
    found = keywords(long)
    assert len(found) == MOST
    assert (found[0], found[MOST // 2 - 1], found[-1]) == ("word0000", f"word{MOST // 2 - 1:04}", "word4999")
    assert keywords("deploy " + "x y " * LOOKED_AT + " fly") == ("deploy", "fly")
    assert keywords("deploy " + "z" * 5 * LOOKED_AT + " fly") == ("deploy", "fly")


@given(st.text(max_size=300))
def test_keywords_of_any_text_contain_no_syntax(text: str) -> None:
    found = keywords(text)
    assert len(set(found)) == len(found) <= MOST
    for word in found:
        assert re.fullmatch(r"[^\W_]+(?:[._]+[^\W_]+)*", word)
        assert word not in STOP
    assert keywords(text) == found


WRITTEN = [*range(0x20, 0x2B0), *range(0x370, 0x460), *range(0x1E00, 0x1F00), *range(0x4E00, 0x4E40), 0x304C, 0xD55C]
UNLIKE = "µſǠǡẛςϐϑϕϖϰϱϵ\u0374\u037f"
"""Characters that FTS5's older tables treat differently."""


def test_words_are_folded_as_the_index_folds_them() -> None:
    db = apsw.Connection(":memory:")
    tokens = db.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
    unlike = ""
    for code in (each for each in WRITTEN if each < 0x80 or chr(each).isalnum()):
        text = f"Aé{chr(code)}b_c {chr(code)}"
        query = tokens(text.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False)
        unlike += chr(code) if re.findall(r"[^\W_]+", folded(text)) != query else ""
    assert set(unlike) <= set(UNLIKE)
    db.close()


@pytest.mark.parametrize(
    ("word", "said", "stands"),
    [
        ("deployments", "We deploy on Fridays.", True),
        ("deploy", "Deployment runs on Fridays.", True),
        ("policies", "One policy.", False),
        ("policy", "Several policies.", True),
        ("tests", "A test.", True),
        ("test", "The testament.", False),
        ("station", "A static state.", False),
        ("key", "All keys.", True),
        ("user_session", "The user session.", True),
        ("user_session", "user.session", True),
        ("user_session", "The session of a user.", False),
        ("sqlite_memos.py", "in sqlite_memos.py", True),
        ("große", "Die Größe.", True),
    ],
)
def test_a_keyword_occurs_in_a_text_in_related_forms(word: str, said: str, stands: bool) -> None:
    assert (occurring([word], said) == [word]) == stands


def test_spellings_are_never_short_beginnings() -> None:
    for word in ("api", "port", "class", "memory", "decision", "8080", "user_session"):
        exact, beginning = spellings(word)
        assert word in exact
        assert beginning is None or (len(beginning) >= 5 and word.startswith(beginning))


def test_rare_words_count_for_more_and_newer_memos_come_first() -> None:
    assert ranked({"common": [1, 2, 3, 4], "rare": [2]}, 10) == [2, 4, 3, 1]
    assert ranked({"a": [1], "b": [1], "rare": [2]}, 10) == [1, 2]
    assert ranked({}, 10) == []
    # A word that occurs in all memos still counts.
    assert ranked({"all": [1, 2]}, 2) == [2, 1]
