"""60 criteria of `/forget`, each with the turns that a person would tick, in sessions that are not part of Foldmark.

A turn of a coding session is named by the beginning of its prompt, and one of a conversation of tau-bench by its number
among the prompts. They were chosen by reading the sessions, before anything was measured.
"""

from typing import NamedTuple


class Wanted(NamedTuple):
    """A criterion in a session, and the turns that it means. `talk` is the number of a conversation in its file; None
    for a file with one."""

    session: str
    talk: int | None
    criteria: str
    turns: tuple[str | int, ...]


LARGE, FOUR = "claude/episodic-memory-large.jsonl", "claude/agentcmd-four.jsonl"
EDGES, THREE = "claude/claude-code-log-edge-cases.jsonl", "claude/agentcmd-three.jsonl"
TAU = "openai/tau-bench-20.jsonl"

_UNCOMMITTED, _LINTER, _LOCALLY = "I see four", "ah. the issue is", "why is this happy"
_BRANCH, _WORKTREE, _FIXED = "ok. uh. no. the ci", "we're in a worktree", "ahhhh. now"
_REBASE, _GOING, _YES, _KNIP = "can we rebase", "how's it going", "yes.", "ci is being super"
_STREAMING, _TOKENS, _COMMIT = "something broke streaming", "the issue is for the indi", "it seems to work"
_MERGED, _PR, _FEEDBACK, _COMMENTS = "we merged", "sorry. push up", "pr feedback", "fix the comments"
_MORE, _ABORT, _TWICE, _REVIEW = "more reviewer", "In app/routes", "we're importing it", "Code Review for PR"
_INITIALS, _STORE, _GUEST = "Can you add the first", "does it get", "The username I am"

CRITERIA = (
    Wanted(LARGE, None, "the uncommitted files", (_UNCOMMITTED, _LINTER)),
    Wanted(LARGE, None, "biome reformatting the Prisma files", (_UNCOMMITTED, _LINTER)),
    Wanted(LARGE, None, "the linter and the formatter", (_LINTER, _LOCALLY)),
    Wanted(LARGE, None, "CI failing", (_LOCALLY, _BRANCH, _WORKTREE, _FIXED, _KNIP)),
    Wanted(LARGE, None, "which branch CI checks out", (_BRANCH, _WORKTREE, _FIXED)),
    Wanted(LARGE, None, "the worktree", (_BRANCH, _WORKTREE)),
    Wanted(LARGE, None, "rebasing on main", (_REBASE, _GOING, _YES)),
    Wanted(LARGE, None, "merge conflicts", (_REBASE, _GOING, _YES)),
    Wanted(LARGE, None, "duplicate interfaces in ClientChart", (_YES,)),
    Wanted(LARGE, None, "knip and unused dependencies", (_KNIP,)),
    Wanted(LARGE, None, "the auth0 dependency", (_KNIP,)),
    Wanted(LARGE, None, "streaming is broken", (_STREAMING, _TOKENS, _COMMIT)),
    Wanted(LARGE, None, "individual token streaming", (_TOKENS,)),
    Wanted(LARGE, None, "double JSON serialization", (_STREAMING, _TOKENS, _FEEDBACK, _COMMENTS, _REVIEW)),
    Wanted(LARGE, None, "making the pull request", (_COMMIT, _MERGED, _PR)),
    Wanted(LARGE, None, "PR #17", (_PR, _REVIEW)),
    Wanted(LARGE, None, "reviewer feedback", (_FEEDBACK, _COMMENTS, _MORE, _ABORT, _REVIEW)),
    Wanted(LARGE, None, "the comments that confused the reviewer", (_COMMENTS,)),
    Wanted(LARGE, None, "SSE parsing", (_MORE, _REVIEW)),
    Wanted(LARGE, None, "the abort listener", (_ABORT,)),
    Wanted(LARGE, None, "importing streamingService twice", (_ABORT, _TWICE)),
    Wanted(LARGE, None, "the missing authentication check", (_FEEDBACK, _REVIEW)),
    Wanted(LARGE, None, "CORS headers", (_REVIEW,)),
    Wanted(FOUR, None, "the initials in NavUser", (_INITIALS, _GUEST)),
    Wanted(FOUR, None, "authStore", (_STORE,)),
    Wanted(FOUR, None, "the Guest User menu", (_GUEST,)),
    Wanted(FOUR, None, "the logged in user", (_INITIALS, _STORE, _GUEST)),
    Wanted(THREE, None, "the audit of the codebase", ("Can you audit",)),
    Wanted(EDGES, None, "markdown formatting", ("Here's a message",)),
    Wanted(EDGES, None, "lorem ipsum", ("Let's test a very long",)),
    Wanted(EDGES, None, "special characters and emojis", ("Testing special",)),
    Wanted(TAU, 0, "the mechanical keyboard", (3, 4, 5)),
    Wanted(TAU, 0, "the smart thermostat", (3, 4, 5)),
    Wanted(TAU, 0, "the zip code", (2,)),
    Wanted(TAU, 1, "keyboard with clicky switches", (3, 4)),
    Wanted(TAU, 1, "the refund", (5,)),
    Wanted(TAU, 2, "how many t-shirts there are", (1, 2)),
    Wanted(TAU, 2, "returning the headphones and the smartwatch", (3, 4)),
    Wanted(TAU, 3, "purple t-shirts", (3, 4)),
    Wanted(TAU, 4, "order #W4776164", (5,)),
    Wanted(TAU, 4, "modifying the pending orders", (4, 5, 6, 7)),
    Wanted(TAU, 5, "desk lamp", (1, 4, 5)),
    Wanted(TAU, 5, "water bottle", (1, 4, 6, 7)),
    Wanted(TAU, 6, "the water bottle", (1, 5, 6, 7, 10)),
    Wanted(TAU, 6, "PayPal", (9,)),
    Wanted(TAU, 6, "item ID 7453605304", (8,)),
    Wanted(TAU, 7, "the AC adapter", (6, 7)),
    Wanted(TAU, 8, "a brighter desk lamp", (5, 6)),
    Wanted(TAU, 9, "the 1000ml stainless steel bottle", (6,)),
    Wanted(TAU, 10, "swapping the refunds", (6, 7)),
    Wanted(TAU, 10, "a human representative", (8,)),
    Wanted(TAU, 11, "payment methods", (5, 6, 7)),
    Wanted(TAU, 12, "gaming", (1, 3)),
    Wanted(TAU, 13, "the gaming mouse", (6,)),
    Wanted(TAU, 13, "order #W5490111", (5, 6, 7)),
    Wanted(TAU, 15, "boots in size 8", (1, 3, 4)),
    Wanted(TAU, 16, "the smart watch", (5, 6, 7)),
    Wanted(TAU, 16, "cancelling orders", (1, 3, 4, 8)),
    Wanted(TAU, 17, "suite 641", (4,)),
    Wanted(TAU, 18, "the office chair", (1, 5, 6)),
)
