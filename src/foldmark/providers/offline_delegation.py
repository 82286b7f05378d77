"""How the offline model delegates tasks to children, carries out the task that it was forked for, and reads mail [S0,
SPEC 6, 9].

A text delegates with a few clear wordings: `Delegate: research OAuth2; research sessions`, or a sentence that asks for
a list of tasks to be done in parallel or by children. The list has bullets or numbers and comes below or after the
sentence, or it follows the sentence and is separated by semicolons. One answer delegates one task: mark, state the
task, fork. A child reports by mail and answers mail from its parent. Each step follows from the calls of the turn and
their success, so nothing is tried twice and every turn ends.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from foldmark.core.agents import MAIL_BEGINS as MAIL
from foldmark.core.assembly.layers import MAIL_NOTICE
from foldmark.core.wording import count, listing
from foldmark.providers.offline_lines import WHO, Line, Reply, Scene, cut

TOOL = "slash"

MOST = 8
"""Maximum number of tasks that one text can delegate."""

QUOTED = 80
"""Maximum number of characters of a mail that an answer quotes."""

LONGEST = 10_000
"""Maximum number of characters of a text that are read."""

TASK = 500
"""Maximum number of characters of a task."""

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BEGIN = r"(?:^\s*|[.!?]\s+)(?:(?:please|now|then|and)[\s,]+)*"
_DELEGATE = re.compile(
    _BEGIN + r"(?P<word>delegate)(?:\s+(?:this|these|those|the|following|all|of|them|it|in|parallel|to|each|two|three"
    r"|four|your|separate|tasks?|jobs?|steps?|work|research|sub-?agents?|agents?|child|children|\d{1,2}))*\s*:",
    re.IGNORECASE,
)
_VERBS = (
    r"research|investigate|explore|study|review|analy[sz]e|compare|examine|check|test|look\s+into|look\s+at|work\s+on"
    r"|write|summari[sz]e|read|run|try|find"
)
_TELL = re.compile(
    _BEGIN + rf"(?:(?P<verb>{_VERBS})|do(?!\s+\w+\s+(?:run|work|go|fail|happen))|use|let|start|spawn|fork|give|hand"
    r"|assign|split|distribute|handle|carry\s+out)\b(?P<how>[^:.!?]{0,120}):",
    re.IGNORECASE,
)
_HANDED_ON = re.compile(
    r"\bin\s+parallel\b|\bsub-?agents?\b|\bchild\s+agents?\b"
    r"|\b(?:to|by|with|as|use|let|start|spawn|fork)\s+(?:(?:your|the|new|separate|two|three|four|\d{1,2})\s+)*children\b",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|never|no|without)\b|n['’]t\b", re.IGNORECASE)
_ITEM = re.compile(r"(\s*)([-*•–]|\(?\d{1,2}[.)])\s+(\S.*)")
_VERB = re.compile(rf"(?:{_VERBS})\b", re.IGNORECASE)
_REPORT = re.compile(
    r"(?:^|[.!;,]\s*)(?:and\s+)?report\b(?:[^.!]*\b(?:send|mail)\b|\s+back\b)[^.!]*[.!]?\s*$", re.IGNORECASE
)
_NUMBERED = re.compile(r"\bTask\s+(\d{1,3}):\s*")

_ASKS_REPORT = re.compile(
    r"(?:(?<![\w/])/|\bslash\s+)send\b|\breport\b[^.!?\n]{0,60}\b(?:by|via|with|through|per)\s+mail\b", re.IGNORECASE
)
_ASKS_MAIL = re.compile(
    r"(?:please[\s,]+)?(?:(?:check|read|fetch|get|show|look\s+(?:at|for))\s+(?:(?:me|for|the|your|my|our|any|new)\s+)*"
    r"(?:e-?mails?|mails?|inbox|mailbox|news)|(?:(?:is|are)\s+there\s+|have\s+you\s+(?:got\s+)?|do\s+you\s+have\s+)?"
    r"(?:any\s+)?(?:new\s+)?(?:mails?|news|reports)(?:\s+(?:yet|now|come|in|for\s+(?:me|you|us)))*\s*\?|any\s+news"
    r"|check-mail)(?:[\s,]+(?:please|now|again))*[\s.!?]*",
    re.IGNORECASE,
)

# These match texts of `foldmark.core.assembly.layers`: the identity of a child, and its birth message.
_IDENTITY = re.compile(r"\[Foldmark: You are agent ([0-9a-f]{8}), a child of agent ([0-9a-f]{8})\. What you find out ")
_BIRTH = re.compile(
    r"\[Foldmark: You are agent ([0-9a-f]{8}), a child of agent ([0-9a-f]{8}), forked"
    r"(?: from its (?:mark '(.*?)'|turn \d+))?\. Carry out "
)
_MAIL = re.compile(rf"^{re.escape(MAIL)}([0-9a-f]{{8}}) at [^\]\n]*\]\n", re.MULTILINE)
_COMMANDS = ("mark", "fork", "send", "check-mail")


class _Child(Struct, frozen=True):
    """The child that a request is for: its parent, as named in mail, the line of the birth message (None if the request
    does not contain it), and its task."""

    parent: str
    born: int | None
    task: str = ""


class _Call(Struct, frozen=True):
    """A call of a command in line `at` of a turn, and its result, None if there is none."""

    at: int
    command: str
    args: str
    result: Line | None

    @property
    def worked(self) -> bool:
        return self.result is not None and bool(self.result.text) and not self.result.failed


class _Mail(Struct, frozen=True):
    """One mail in line `at` of a turn; 8 hex digits name the sender."""

    at: int
    sender: str
    text: str


class _Turn(Struct, frozen=True):
    """A turn: its first line, its calls, the mail that came in it, and the last line with a notice of mail, -1 without
    one."""

    opener: Line
    calls: tuple[_Call, ...]
    mail: tuple[_Mail, ...]
    notified: int

    def of(self, command: str) -> list[_Call]:
        return [each for each in self.calls if each.command == command]


def delegated(scene: Scene) -> Reply | None:
    """Return the next step of a delegation or in answer to mail, as calls or a text; None if there is none."""
    lines = scene.lines
    child = _child_of(scene)
    begin = _begin_of(lines, child)
    if TOOL not in scene.tools or begin == len(lines):
        return None
    turn = _turn_of(lines[begin:])
    text = turn.opener.text if turn.opener.typed else ""
    tasks = tasks_in(text)
    # Without a birth message, messages are meant for the child, not for its parent, once the child has reported.
    sent = _turn_of(lines[:begin]).of("send") if begin else ()
    own = child is None or child.born is not None or any(each.args.startswith(child.parent) for each in sent)
    task: str | None = None
    if child is not None and begin == child.born:
        task = child.task
    elif child is not None and asks_for_report(text) and not (tasks and own):
        task = own_task(text, None)
    if all(each.worked for each in turn.calls):
        step = _step(turn, child, tasks[:MOST] if own else (), task, asks_for_mail(text))
        if step is not None:
            return step
    if report_text := _outcome(turn, child, len(tasks), task):
        return Reply(f"{WHO}. {report_text}")
    if child is None or not tasks:
        return None
    return Reply(
        f"{WHO}. I may have that text from agent {child.parent}, whose child I am, so I do not delegate it again."
    )


def _step(turn: _Turn, child: _Child | None, tasks: Sequence[str], task: str | None, wants_mail: bool) -> Reply | None:
    """Return the next call, for the first task or mail of the turn that no earlier call has handled; None without
    one."""
    forked, sent, checked = turn.of("fork"), turn.of("send"), turn.of("check-mail")
    if len(forked) < len(tasks):
        # The child gets the text of the answer that forks it: [S0]'s sub-agent pattern in one answer.
        number, words = len(forked) + 1, tasks[len(forked)]
        end = "" if words.endswith(("!", "?", "…")) else "."
        calls = _slash("mark", f"TASK_{number}").calls + _slash("fork", f"TASK_{number}").calls
        return Reply(f"Task {number}: {words}{end} Report by slash send when it is done.", calls)
    if child is not None and task is not None and not sent:
        return _slash("send", f"{child.parent} {report(task)}")
    if (wants_mail and not checked) or turn.notified > max((each.at for each in checked), default=-1):
        return _slash("check-mail")
    since = max((each.at for each in sent), default=-1)
    if child is not None and (new := [each for each in turn.mail if each.at > since and each.sender == child.parent]):
        words = count(sum(len(each.text.split()) for each in new), "word")
        quoted = listing((f"“{cut(each.text, QUOTED)}”" for each in new), 5)
        return _slash("send", f"{child.parent} {WHO}: I can only say that I got {words}: {quoted}.")
    return None


def _slash(command: str, args: str = "") -> Reply:
    return Reply(calls=((TOOL, {"command": command, "args": args} if args else {"command": command}),))


def _outcome(turn: _Turn, child: _Child | None, tasks: int, task: str | None) -> str:
    """Return the report at the end of a turn with calls and mail; empty if there is nothing to report."""
    sentences = []
    if failed := next((each for each in turn.calls if not each.worked), None):
        error = (failed.result and failed.result.error) or "the call has no result"
        sentences.append(f"That did not work: {cut(error, 300)}.")
    if forked := [each.args for each in turn.of("fork") if each.worked]:
        children = f"{'a child' if len(forked) == 1 else 'children'} ({listing(forked)})"
        number = f"{len(forked)} of {tasks}" if len(forked) < tasks else f"{len(forked)}"
        noun = "task" if max(len(forked), tasks) == 1 else "tasks"
        end = "ask me again when mail has come, or use /check-mail."
        sentences.append(f"I delegated {number} {noun} to {children}; {end}")
    if child is not None and (sent := [each for each in turn.of("send") if each.worked]):
        sentences += [f"I reported to agent {child.parent}."] if task is not None else []
        sentences += [f"I answered agent {child.parent}."] if len(sent) > (task is not None) else []
    if turn.mail:
        senders = listing(dict.fromkeys(each.sender for each in turn.mail))
        begins = "".join(f"\n- {each.sender}: “{cut(each.text, QUOTED)}”" for each in turn.mail)
        sentences.append(f"{count(len(turn.mail), 'message')} came from {senders}:{begins}")
    elif any(each.worked for each in turn.of("check-mail")):
        sentences.append("There is no mail.")
    return " ".join(sentences)


def _child_of(scene: Scene) -> _Child | None:
    """Return the child that the request is for; None for a root agent. An inherited identity or birth message is the
    parent's."""
    told = (_IDENTITY.search(line.text) for line in reversed(scene.lines) if line.role == "user" and not line.typed)
    identity = next(filter(None, told), None) or _IDENTITY.search(scene.system)
    for index, line in reversed(list(enumerate(scene.lines))):
        birth = _BIRTH.match(line.text) if line.role == "user" else None
        if birth and (identity is None or identity.groups() == birth.groups()[:2]):
            if words := [each[2:] for each in line.text.splitlines() if each.startswith("> ")]:
                return _Child(birth[2], index, own_task("\n".join(words), birth[3]))
            above = next((each.text for each in reversed(scene.lines[:index]) if each.typed), "")
            return _Child(birth[2], index, own_task(above, None))
    return _Child(identity[2], None) if identity else None


def _begin_of(lines: Sequence[Line], child: _Child | None) -> int:
    """Return the line at which the turn begins: a person's message, the birth message, or the one after the newest
    final answer."""
    begin = 0 if child is None or child.born is None else child.born
    for index in range(len(lines) - 1, begin, -1):
        if lines[index].typed:
            return index
        if lines[index].role == "assistant" and not lines[index].calls:
            return index + 1
    return begin


def _turn_of(lines: Sequence[Line]) -> _Turn:
    """Return the turn that these lines, at least one, contain."""
    results = {line.answers: line for line in lines if line.role == "tool"}
    calls, mail, notified = [], [], -1
    for at, line in enumerate(lines):
        for call in line.calls:
            args = call.args if call.name == TOOL and isinstance(call.args, dict) else {}
            if (command := args.get("command")) in _COMMANDS:
                calls.append(_Call(at, command, str(args.get("args", "")), results.get(call.call_id)))
        if line.role == "user" and line.text.startswith(MAIL):
            parts = _MAIL.split(line.text)
            mail += [_Mail(at, sender, text) for sender, text in zip(parts[1::2], parts[2::2], strict=True)]
        if line.role == "user" and line.text.startswith(MAIL_NOTICE):
            notified = at
    return _Turn(lines[0], tuple(calls), tuple(mail), notified)


# The requests in a text


def tasks_in(text: str) -> tuple[str, ...]:
    """Return the distinct tasks that a text clearly delegates, in order."""
    lines = _FENCED.sub("", text[:LONGEST]).splitlines()
    found: list[str] = []
    for number, line in enumerate(lines):
        if lead := _DELEGATE.search(line):
            rest = line[lead.end() :].strip()
            items = _listed(rest, lines[number + 1 :])
            # `delegate: self` is code.
            plain = lead["word"].islower() and len(rest.split()) < 2
            found += items or ([] if plain else [rest])
        elif (lead := _TELL.search(line)) and _HANDED_ON.search(lead[0]) and not _NOT.search(lead[0]):
            verb = lead["verb"]
            items = _listed(line[lead.end() :].strip(), lines[number + 1 :])
            found += [each if verb is None or _VERB.match(each) else f"{verb.lower()} {each}" for each in items]
    return tuple(dict.fromkeys(task for each in found if (task := _bare(each))))


def own_task(words: str, mark: str | None) -> str:
    """Return the task that a parent's text gives to a child forked from `mark`: the task with the number in the mark,
    otherwise the only numbered task, otherwise the whole text."""
    parts = _NUMBERED.split(words)
    numbered = dict(zip(parts[1::2], parts[2::2], strict=True))
    number = re.search(r"([0-9]{1,3})$", mark or "")
    if number and number[1] in numbered:
        return _bare(numbered[number[1]])
    return _bare(next(iter(numbered.values())) if len(numbered) == 1 else words)


def asks_for_report(text: str) -> bool:
    """Return True if a text tells an agent to report by mail."""
    return _ASKS_REPORT.search(text[:LONGEST]) is not None


def asks_for_mail(text: str) -> bool:
    """Return True if a text asks only whether mail has come."""
    return len(text) <= 100 and _ASKS_MAIL.fullmatch(text.strip()) is not None


def _listed(rest: str, below: Sequence[str]) -> list[str]:
    """Return the items of a list after a colon: on the same line, below it, or both. A single item needs a bullet or
    number."""
    if first := _ITEM.match(rest):
        mark = r"\(?\d{1,2}[.)]" if first[2].strip("(.)").isdigit() else re.escape(first[2])
        return [*(each for each in re.split(rf"(?:^|\s+){mark}\s+", rest) if each), *_below(below)]
    if rest and not rest.endswith(":"):
        parts = [part for part in rest.split(";") if part.strip()]
        return parts if len(parts) > 1 else []
    return _below(below)


def _below(lines: Sequence[str]) -> list[str]:
    """Return the items in the lines below; a more deeply indented line belongs to the item above it."""
    found: list[str] = []
    margin = 0
    for line in lines:
        item = _ITEM.match(line)
        if item and (not found or len(item[1]) <= margin):
            margin = len(item[1])
            found.append(item[3])
        elif line.strip() and found and len(line) - len(line.lstrip()) > margin:
            found[-1] += f" {line.strip()}"
        elif line.strip():
            break
    return found


def _bare(text: str) -> str:
    """Return a task on one line, without the rest of its sentence."""
    task = _REPORT.sub("", " ".join(text[: 2 * TASK].split())).strip(" .;,")
    return task.removeprefix("and ")[:TASK].strip()


def report(task: str) -> str:
    """Return the report about a task."""
    if not task:
        return f"{WHO}: I see no task that would be mine."
    return f"{WHO}: I cannot carry out “{cut(task, 200)}”; the task has {count(len(task.split()), 'word')}."
