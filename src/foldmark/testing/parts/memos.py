"""Memos: found by their words and tags, erased for good [SPEC 7]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.ports import Store
from foldmark.core.records import Memo
from foldmark.core.segments import END
from foldmark.testing.parts.round_trips import HARD
from foldmark.testing.suite import NOW, Suite, append, draft, examples, root
from foldmark.text.keywords import keywords, named, standing_in

SOME = ("deploy", "deploys", "Deployment", "fly", "flies", "größe", "Grosse", "user_session", "user", "session")
WORDS = st.sampled_from((*SOME, "api", "APIs", "класс", "数据", "x.y"))
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
SYNTAX = (
    *('"', "a OR b", "NOT x", "content : secret", "tags:x", "NEAR(a b)", "(", "a\0b", "", "++", "%", "a & b"),
    *("secret*", "^secret"),
)
"""What search engines take for more than a word."""


def save(store: Store, content: str, *tags: str, agent: str | None = None) -> int:
    """Save a memo; returns its id."""
    with store.write() as writing:
        return writing.save_memo(content, tags, agent, "human", NOW)


def found(store: Store, *words: str, before: int = END, limit: int = 100) -> list[int]:
    """The memos with any of these words, the best first."""
    with store.read() as moment:
        (memos,) = moment.memos_with([(words, before)], limit)
    return [memo.id for memo in memos]


class MemoTests(Suite):
    """Memos of one database, whoever saved them."""

    def test_a_memo_comes_back_as_it_was_given(self, store: Store, other: Store) -> None:
        agent = root(store)
        append(store, agent, draft())
        with store.write() as writing:
            memo = writing.save_memo(HARD, ("b", "a", "b", f"t {HARD}"), agent, "model", NOW)
            nobodys = writing.save_memo("", (), None, "human", NOW)
            assert writing.memo(nobodys) == Memo(nobodys, "", (), None, "human", NOW)
            writing.remove_memo(nobodys)
        saved = Memo(memo, HARD, tuple(sorted(("a", "b", f"t {HARD}"))), agent, "model", NOW)
        with other.read() as moment:
            assert moment.memo(memo) == saved
            assert moment.memos(5) == [saved]
            assert moment.memo(nobodys) is None
        with store.write() as writing:
            writing.remove_memo(memo)

    def test_the_newest_come_first_and_no_more_than_asked_for(self, store: Store) -> None:
        ids = [save(store, f"memo {number}") for number in range(5)]
        with store.read() as moment:
            assert [memo.id for memo in moment.memos(3)] == ids[:1:-1]

    def test_those_with_most_of_the_tags_come_first(self, store: Store) -> None:
        one, two, _, four = (
            save(store, text, *tags) for text, *tags in (("1", "a", "b"), ("2", "a"), ("3", "c"), ("4", "b"))
        )
        with store.read() as moment:
            assert [memo.id for memo in moment.memos_tagged(["a", "b", "a"], 10)] == [one, four, two]
            assert [memo.id for memo in moment.memos_tagged(["a", "b"], 1)] == [one]
            assert moment.memos_tagged(["A", "nothing", "a'"], 10) == moment.memos_tagged([], 10) == []
            assert moment.memo_tags(2) == [("a", 2), ("b", 2)]

    def test_words_are_looked_for_in_content_and_tags(self, store: Store) -> None:
        size = save(store, "Die Größe der Datenbank")
        tagged = save(store, "nothing of it", "api-design", "größe")
        name = save(store, "user_session holds tokens")
        assert found(store, "große") == [tagged, size]
        assert found(store, "design") == [tagged]
        assert found(store, "user_session") == [name]
        assert found(store, "session_user") == found(store) == []

    def test_rare_words_count_for_more_and_all_words_for_most(self, store: Store) -> None:
        ids = [save(store, text) for text in ("deploy alpha", "deploy beta", "deploy gamma", "deploy gamma delta")]
        assert found(store, "deploy", "alpha", limit=3) == [ids[0], ids[3], ids[2]]
        assert found(store, "deploy", "gamma") == [ids[3], ids[2], ids[1], ids[0]]

    @pytest.mark.parametrize("word", SYNTAX)
    def test_nothing_that_is_looked_for_is_syntax(self, store: Store, word: str) -> None:
        memo = save(store, "a secret b content")
        assert found(store, word) == ([memo] if "secret" in (word[1:], word[:-1]) else [])

    @examples
    @given(memos=st.lists(TEXTS, min_size=1, max_size=8), prompt=TEXTS)
    def test_the_words_that_find_a_memo_stand_in_it(self, store: Store, memos: list[str], prompt: str) -> None:
        """What the manifest names as the keywords that picked a memo is what did."""
        texts = {save(store, text): text for text in memos}
        for words in (keywords(prompt), named(prompt)):
            ids = found(store, *words)
            assert sorted(ids) == [id for id, text in texts.items() if standing_in(words, text)]
            assert ids == found(store, *words)
        with store.write() as writing:
            for id in texts:
                writing.remove_memo(id)

    def test_only_memos_from_before_an_event(self, store: Store, other: Store) -> None:
        """Whichever conversation saved them. What comes later does not change the order of those from before."""
        agent, stranger = root(store), root(other)
        (first,) = append(store, agent, draft())
        old = [save(other, text, "x", agent=stranger) for text in ("deploy alpha", "deploy beta")]
        (opener,) = append(store, agent, draft())
        before = found(store, "deploy", "beta", before=opener)
        assert before == old[::-1]
        # The other conversation has newer events than this one, and older ones.
        append(other, stranger, *[draft()] * 20)
        for each in (store, other):
            save(each, "deploy beta", agent=agent)
            save(each, "deploy beta", agent=stranger)
        assert found(store, "deploy", "beta", before=opener) == before
        (newest,) = append(store, agent, draft())
        assert len(found(store, "deploy", before=newest)) == len(found(other, "deploy")) == 6
        assert found(store, "deploy", before=first) == []
        with store.read() as moment:
            asked = moment.memos_with([(["alpha"], opener), ([], END), (["beta"], first)], 5)
        assert [[memo.id for memo in memos] for memos in asked] == [old[:1], [], []]

    def test_ids_are_never_used_again(self, store: Store, other: Store) -> None:
        ids = [save(store, "one") for _ in range(2)]
        with store.write() as writing:
            for id in (*reversed(ids), ids[0]):
                writing.remove_memo(id)
        ids.append(save(store, "two"))
        with store.write() as writing:
            writing.remove_memo(ids[-1])
        ids.append(save(other, "three"))
        assert len(set(ids)) == len(ids)

    def test_a_removed_memo_is_found_no_more(self, store: Store, other: Store) -> None:
        gone, kept = save(store, "Zanzibar", "island"), save(store, "Kilimanjaro", "mountain")
        with store.write() as writing:
            writing.remove_memo(gone)
        for each in (store, other):
            assert found(each, "zanzibar", "island", "mountain") == [kept]
            with each.read() as moment:
                assert moment.memo(gone) is None
                assert moment.memos_tagged(["island"], 5) == []
                assert moment.memo_tags(5) == [("mountain", 1)]
