"""What a person's text asks the offline model to hand on, to report or to fetch; it goes by a few clear wordings.

`Delegate: research OAuth2; research sessions`, or a sentence that tells to do a list in parallel or by children. The
list has bullets or numbers, below the sentence or behind it, or stands behind it with semicolons.
"""

import re
from collections.abc import Sequence

LONGEST = 10_000
"""Characters of a text that are read."""

TASK = 500
"""Characters of a task."""

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


def tasks_in(text: str) -> tuple[str, ...]:
    """The tasks that a text tells to hand on, in order, each once; none where it does not clearly say so."""
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
    """The task that words of a parent's give a child forked from `mark`: of several numbered ones that of the mark's
    number, else the only one, else all the words."""
    parts = _NUMBERED.split(words)
    numbered = dict(zip(parts[1::2], parts[2::2], strict=True))
    number = re.search(r"([0-9]{1,3})$", mark or "")
    if number and number[1] in numbered:
        return _bare(numbered[number[1]])
    return _bare(next(iter(numbered.values())) if len(numbered) == 1 else words)


def asks_for_report(text: str) -> bool:
    """Whether a text tells an agent to report by mail."""
    return _ASKS_REPORT.search(text[:LONGEST]) is not None


def asks_for_mail(text: str) -> bool:
    """Whether a text asks for nothing else than whether mail has come."""
    return len(text) <= 100 and _ASKS_MAIL.fullmatch(text.strip()) is not None


def _listed(rest: str, below: Sequence[str]) -> list[str]:
    """The items of a list behind a colon: in the same line, below it, or both. One without a mark is no list."""
    if first := _ITEM.match(rest):
        mark = r"\(?\d{1,2}[.)]" if first[2].strip("(.)").isdigit() else re.escape(first[2])
        return [*(each for each in re.split(rf"(?:^|\s+){mark}\s+", rest) if each), *_below(below)]
    if rest and not rest.endswith(":"):
        parts = [part for part in rest.split(";") if part.strip()]
        return parts if len(parts) > 1 else []
    return _below(below)


def _below(lines: Sequence[str]) -> list[str]:
    """The items that stand in the lines below; what is indented deeper belongs to the item above it."""
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
    """A task without what surrounds it in its sentence, on one line."""
    task = _REPORT.sub("", " ".join(text[: 2 * TASK].split())).strip(" .;,")
    return task.removeprefix("and ")[:TASK].strip()
