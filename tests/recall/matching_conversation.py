"""A made-up conversation on six topics, for measuring how well the local matcher tells them apart."""

from foldmark.core.codec import count_tokens
from foldmark.core.events import Event

SCHEMA, LOGIN, DEPLOY, COLOURS, PAGING, CHAT = "schema", "login", "deploy", "colours", "paging", "chat"

TURNS = (
    (CHAT, "user", "Good morning! What did we leave open yesterday?"),
    (CHAT, "assistant", "Three things: where notes are kept, the sign-in trouble and the look of the settings page."),
    (SCHEMA, "user", "Let's start with the database schema. Which tables do we need for notes and tags?"),
    (SCHEMA, "assistant", "Three tables: notes, tags, and one that joins them, so a note can have many tags."),
    (SCHEMA, "user", "Should the join table have a primary key of its own?"),
    (SCHEMA, "assistant", "No. The pair of foreign keys is the primary key; it also keeps a tag from being set twice."),
    (SCHEMA, "user", "Write the first migration for that."),
    (SCHEMA, "tool_call", '{"path": "migrations/0001.sql", "content": "create table notes (id integer primary key)"}'),
    (SCHEMA, "tool_result", "wrote migrations/0001.sql, 34 lines"),
    (SCHEMA, "assistant", "The migration creates the three tables with their keys and an index on the tag's name."),
    (LOGIN, "user", "Now the login bug: people are thrown out after ten minutes."),
    (LOGIN, "assistant", "Ten minutes is the lifetime of the access token. Is the refresh token ever used?"),
    (LOGIN, "user", "Look at the session code."),
    (LOGIN, "tool_call", '{"path": "src/auth/session_store.py"}'),
    (LOGIN, "tool_result", "class SessionStore:\n    def refresh(self, token):\n        raise NotImplementedError"),
    (
        LOGIN,
        "assistant",
        "There it is: SessionStore.refresh was never written, so every login ends with its first token.",
    ),
    (LOGIN, "user", "ok, go on"),
    (LOGIN, "assistant", "I wrote refresh so that it swaps the token quietly and keeps the session."),
    (CHAT, "user", "By the way, where shall we eat on Friday? The team wants something with noodles."),
    (CHAT, "assistant", "There is a ramen place two streets away that takes bookings for eight people."),
    (CHAT, "user", "Perfect, book it for noon."),
    (CHAT, "assistant", "I cannot telephone, but their website has a form. Shall I put the link here?"),
    (DEPLOY, "user", "How do we get this onto the server? Deployment is still by hand."),
    (DEPLOY, "assistant", "A pipeline with three stages would do: build the image, run the tests, roll it out."),
    (DEPLOY, "user", "Which registry do we push the Docker image to?"),
    (DEPLOY, "assistant", "The one that comes with the repository; the runner is signed in to it already."),
    (DEPLOY, "user", "Add a stage that deploys to staging first."),
    (DEPLOY, "tool_call", '{"path": ".ci/pipeline.yml", "content": "stages: [build, test, staging, production]"}'),
    (DEPLOY, "tool_result", "wrote .ci/pipeline.yml, 58 lines"),
    (DEPLOY, "assistant", "Deploying to staging happens on each merge; production waits for a person's click."),
    (COLOURS, "user", "The settings page needs a dark mode."),
    (
        COLOURS,
        "assistant",
        "Then colours should be variables: background, text, border and accent, once for each theme.",
    ),
    (COLOURS, "user", "The grey on black is hard to read, can you check the contrast?"),
    (COLOURS, "assistant", "It is 3.1 to 1; readable text wants 4.5. A lighter grey, #b0b0b0, gives 9.2."),
    (COLOURS, "user", "Use that in darkTheme."),
    (COLOURS, "tool_call", '{"path": "src/ui/darkTheme.css", "content": ":root { --text: #b0b0b0 }"}'),
    (COLOURS, "tool_result", "wrote src/ui/darkTheme.css, 12 lines"),
    (COLOURS, "assistant", "Done, the dark theme uses the lighter grey everywhere but in disabled buttons."),
    (SCHEMA, "user", "Back to the tables: I want to rename the column body to content."),
    (SCHEMA, "assistant", "Renaming a column is one statement; old clients would need a view with the former name."),
    (SCHEMA, "user", "No old clients. Is snake_case right for the schema, or camelCase?"),
    (SCHEMA, "assistant", "snake_case: SQL folds the case of names, so camelCase would need quotes everywhere."),
    (PAGING, "user", "Let's decide the API: how should lists of notes be paged?"),
    (PAGING, "assistant", "With a cursor instead of an offset, since notes are added while somebody is paging."),
    (PAGING, "user", "Agreed. And the rate limit?"),
    (PAGING, "assistant", "Sixty requests a minute for each key, and a Retry-After header on the 61st."),
    (PAGING, "user", "What does an API error look like?"),
    (PAGING, "assistant", "A JSON object with a code, a message for people and the id of the request."),
    (PAGING, "user", "yes, do that"),
    (PAGING, "tool_call", '{"path": "docs/api.md", "content": "## Errors\\n\\n{code, message, request_id}"}'),
    (PAGING, "tool_result", "wrote docs/api.md, 71 lines"),
    (PAGING, "assistant", "The decision on errors, cursors and limits of the API stands in docs/api.md."),
    (LOGIN, "user", "The login fails again, but only in Safari."),
    (LOGIN, "assistant", "Safari drops the cookie of the session because it comes from another site."),
    (LOGIN, "user", "How do others solve it?"),
    (LOGIN, "assistant", "They serve sign-in from the same site, so that the cookie counts as first party."),
    (DEPLOY, "user", "The last deployment failed, can you read the log of the pipeline?"),
    (DEPLOY, "tool_call", '{"command": "ci logs --job staging --last"}'),
    (DEPLOY, "tool_result", "error: no space left on device while pulling layer 4 of 9\njob staging failed"),
    (DEPLOY, "assistant", "The staging machine is out of disk: old images are never removed. A nightly prune will do."),
    (DEPLOY, "user", "Set it up."),
    (DEPLOY, "assistant", "A timer on the machine now prunes images older than a week."),
    (COLOURS, "user", "Make the accent of the light theme a bit warmer."),
    (COLOURS, "assistant", "I moved its hue from 210 to 24 degrees, an orange; the contrast stays above 4.5."),
    (CHAT, "user", "Thanks, that was a good day. Until Friday!"),
    (CHAT, "assistant", "Enjoy the noodles. The open points are in the notes."),
)
"""Topic, kind and text of each message; a user message begins a turn."""


def conversation() -> list[Event]:
    """Return the messages as events, with ids from 101 on."""
    events: list[Event] = []
    turn = 0
    for number, (_, kind, text) in enumerate(TURNS, 101):
        turn = number if kind == "user" else turn
        data = {"call_id": f"c{number}", "name": "write_file"} if kind == "tool_call" else None
        size = count_tokens(text, None)
        events.append(
            Event(number, "agent", turn, kind, text, data, None, "human", size, "2026-03-15T09:00:00Z", False)
        )
    return events


def about(*topics: str) -> set[int]:
    """Return the ids of the messages on these topics."""
    return {number for number, (topic, _, _) in enumerate(TURNS, 101) if topic in topics}
