"""How the offline model hands tasks to children, does what it was forked for, and reads mail [S0, SPEC 6, 9].

Mark, say the task, fork, one task an answer; a child reports by mail, and answers mail of its parent. What is done is
told by the calls of the turn, worked or not: nothing is tried twice, and every turn ends.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from foldmark.core.wording import count, listing
from foldmark.providers.chat_lines import Line
from foldmark.providers.offline_child import Child, child_of, report, typed
from foldmark.providers.offline_planning import Calling
from foldmark.providers.offline_tasks import asks_for_mail, asks_for_report, own_task, tasks_in
from foldmark.providers.offline_turn import TOOL, Mail, Turn, begin_of, turn_of
from foldmark.providers.offline_voice import WHO, cut

MOST = 8
"""Tasks of one text that are handed on."""

QUOTED = 80
"""Characters of a mail that are told."""


class Acting(Struct, frozen=True):
    """An answer that calls: what is said first, empty for nothing, and the calls."""

    calls: tuple[Calling, ...]
    text: str = ""


def delegated(lines: Sequence[Line], system: str, tools: Collection[str]) -> Acting | str | None:
    """The next step in delegation or with mail: calls, or what to say; None where there is none to take."""
    if TOOL not in tools:
        return None
    child = child_of(lines, system)
    begin = begin_of(lines, child)
    if begin == len(lines):
        return None
    turn = turn_of(lines[begin:])
    text = turn.opener.text if typed(turn.opener) else ""
    tasks = tasks_in(text)
    may_hand_on = child is None or _speaks_for_itself(lines[:begin], child)
    task: str | None = None
    if child is not None and begin == child.born:
        task = child.task
    elif child is not None and asks_for_report(text) and not (tasks and may_hand_on):
        task = own_task(text, None)
    if all(used.worked for used in turn.used):
        step = _step(turn, child, tasks[:MOST] if may_hand_on else (), task, asks_for_mail(text))
        if step is not None:
            return step
    if said := _said(turn, child, len(tasks), task):
        return f"{WHO}. {said}"
    if child is not None and tasks:
        return (
            f"{WHO}. I may have that text from agent {child.parent}, whose child I am, so I do not delegate it again."
        )
    return None


def _step(turn: Turn, child: Child | None, tasks: Sequence[str], task: str | None, asked: bool) -> Acting | None:
    """The next call: each for something in the turn that no call before it was for."""
    forked, sent, checked = turn.of("fork"), turn.of("send"), turn.of("check-mail")
    if len(forked) < len(tasks):
        return _hand_on(len(forked) + 1, tasks[len(forked)])
    if child is not None and task is not None and not sent:
        return _slash("send", f"{child.parent} {report(task)}")
    if (asked and not checked) or turn.told > max((each.at for each in checked), default=-1):
        return _slash("check-mail")
    since = max((each.at for each in sent), default=-1)
    if child is not None and (new := [each for each in turn.mail if each.at > since and each.sender == child.parent]):
        words = count(sum(len(each.text.split()) for each in new), "word")
        quoted = listing((f"“{cut(each.text, QUOTED)}”" for each in new), 5)
        return _slash("send", f"{child.parent} {WHO}: I can only say that I got {words}: {quoted}.")
    return None


def _hand_on(number: int, task: str) -> Acting:
    """The child gets the words of the answer that forks it [S0's sub-agent pattern in one answer]."""
    mark = f"TASK_{number}"
    end = "" if task.endswith(("!", "?", "…")) else "."
    return Acting(
        (*_slash("mark", mark).calls, *_slash("fork", mark).calls),
        f"Task {number}: {task}{end} Report by slash send when it is done.",
    )


def _slash(command: str, args: str = "") -> Acting:
    return Acting((Calling(TOOL, {"command": command, "args": args} if args else {"command": command}),))


def _said(turn: Turn, child: Child | None, tasks: int, task: str | None) -> str:
    """What there is to say at the end of a turn of calls and mail; empty for nothing."""
    said = []
    if failed := next((each for each in turn.used if not each.worked), None):
        error = (failed.result and failed.result.error) or "the call has no result"
        said.append(f"That did not work: {cut(error, 300)}.")
    if forked := [each.args for each in turn.of("fork") if each.worked]:
        children = f"{'a child' if len(forked) == 1 else 'children'} ({listing(forked)})"
        number = f"{len(forked)} of {tasks}" if len(forked) < tasks else f"{len(forked)}"
        noun = "task" if max(len(forked), tasks) == 1 else "tasks"
        said.append(f"I delegated {number} {noun} to {children}; ask me again when mail has come, or use /check-mail.")
    if child is not None and (sent := [each for each in turn.of("send") if each.worked]):
        said += [f"I reported to agent {child.parent}."] if task is not None else []
        said += [f"I answered agent {child.parent}."] if len(sent) > (task is not None) else []
    if turn.mail:
        said.append(_told(turn.mail))
    elif any(each.worked for each in turn.of("check-mail")):
        said.append("There is no mail.")
    return " ".join(said)


def _told(mail: Sequence[Mail]) -> str:
    senders = listing(dict.fromkeys(each.sender for each in mail))
    each_begins = "".join(f"\n- {each.sender}: “{cut(each.text, QUOTED)}”" for each in mail)
    return f"{count(len(mail), 'message')} came from {senders}:{each_begins}"


def _speaks_for_itself(before: Sequence[Line], child: Child) -> bool:
    """Whether what comes next was said to this child: it was born before, or has reported already."""
    sent = turn_of(before).of("send") if before else ()
    return child.born is not None or any(each.args.startswith(child.parent) for each in sent)
