"""A day in a real terminal: every step is compared with the log and with the request that the model was sent."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from plan import Reply, Use
from playing import asked, say, wait_until
from rich.cells import cell_len
from server import Loopback
from tmux import Tmux, environment
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.chat.display.operated import brief
from foldmark.log import Agent
from foldmark.log.doctor import examine

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

WIRE = AnthropicWire()
CODE = "fn tags() -> Vec<String> { vec![] }"
ANSWER = f"""It is a `Vec<String>`, see <details><summary>more</summary> inside</details>.

| Name | Type |
| --- | --- |
| tags | HashMap<String, Vec<u8>> |

```rust
{CODE}
```

That is <b>all</b> about List<T>."""
WORDS = (
    *("It is a Vec<String>, see <details><summary>more</summary> inside</details>.", "Name", "Type"),
    *("tags", "HashMap<String, Vec<u8>>", CODE, "That is <b>all</b> about List<T>."),
)
NOTES = "Keep the tags sorted.\n" * 400
PROMPT = 'compare @tags.py and @"my notes.md"'
TALKS = ("the tags", "lunch in the park", "the dates")
WHITE = "\x1b[48;5;231m"
"""A white background, in 256 colours."""

QUOTED = re.compile(r"^\[(\d+)\] (?:user|assistant): .*lunch", re.MULTILINE)
"""The messages to forget, as a matching request quotes them."""

SHOWN = re.compile(r" turn (\d+)(?: · \d+ calls?)? +([\d.]+[KM]?)[ ▁-█]*$", re.MULTILINE)
LISTED = re.compile(r"^.\[.\] . +(\d+)  .*? ([\d.]+[KM]?)(?:  [█-▏]+)? +<?\d+%", re.MULTILINE)
"""A turn and its size, in the transcript and in the list of turns."""


def played(body: Any) -> Reply:
    """Return the model's reply to the newest text or result in the request."""
    heard = asked(WIRE, body)
    kind, text = heard.newest
    if "Which of the messages match?" in text:
        return say(json.dumps([int(id) for each in heard.texts for id in QUOTED.findall(each[1])]))
    if kind != "result" and "talk of lunch" in text:
        wanted = {"action": "preview", "criteria": "talk of lunch", "mode": "forget"}
        return Reply((Use("c-filter", "filter_context", wanted),), "calls")
    return say(ANSWER) if NOTES.strip() in text else say(f"I heard: {text}")


def test_a_day_in_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, path = tmp_path / "work", tmp_path / "log.db"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "tags.py").write_text("def tags(text): return text.split(',')\n")
    (work / "my notes.md").write_text(NOTES)
    with Loopback(WIRE, played) as server, foldmark.open(path, settings={}) as log:
        for name in ("alpha", "beta", "gamma"):
            agent = log.agent(name)
            for talk in TALKS:
                agent.append("user", f"About {talk} of {name}?")
                agent.append("assistant", f"I say nothing of {talk}.")
                agent.end_turn()
        env = environment(tmp_path, path, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="test-key-7f3a91c2")
        program = (str(Path(sys.executable).with_name("foldmark")), "chat", "--model", "anthropic/claude-sonnet-4-5")
        with Tmux(work, *program, env=env, rows=40) as screen:
            screen.until("3 of 3 conversations", "alpha  ", "beta  ", "gamma  ")
            screen.line("bet")
            screen.until("Conversation 'beta', 6 messages sent", "❯")
            day = Day(screen, server, log.agent("beta"))
            for deed in (day.ask_about_files, day.copy, day.drop_and_undo, day.forget_a_part, day.resize):
                deed()
            screen.press("C-q")
            screen.until("ended with 0")
        assert [each.name for each in log.agents()] == ["alpha", "beta", "gamma"]
        assert list(examine(log)) == []
    assert not server.refusals


class Day:
    """The parts of the day, in their order."""

    def __init__(self, screen: Tmux, server: Loopback, agent: Agent) -> None:
        self.screen, self.server, self.agent = screen, server, agent

    def ask_about_files(self) -> None:
        """Complete two paths, and read the whole answer to the message with these files."""
        self.screen.type("compare @tag")
        self.screen.until("\n tags.py")
        self.screen.press("Tab")
        self.screen.type("and @my")
        self.screen.until("\n my notes.md")
        self.screen.press("Tab")
        self.screen.until(f"❯ {PROMPT}")
        self.screen.press("Enter")
        self.screen.until(PROMPT, *WORDS, "· idle")
        texts = WIRE.texts(self.server.asked[-1].body)
        assert any("return text.split" in text for _, text in texts)
        assert any(NOTES.strip() in text for _, text in texts)
        prompt, *files, answer = [each.content for each in self.agent.context().messages[6:]]
        assert (prompt.strip(), len(files), answer) == (PROMPT, 2, ANSWER)
        self._meter_is_right()

    def copy(self) -> None:
        """Copy the answer, its code and a selection by OSC 52."""
        self.screen.line("/copy")
        self.screen.until("Copied message")
        assert self.screen.clipboard == ANSWER
        self.screen.line("/copy --code 1")
        self.screen.until("Copied code block 1")
        assert self.screen.clipboard == CODE
        self.screen.press("Tab")
        self.screen.until("\n▌  Copied code block 1")
        self.screen.press("Up", "Up", "Up", "S-Up")
        self.screen.until("\n▌  It is a Vec")
        self.screen.press("C-c")
        self.screen.until(" characters.  ")
        assert self.screen.clipboard.startswith("It is a Vec<String>")

    def drop_and_undo(self) -> None:
        """Drop a turn of the list with a reason, and take that back."""
        before, turn = self.agent.request().tokens, self.agent.context().messages[-1].turn_id
        self.screen.press("F2")
        whole = self.screen.until(f"Turns · next request {brief(before)}", PROMPT)
        listed = dict(LISTED.findall(whole))
        self.screen.press("/")
        self.screen.until("a word of a title")
        self.screen.line("compare")
        self.screen.gone("About the tags")
        self.screen.press("Space")
        priced = self.screen.until("1 turn ticked", "d drops 1 turn")
        self.screen.press("d")
        self.screen.until("Enter does it")
        self.screen.line("led nowhere")
        self.screen.until('dropped by you: "led nowhere"')
        after = self.agent.request().tokens
        assert f"drops 1 turn: {brief(before)} → {brief(after)} · " in priced
        assert f"1 turn ticked: {listed[str(turn)]} (" in priced
        self.screen.press("u")
        self.screen.until("taken back by you", PROMPT)
        assert self.agent.request().tokens == before
        self.screen.press("Escape")
        self.screen.gone("Turns · next request")
        self._meter_is_right()

    def forget_a_part(self) -> None:
        """Forget what was said of a topic, but for one message."""
        said = [each for each in self.agent.context().messages if "lunch" in each.content]
        prompt, answer = (each.id for each in said)
        before = {each.id for each in self.agent.context().messages}
        self.screen.line("/forget talk of lunch")
        self.screen.until(f"[x] 1  {prompt}–{answer}", "matched by anthropic/", "Carry out")
        self.screen.press("Right")
        self.screen.until(f"[x] {prompt}", f"[x] {answer}")
        self.screen.press("Down", "Enter")
        self.screen.until("[-] 1", f"[ ] {prompt}", f"[x] {answer}", "1 message (", " tokens) leaves · ")
        self.screen.press("End", "Enter")
        self.screen.until("left the context", "Done. 1 message")
        self.screen.gone("Carry out")
        assert before - {each.id for each in self.agent.context().messages} == {answer}
        self._meter_is_right()
        self.screen.line("And now?")
        self.screen.until("I heard: And now?", "· idle")
        texts = [text for _, text in WIRE.texts(self.server.asked[-1].body)]
        assert [text for text in texts if "lunch" in text] == [said[0].content]

    def resize(self) -> None:
        """Read the same in a light theme and at every size."""
        dark = self.screen.styled
        self.screen.line("/theme light")
        self.screen.until("The theme is light", "· idle")
        assert WHITE not in dark
        wait_until(lambda: WHITE in self.screen.styled, "a white background")
        for columns, rows in ((60, 20), (80, 24), (160, 45)):
            self.screen.resize(columns, rows)
            shown = self.screen.until(f"\n{'─' * columns}\n ❯ A message", "\n F2 turns", "· idle", "of 100K budget")
            lines = shown.removesuffix("\n").split("\n")
            assert len(lines) == rows
            assert max(map(cell_len, lines)) <= columns
            assert "Traceback" not in shown
            assert "· idle" in lines[0]
        self._sizes_agree()

    def _sizes_agree(self) -> None:
        """A turn has the same size in the conversation and in the list of turns."""
        end = self.screen.screen
        self.screen.press("Tab")
        self.screen.until("\n Enter open F2 turns")  # entries say "Enter opens"
        self.screen.press("Home")
        shown = dict(SHOWN.findall(self.screen.until("About the tags", PROMPT) + end))
        self.screen.press("F2")
        listed = dict(LISTED.findall(self.screen.until("Turns · next request")))
        assert len(shown) == len(TALKS) + 2
        assert shown.items() <= listed.items()

    def _meter_is_right(self) -> None:
        """The meter counts the next request."""
        size = brief(self.agent.request().tokens)
        self.screen.until(f"% · {size} of 100K budget")
