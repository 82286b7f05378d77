"""Messages and memos are found by their words, but never after they are erased [SPEC 7]."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.events import Event
from foldmark.core.ports import Store
from foldmark.core.records import Memo
from foldmark.core.search import Filters, How, Phrase, SearchScope, Term, TermQuery
from foldmark.core.segments import END, Segment
from foldmark.recall.query import read as read_query
from foldmark.testing.suite import (
    HARD,
    NOW,
    Suite,
    add_root,
    append,
    call,
    draft,
    erase,
    examples,
    result,
    root,
    save_memo,
)
from foldmark.text.keywords import all_words, keywords, occurring
from foldmark.text.tokens import stems

WORDS = ("quartz", "Quartzes", "jumping", "jumps", "vexed", "größe", "GRÖSSE", "x1", "it's", "fjord", "класс", "word\0")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
QUERIES = st.lists(st.sampled_from((*WORDS, '"quartz jumps"', '"vexed fjord"', "jum*", "qua*")), min_size=1, max_size=3)


HOWS: tuple[How, How] = ("all", "any")


def terms_of(query: str) -> list[Term]:
    """Return the terms of a typed query."""
    return list(read_query(query).terms)


def holds(text: str, term: Term) -> bool:
    """Return True if a text contains a term, by the stems of its words."""
    there = stems(text)
    return any(_stands(phrase, there) for phrase in term.phrases)


def _stands(phrase: Phrase, words: Sequence[str]) -> bool:
    wanted = stems(" ".join(phrase.words))
    for at in range(len(words) - len(wanted) + 1):
        *before, last = words[at : at + len(wanted)]
        if before == wanted[:-1] and (last.startswith(wanted[-1]) if phrase.prefix else last == wanted[-1]):
            return True
    return False


def best(store: Store, how: How, query: str, scope: SearchScope = SearchScope()) -> set[int]:  # noqa: B008 - it is frozen
    """Return the messages that a search finds."""
    with store.read() as moment:
        found = moment.index(scope).best([TermQuery(how, terms_of(query))], 1000)
    assert len(found) == len(set(found))
    return set(found)


class FixedJudge:
    """A `Judge` with fixed answers. It must have met the agents that it is asked about."""

    def __init__(self, *, visible: Collection[int] = (), planned: Collection[int] = ()) -> None:
        self._visible, self._planned, self.met = visible, planned, set[str]()

    def meet(self, agent_ids: Iterable[str]) -> None:
        self.met |= set(agent_ids)

    def shows(self, agent_id: str, event_id: int) -> bool:
        return agent_id in self.met and event_id in self._visible

    def plans(self, agent_id: str, event_id: int) -> bool:
        assert agent_id in self.met
        return event_id in self._planned


class Searching(Suite):
    """A message is found by its words as soon as it is appended, and no longer once it is erased."""

    @examples
    @given(texts=st.lists(TEXTS, max_size=8), words=QUERIES, erased=st.integers(0, 7))
    def test_found_messages_equal_brute_force(
        self, store: Store, texts: list[str], words: list[str], erased: int
    ) -> None:
        with store.write() as writing:
            agent = add_root(writing)
            said = {
                writing.append(agent, None, [draft("user", text), draft("turn_ended", "")])[0]: text for text in texts
            }
            if said:
                turn = list(said)[erased % len(said)]
                erase(writing, agent, turn)
                del said[turn]
        terms = terms_of(" ".join(words))
        scope = SearchScope(agents=[agent])
        with store.read() as moment:
            index = moment.index(scope)
            holding = [{id for id, text in said.items() if holds(text, term)} for term in terms]
            every, some = (index.best([TermQuery(how, terms)], 1000) for how in HOWS)
            assert [set(every), set(some)] == [set(said).intersection(*holding), set().union(*holding)]
            assert index.best([TermQuery("all", terms), TermQuery("any", terms)], 1000) == [*every, *some]
            for term, ids in zip(terms, holding, strict=True):
                assert len(index.best([TermQuery("any", [term])], 2)) == min(2, len(ids))
            each_at_once = index.best([TermQuery("any", [term]) for term in terms], 1)
            assert len(each_at_once) == sum(bool(ids) for ids in holding)
            assert all(id in ids for id, ids in zip(each_at_once, filter(None, holding), strict=True))
            assert set(index.passing(list(said))) == set(said)
            messages, counts = index.counted(terms)
            assert messages >= len(said)
            assert all(count >= len(ids) for count, ids in zip(counts, holding, strict=True))

    def test_only_the_newest_part_may_be_searched(self, store: Store, agent: str) -> None:
        ids = append(store, agent, *(draft(content="quartz") for _ in range(40)))
        terms = terms_of("quartz")
        with store.read() as moment:
            index = moment.index(SearchScope())
            found = [sorted(index.best([TermQuery("any", terms, share)], 1000)) for share in (1.0, 0.5, 0.1)]
            assert found[0] == ids
            assert len(ids) > len(found[1]) > len(found[2]) > 0
            assert all(each == ids[-len(each) :] for each in found)
            both = index.best([TermQuery("any", terms, 0.1), TermQuery("all", terms)], 1000)
            assert sorted(both) == sorted([*found[2], *ids])

    def test_messages_excluded_by_a_judge_do_not_count(self, store: Store, agent: str) -> None:
        (said,) = append(store, agent, draft(content="quartz and many more words"))
        planned = append(store, agent, *(draft(content="quartz") for _ in range(60)))
        (shown,) = append(store, agent, draft(content="quartz and some more words"))
        wanted = [TermQuery("any", terms_of("quartz"))]
        with store.read() as moment:
            for visible, expected in ((None, {said, shown}), (True, {shown}), (False, {said})):
                judge = FixedJudge(visible={shown, *planned}, planned=planned)
                scope = SearchScope(Filters(visible=visible), judge=judge)
                assert set(moment.index(scope).best(wanted, 2)) == expected

    def test_texts_of_a_client_are_found_only_by_their_role(self, store: Store, agent: str) -> None:
        told, said = append(store, agent, draft("client", "quartz"), draft(content="quartz"))
        assert best(store, "any", "quartz") == {said}
        assert best(store, "any", "quartz", SearchScope(Filters(role="client"))) == {told}
        with store.read() as moment:
            (found,) = moment.surroundings([told], 1)
            assert found.asked == "quartz", "a turn is named after what the person said"

    def test_a_transaction_finds_what_it_has_written(self, store: Store, agent: str, other: Store) -> None:
        with store.write() as writing:
            (id,) = writing.append(agent, None, [draft(content="quartz")])
            assert writing.index(SearchScope()).best([TermQuery("any", terms_of("quartz"))], 5) == [id]
            assert best(other, "any", "quartz") == set()
        assert best(other, "any", "quartz") == {id}

    def test_names_in_code_and_scripts_without_spaces_are_found_by_their_parts(self, store: Store, agent: str) -> None:
        texts = ("parseHttpResponse", "http", "数据库连接", "数据", "ข้อมูล", "parse it")
        code, http, base, data, thai, parse = append(store, agent, *(draft(content=text) for text in texts))
        assert best(store, "any", "http") == {code, http}
        assert best(store, "any", "parseHttpResponse") == {code}
        assert best(store, "any", "数据") == {base, data}
        assert best(store, "any", "连接") == {base}
        assert best(store, "any", "ข้อมูล") == {thai}
        assert best(store, "all", "parse") == {code, parse}

    def test_filters(self, store: Store) -> None:
        first, second = root(store, "first"), root(store)
        (said,) = append(store, first, draft(content="quartz"))
        asked, other_call = append(store, first, call("c1", "Grep"), call("c2", "Read"))
        (answer,) = append(store, first, result("c1", asked))
        late = draft("assistant", "quartz text")
        (theirs,) = append(store, second, late)
        everything = {said, asked, other_call, answer, theirs}

        def passing(scope: SearchScope) -> set[int]:
            with store.read() as moment:
                return set(moment.index(scope).passing(sorted(everything)))

        noon, after = (datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in (0, 1))
        assert passing(SearchScope()) == everything
        assert passing(SearchScope(agents=[second])) == {theirs}
        assert passing(SearchScope(agents=[])) == set()
        assert passing(SearchScope(Filters(role="assistant"))) == {theirs}
        assert passing(SearchScope(Filters(tool="grep"))) == {asked, answer}
        assert passing(SearchScope(Filters(since=noon))) == passing(SearchScope(Filters(before=after))) == everything
        assert passing(SearchScope(Filters(since=after))) == passing(SearchScope(Filters(before=noon))) == set()
        visible = FixedJudge(visible={asked, other_call})
        assert passing(SearchScope(Filters(visible=True), judge=visible)) == {asked, other_call}
        assert passing(SearchScope(Filters(visible=False), judge=visible)) == everything - {asked, other_call}
        assert passing(SearchScope(judge=FixedJudge(planned={said}))) == everything - {said}
        assert best(store, "any", "quartz") == {said, theirs}
        assert best(store, "any", "quartz", SearchScope(agents=[first])) == {said}
        assert best(store, "any", "grep read text", SearchScope(Filters(tool="Grep"))) == {asked, answer}
        both = SearchScope(Filters(role="user", visible=True), judge=FixedJudge(visible={said, theirs}))
        assert best(store, "all", "quartz", both) == {said}
        with store.read() as moment:
            index = moment.index(SearchScope(judge=FixedJudge(visible={said})))
            index.around([answer, theirs, said], 0)
            found = [index.hits([answer, theirs, said])]
            found.append([each.hit for each in moment.surroundings([answer, theirs, 10**9, said], 1)])
        for hits in found:
            assert [(hit.event_id, hit.agent_id, hit.agent_name, hit.kind, hit.tool) for hit in hits] == [
                (answer, first, "first", "tool_result", "Grep"),
                (theirs, second, second, "assistant", None),
                (said, first, "first", "user", None),
            ]
            assert [hit.turn_id for hit in hits] == [said, theirs, said]
        assert [hit.visible for hit in found[0]] == [False, False, True]

    def test_a_planning_tool_is_never_found(self, store: Store, agent: str) -> None:
        (opener, asked) = append(store, agent, draft(content="quartz"), call("c1", "filter_context"))
        append(store, agent, result("c1", asked))
        assert best(store, "any", "filter context text quartz") == {opener}

    def test_messages_that_hold_a_term_are_counted(self, store: Store, agent: str) -> None:
        append(store, agent, *(draft(content=text) for text in ("quartz", "quartz fjord", "")))
        with store.read() as moment:
            assert moment.index(SearchScope()).counted(terms_of("quartz fjord vexed")) == (3, [2, 1, 0])

    def test_neighbours_come_in_runs(self, store: Store) -> None:
        """Two agents append alternately; each run contains messages of one of them, in order."""
        one, two = root(store), root(store)
        events: list[Event] = []
        with store.write() as writing:
            for number in range(8):
                for agent in (one, two):
                    writing.append(agent, None, [draft(content=f"text {number}")])
            for agent in (one, two):
                events += writing.messages((Segment(agent, 1, END),))
        first, second = [e.id for e in events[:8]], [e.id for e in events[8:]]

        def runs(ids: Iterable[int], scope: SearchScope = SearchScope()) -> list[list[int]]:  # noqa: B008 - it is frozen
            with store.read() as moment:
                return sorted([said.id for said in run] for run in moment.index(scope).around(list(ids), 1))

        assert runs([first[1], second[5]]) == sorted([first[0:3], second[4:7]])
        assert runs([first[1], first[2]]) == [first[0:4]]
        assert runs([first[0], first[7]]) == [first[0:2], first[6:8]]
        aside = SearchScope(judge=FixedJudge(planned={first[2]}))
        assert runs([first[1]], aside) == [first[0:2]]
        with store.read() as moment:
            ((before, said, behind),) = moment.index(SearchScope(Filters(role="user"))).around([first[1]], 1)
            assert (said.text, said.at, said.fits) == ("text 1", events[1].created_at, True)
            assert (before.text, behind.text) == ("text 0", "text 2")
            scope = SearchScope(Filters(visible=True), judge=FixedJudge(visible=set(first[1:3])))
            (run,) = moment.index(scope).around([first[1]], 1)
            assert [(said.id, said.fits) for said in run] == [(first[0], False), (first[1], True), (first[2], True)]


MEMO_NAMES = ("deploy", "deploys", "Deployment", "fly", "flies", "größe", "Grosse", "user_session", "user", "session")
MEMO_WORDS = st.sampled_from((*MEMO_NAMES, "api", "APIs", "класс", "数据", "x.y"))
MEMO_TEXTS = st.lists(MEMO_WORDS, min_size=1, max_size=6).map(" ".join)
SYNTAX = (
    *('"', "a OR b", "NOT x", "content : secret", "tags:x", "NEAR(a b)", "(", "a\0b", "", "++", "%", "a & b"),
    *("secret*", "^secret"),
)
"""Texts that a search engine could read as syntax."""


def memos_found(store: Store, *words: str, before: int = END, limit: int = 100) -> list[int]:
    """Return the ids of the memos with any of these words, best first."""
    with store.read() as moment:
        (memos,) = moment.memos_with([(words, before)], limit)
    return [memo.id for memo in memos]


class MemoTests(Suite):
    """Memos belong to the database, not to a conversation."""

    def test_a_memo_is_read_as_it_was_stored(self, store: Store, agent: str, other: Store) -> None:
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

    def test_the_newest_memos_come_first_up_to_the_limit(self, store: Store) -> None:
        ids = [save_memo(store, f"memo {number}") for number in range(5)]
        with store.read() as moment:
            assert [memo.id for memo in moment.memos(3)] == ids[:1:-1]

    def test_memos_with_the_most_tags_come_first(self, store: Store) -> None:
        one, two, _, four = (
            save_memo(store, text, *tags) for text, *tags in (("1", "a", "b"), ("2", "a"), ("3", "c"), ("4", "b"))
        )
        with store.read() as moment:
            assert [memo.id for memo in moment.memos_tagged(["a", "b", "a"], 10)] == [one, four, two]
            assert [memo.id for memo in moment.memos_tagged(["a", "b"], 1)] == [one]
            assert moment.memos_tagged(["A", "nothing", "a'"], 10) == moment.memos_tagged([], 10) == []
            assert moment.memo_tags(2) == [("a", 2), ("b", 2)]

    def test_words_are_searched_in_content_and_tags(self, store: Store) -> None:
        size = save_memo(store, "Die Größe der Datenbank")
        tagged = save_memo(store, "nothing of it", "api-design", "größe")
        name = save_memo(store, "user_session holds tokens")
        assert memos_found(store, "große") == [tagged, size]
        assert memos_found(store, "design") == [tagged]
        assert memos_found(store, "user_session") == [name]
        assert memos_found(store, "session_user") == memos_found(store) == []

    def test_rare_words_count_for_more_and_all_words_for_most(self, store: Store) -> None:
        ids = [save_memo(store, text) for text in ("deploy alpha", "deploy beta", "deploy gamma", "deploy gamma delta")]
        assert memos_found(store, "deploy", "alpha", limit=3) == [ids[0], ids[3], ids[2]]
        assert memos_found(store, "deploy", "gamma") == [ids[3], ids[2], ids[1], ids[0]]

    @pytest.mark.parametrize("word", SYNTAX)
    def test_search_words_are_never_syntax(self, store: Store, word: str) -> None:
        memo = save_memo(store, "a secret b content")
        assert memos_found(store, word) == ([memo] if "secret" in (word[1:], word[:-1]) else [])

    @examples
    @given(memos=st.lists(MEMO_TEXTS, min_size=1, max_size=8), prompt=MEMO_TEXTS)
    def test_a_found_memo_holds_the_words_that_found_it(self, store: Store, memos: list[str], prompt: str) -> None:
        """The manifest names the keywords that selected a memo."""
        texts = {save_memo(store, text): text for text in memos}
        for words in (keywords(prompt), all_words(prompt)):
            ids = memos_found(store, *words)
            assert sorted(ids) == [id for id, text in texts.items() if occurring(words, text)]
            assert ids == memos_found(store, *words)
        with store.write() as writing:
            for id in texts:
                writing.remove_memo(id)

    def test_only_memos_from_before_an_event(self, store: Store, other: Store) -> None:
        """Memos of all conversations count. Later ones do not change the order of the earlier ones."""
        agent, stranger = root(store), root(other)
        (first,) = append(store, agent, draft())
        old = [save_memo(other, text, "x", agent=stranger) for text in ("deploy alpha", "deploy beta")]
        (opener,) = append(store, agent, draft())
        before = memos_found(store, "deploy", "beta", before=opener)
        assert before == old[::-1]
        # The other conversation has older events than this one, and newer ones.
        append(other, stranger, *[draft()] * 20)
        for each in (store, other):
            save_memo(each, "deploy beta", agent=agent)
            save_memo(each, "deploy beta", agent=stranger)
        assert memos_found(store, "deploy", "beta", before=opener) == before
        (newest,) = append(store, agent, draft())
        assert len(memos_found(store, "deploy", before=newest)) == len(memos_found(other, "deploy")) == 6
        assert memos_found(store, "deploy", before=first) == []
        with store.read() as moment:
            asked = moment.memos_with([(["alpha"], opener), ([], END), (["beta"], first)], 5)
        assert [[memo.id for memo in memos] for memos in asked] == [old[:1], [], []]

    def test_ids_are_never_used_again(self, store: Store, other: Store) -> None:
        ids = [save_memo(store, "one") for _ in range(2)]
        with store.write() as writing:
            for id in (*reversed(ids), ids[0]):
                writing.remove_memo(id)
        ids.append(save_memo(store, "two"))
        with store.write() as writing:
            writing.remove_memo(ids[-1])
        ids.append(save_memo(other, "three"))
        assert len(set(ids)) == len(ids)

    def test_a_removed_memo_is_not_found(self, store: Store, other: Store) -> None:
        gone, kept = save_memo(store, "Zanzibar", "island"), save_memo(store, "Kilimanjaro", "mountain")
        with store.write() as writing:
            writing.remove_memo(gone)
        for each in (store, other):
            assert memos_found(each, "zanzibar", "island", "mountain") == [kept]
            with each.read() as moment:
                assert moment.memo(gone) is None
                assert moment.memos_tagged(["island"], 5) == []
                assert moment.memo_tags(5) == [("mountain", 1)]
