"""The time a provider should keep a request: the one that would have been cheaper for recent requests (SPEC 5.7)."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.assembly.caching import Use, lifetime

SHORT, MIDDLE, LONG = 60.0, 600.0, 7200.0


def uses(*pauses: float, context: int = 50_000, new: int = 1000) -> list[Use]:
    """Return requests after these pauses, each with `new` new tokens; the first of all has a whole context."""
    moment, found = 0.0, [Use(0.0, context, context)]
    for pause in pauses:
        moment += pause
        context += new
        found.append(Use(moment, context, new if pause <= 300 else context))
    return found


def test_one_pause_does_not_justify_an_hour() -> None:
    assert lifetime([]) == lifetime(uses()) == "5m"
    assert lifetime(uses(*[SHORT] * 99)) == "5m"
    assert lifetime(uses(SHORT, MIDDLE)) == "5m"
    assert lifetime(uses(SHORT, MIDDLE, SHORT, MIDDLE)) == "1h"


def test_a_pause_of_more_than_an_hour_counts_against_an_hour() -> None:
    assert lifetime(uses(*[LONG] * 9)) == "5m"
    assert lifetime(uses(MIDDLE, MIDDLE, LONG, LONG)) == "5m"
    assert lifetime(uses(MIDDLE, MIDDLE, MIDDLE, MIDDLE, LONG, LONG)) == "1h"


def test_many_new_tokens_between_two_pauses_count_against_an_hour() -> None:
    busy = [MIDDLE, *[SHORT] * 40]
    assert lifetime(uses(*busy, *busy, new=200)) == "1h"
    assert lifetime(uses(*busy, *busy, new=3000)) == "5m"


def test_a_time_that_runs_backwards_is_not_a_pause() -> None:
    assert lifetime(uses(-MIDDLE, -MIDDLE, -MIDDLE)) == "5m"


@given(st.lists(st.sampled_from([SHORT, MIDDLE, LONG]), max_size=12), st.integers(0, 20_000))
def test_an_hour_is_chosen_only_if_it_would_have_saved_something(pauses: list[float], new: int) -> None:
    made = uses(*pauses, new=new)
    written = {"5m": made[0].tokens, "1h": made[0].tokens}
    for before, now in pairwise(made):
        pause = now.moment - before.moment
        for ttl, seconds in (("5m", 300), ("1h", 3600)):
            written[ttl] += now.tokens if pause > seconds else now.tokens - before.tokens
    read = {ttl: sum(use.tokens for use in made) - tokens for ttl, tokens in written.items()}
    cost = {ttl: written[ttl] * price + read[ttl] * 0.1 for ttl, price in (("5m", 1.25), ("1h", 2.0))}
    assert lifetime(made) == "5m" or cost["1h"] < cost["5m"]
