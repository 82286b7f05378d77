"""Law L4 (SPEC 3, 5.2): whatever the operations, in whatever order, every provider accepts the request.

The histories are those of `test_all_operations`, with changes of settings among them; the validators are written from
the providers' documented rules. `FOLDMARK_DEEP=1` runs 2,000 histories.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from request_validators import VALIDATORS
from test_all_operations import WHO, Histories

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-5",
    "gemini": "gemini-3-pro-preview",
    "gemini_gca": "gemini-2.5-pro",
}
SETTINGS = [
    *(f"sliding_context_tokens={tokens}" for tokens in (0, 1, 600, 700, 100_000)),
    *(f"context_size={turns}" for turns in (0, 1, 3)),
    *("truncation=off", "truncation=on", "truncate_inactive=3", "truncate_active=0", "truncate_recent=5"),
    *("truncate_shape=head-tail", "isolation=off", "isolation=on", "system=Answer in verse."),
]


class Requests(Histories):
    """Random histories whose requests are looked at when they end, and now and then."""

    def teardown(self) -> None:
        try:
            for pair in self.pairs:
                for provider in MODELS:
                    self.accepted(pair.real, provider)
        finally:
            super().teardown()

    @rule(who=WHO, setting=st.sampled_from(SETTINGS))
    def change_a_setting(self, who: int, setting: str) -> None:
        pair = self.pair(who)
        self.seen(pair.real.do(f"/config set {setting}").data["event"])

    @rule(who=WHO, provider=st.sampled_from(sorted(MODELS)))
    def ask(self, who: int, provider: str) -> None:
        self.accepted(self.pair(who).real, provider)

    def accepted(self, agent: object, provider: str) -> None:
        request = agent.request(provider=provider, model=MODELS[provider])  # type: ignore[attr-defined]
        assert VALIDATORS[provider](request.body) == []
        messages = [part for part in request.manifest.parts if part.layer in ("window", "pinned")]
        sent = [part.event for part in messages if part.event is not None]
        left = [each.event for each in request.manifest.left_out]
        assert len({*sent, *left}) == len(sent) + len(left), "nothing is sent twice, or sent and left out"


Requests.TestCase.settings = settings(
    max_examples=2_000 if os.environ.get("FOLDMARK_DEEP") == "1" else 80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestRequests = Requests.TestCase
