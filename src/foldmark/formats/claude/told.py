"""Read what Claude Code told its model by itself: attachments, and the output of local commands [SPEC 8]. Pure.

Newer versions store the exact texts of an attachment (`rendered`). For older ones, the texts are made as Claude Code
2.1.197 makes them, which was observed by resuming sessions with it. An attachment whose texts depend on anything beyond
its record (a plan's full instructions, the age of a memory) has none here, and so has an unknown one.

To models that take system messages between the others, Claude Code sends most of them in the role `system`, as its own
instructions, which an import does not read (`is_instruction`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from foldmark.core.patterns import pattern
from foldmark.wires.lenient_json import filled_text, member

Data = dict[str, Any]

REMINDER, _END = "<system-reminder>", "\n</system-reminder>"

INJECTED = pattern(
    r"\s*<(system-reminder|local-command-(caveat|stdout|stderr)|command-(name|message|args)|bash-(input|stdout|stderr))>"
)
"""Matches the beginning of a user's text that Claude Code itself wrote."""


def is_injected(text: str) -> bool:
    """Return True for a user's text that Claude Code itself wrote."""
    return INJECTED.match(text) is not None


_ROLE = "renderedRole"
_KEPT = ("attachment", "rendered", _ROLE)
_PART = "text_part"
"""Stands for a part of the text: its first character and its length."""

_SHORT = 24
"""The number of characters from which a text is such a part."""

LOCAL_COMMAND = "local_command"
"""The subtype of a system record with a command that Claude Code carried out by itself, or its output."""


def told(record: Data) -> list[str] | None:
    """Return the texts that an attachment or a local command told the model; None if they are not known."""
    if record.get("type") == "system":
        text = filled_text(record.get("content")) if record.get("subtype") == LOCAL_COMMAND else None
        return [text] if text and text.strip() and record.get("isDisplayOnly") is not True else None
    attached = record.get("attachment")
    if not isinstance(attached, dict):
        return None
    if "rendered" in record:
        return _rendered(record["rendered"])
    kind = filled_text(attached.get("type"))
    if kind not in _TEXTS:
        return None
    try:
        texts = list(_TEXTS[kind](attached))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return [f"{REMINDER}\n{text}{_END}" for text in texts]


_NO_SYSTEM = pattern(r"claude-(3-|opus-4-[0-7]\b|(opus|sonnet|haiku)-4-\d{8}|sonnet-4-|haiku-4-)")
"""Models that take no system messages between the others."""


def is_instruction(about: Any, model: str | None) -> bool:
    """Return True if Claude Code sends the text of an attachment to this model in the role `system`; `about` is what
    `kept` returned. A `model` of None is not known, and takes none."""
    takes = model is not None and model.startswith("claude-") and not _NO_SYSTEM.match(model)
    return takes and isinstance(about, dict) and about.get(_ROLE) != "user"


def kept(record: Data, texts: Sequence[str]) -> Data:
    """Return an attachment with one text, without the parts of that text, for an export; of any other only its role."""
    role = {_ROLE: record[_ROLE]} if record.get(_ROLE) in ("user", "system") else {}
    try:
        return {name: _packed(record[name], texts[0]) for name in _KEPT if name in record} if len(texts) == 1 else role
    except ValueError:
        return role


def told_again(about: Any, text: str) -> Data | None:
    """Return the members of an attachment's record that tells the model this text; None if there is none. `about` is
    what `kept` returned."""
    if not isinstance(about, dict):
        return None
    try:
        found = {name: _unpacked(value, text) for name, value in about.items() if name in _KEPT}
    except ValueError:
        found = {}
    if isinstance(found.get("attachment"), dict):
        return found
    inside = text.removeprefix(f"{REMINDER}\n").removesuffix(_END)
    if len(inside) != len(text) - len(REMINDER) - 1 - len(_END):
        return None
    attached = {"type": "critical_system_reminder", "content": inside}
    return {"attachment": attached, "rendered": [{"content": text}], _ROLE: "user"}


def _packed(value: Any, text: str) -> Any:
    match value:
        case str() if len(value) >= _SHORT and (begin := text.find(value)) >= 0:
            return {_PART: [begin, len(value)]}
        case dict():
            if _PART in value:
                raise ValueError
            return {name: _packed(each, text) for name, each in value.items()}
        case list():
            return [_packed(each, text) for each in value]
        case _:
            return value


def _unpacked(value: Any, text: str) -> Any:
    match value:
        case {"text_part": [int() as begin, int() as length]}:
            if not 0 <= begin <= begin + length <= len(text):
                raise ValueError("the text of an attachment has changed")
            return text[begin : begin + length]
        case {"text_part": _}:
            raise ValueError("a part of a text is not named by its place and length")
        case dict():
            return {name: _unpacked(each, text) for name, each in value.items()}
        case list():
            return [_unpacked(each, text) for each in value]
        case _:
            return value


def _rendered(messages: Any) -> list[str] | None:
    found: list[str] = []
    for message in messages if isinstance(messages, list) else [None]:
        content = member(message, "content")
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            text = filled_text(member(block, "text")) if member(block, "type") == "text" else None
            if text is None:
                return None
            found.append(text)
    return found


def _is(value: Any, kind: type) -> Any:
    """Return a value of this type. Raises TypeError."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError
    return value


def _text(attached: Data, *names: str) -> str:
    return str(_is(member(attached, *names), str))


def _number(attached: Data, *names: str) -> int:
    return int(_is(member(attached, *names), int))


def _list(attached: Data, name: str, kind: type = str) -> list[Any]:
    return [_is(each, kind) for each in _is(attached.get(name) or [], list)]


def _is_true(attached: Data, name: str) -> bool:
    return attached.get(name) is True


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _bytes(number: int) -> str:
    """Return a size as Claude Code writes it, such as 1.2MB."""
    value = number / 1024
    if value < 1:
        return f"{number} bytes"
    unit = next(unit for unit in ("KB", "MB", "GB") if value < 1024 or unit == "GB" or not (value := value / 1024))
    return f"{value:.1f}".removesuffix(".0") + unit


def _shortened(text: str) -> str:
    return text if len(text) <= _SELECTED else f"{text[:_SELECTED]}\n... (truncated)"


def _edited(attached: Data) -> Iterator[str]:
    snippet = _text(attached, "snippet")
    note = (
        f"Note: {_text(attached, 'filename')} was modified, either by the user or by a linter. This change was "
        "intentional, so make sure to take it into account as you proceed (ie. don't revert it unless the user asks you "
        "to). Don't tell the user this, since they are already aware. "
    )
    if snippet:
        yield f"{note}Here are the relevant changes (shown with line numbers):\n{snippet}"
    else:
        yield (
            f"{note}The diff was omitted because other modified files in this turn already exceeded the snippet budget; "
            "use the Read tool if you need the current content."
        )


def _called(tool: str, arguments: Data, output: str) -> Iterator[str]:
    yield f"Called the {tool} tool with the following input: {_json(arguments)}"
    yield f"Result of calling the {tool} tool:\n{output}"


def _directory(attached: Data) -> Iterator[str]:
    path = _text(attached, "path")
    if not re.fullmatch(r"[\w@%+=:,./-]+", path, re.ASCII):
        raise ValueError  # the client quotes it for a shell
    arguments = {"command": f"ls {path}", "description": f"Lists files in {path}"}
    yield from _called("Bash", arguments, _text(attached, "content"))


def _file(attached: Data) -> Iterator[str]:
    name, file = _text(attached, "filename"), _is(member(attached, "content", "file"), dict)
    if member(attached, "content", "type") != "text":
        raise ValueError
    content, first = _text(file, "content"), _number(file, "startLine") if "startLine" in file else 1
    if content:
        lines = enumerate(re.split(r"\r?\n", content), first)
        output = "\n".join(f"{number}\t{line}" for number, line in lines)
    elif _number(file, "totalLines") == 0:
        output = f"{REMINDER}Warning: the file exists but the contents are empty.</system-reminder>"
    else:
        raise ValueError
    yield from _called("Read", {"file_path": name}, output)
    if _is_true(attached, "truncated"):
        yield (
            f"Note: The file {name} was too large and has been truncated to the first 2000 lines. Don't tell the user "
            "about this truncation. Use Read to read more of the file if you need."
        )


def _pdf(attached: Data) -> Iterator[str]:
    pages, size = _number(attached, "pageCount"), _bytes(_number(attached, "fileSize"))
    yield (
        f"PDF file: {_text(attached, 'filename')} ({pages} pages, {size}). This PDF is too large to read all at once. "
        'You MUST use the Read tool with the pages parameter to read specific page ranges (e.g., pages: "1-5"). Do NOT '
        "call Read without the pages parameter or it will fail. Start by reading the first few pages to understand the "
        "structure, then read more as needed. Maximum 20 pages per request."
    )


def _selected(attached: Data) -> Iterator[str]:
    lines = f"{_number(attached, 'lineStart')} to {_number(attached, 'lineEnd')}"
    where = f"The user selected the lines {lines} from {_text(attached, 'filename')}"
    yield f"{where}:\n{_shortened(_text(attached, 'content'))}\n\n{_UNRELATED}"


def _selected_in_diff(attached: Data) -> Iterator[str]:
    number = _number(attached, "lineCount")
    where = f"The user selected the following {number} {'line' if number == 1 else 'lines'} from the diff view"
    yield f"{where}:\n{_shortened(_text(attached, 'content'))}\n\n{_UNRELATED}"


def _skills(attached: Data) -> Iterator[str]:
    if content := _text(attached, "content"):
        yield f"The following skills are available for use with the Skill tool:\n\n{content}"


def _style(attached: Data) -> Iterator[str]:
    if _text(attached, "style") not in ("Explanatory", "Learning"):
        raise ValueError
    reminder = attached.get("turnReminder", "Remember to follow the specific guidelines for this style.")
    yield f"{attached['style']} output style is active. {_is(reminder, str)}"


def _plan_left(attached: Data) -> Iterator[str]:
    where = f" The plan file is located at {_text(attached, 'planFilePath')} if you need to reference it."
    left = "## Exited Plan Mode\n\nYou have exited plan mode. You can now make edits, run tools, and take actions."
    yield left + (where if attached.get("planExists") else "")


def _plan_mode(attached: Data) -> Iterator[str]:
    if attached.get("reminderType") != "sparse" or attached.get("isSubAgent"):
        raise ValueError  # the full text depends on settings
    yield (
        "Plan mode still active (see full instructions earlier in conversation). Read-only except plan file "
        f"({_text(attached, 'planFilePath')}). Follow 5-phase workflow. End turns with AskUserQuestion (for "
        "clarifications) or ExitPlanMode (for plan approval). Never ask about plan approval via text or AskUserQuestion."
    )


def _hook_context(attached: Data) -> Iterator[str]:
    if content := _list(attached, "content"):
        yield f"{_text(attached, 'hookName')} hook additional context: " + "\n".join(content)


def _hook_output(attached: Data) -> Iterator[str]:
    events = ("SessionStart", "UserPromptSubmit", "UserPromptExpansion")
    if attached.get("hookEvent") in events and (content := _text(attached, "content")):
        yield f"{_text(attached, 'hookName')} hook success: {content}"


def _hook_answer(attached: Data) -> Iterator[str]:
    texts = (member(attached, "response", "systemMessage"), member(attached, *_HOOK_ADDS))
    yield from (_is(text, str) for text in texts if text)


def _skills_invoked(attached: Data) -> Iterator[str]:
    skills = _list(attached, "skills", dict)
    named = (f"### Skill: {_text(s, 'name')}\nPath: {_text(s, 'path')}\n\n{_text(s, 'content')}" for s in skills)
    if skills:
        yield (
            "The following skills were invoked EARLIER in this session (before the conversation was compacted), not on "
            "the current turn. They are shown here for context only so you remain aware of their guidelines.\n\n"
            "IMPORTANT: Do NOT re-execute these skills or perform their one-time setup actions (e.g., scheduling, "
            'creating files) again. The "## Input" sections below reflect the original arguments from when each skill '
            "was first invoked — they are NOT the user's current message. Only continue to apply ongoing behavioral "
            "guidelines from these skills where still relevant.\n\n" + "\n\n---\n\n".join(named)
        )


def _todos(attached: Data) -> Iterator[str]:
    items = enumerate(_list(attached, "content", dict), 1)
    listed = "\n".join(f"{at}. [{_text(each, 'status')}] {_text(each, 'content')}" for at, each in items)
    yield (
        "The TodoWrite tool hasn't been used recently. If you're working on tasks that would benefit from tracking "
        "progress, consider using the TodoWrite tool to track progress. Also consider cleaning up the todo list if has "
        "become stale and no longer matches what you are working on. Only use it if it's relevant to the current work. "
        "This is just a gentle reminder - ignore if not applicable.\n"
    ) + (f"\n\nHere are the existing contents of your todo list:\n\n[{listed}]" if listed else "")


def _tasks(attached: Data) -> Iterator[str]:
    items = _list(attached, "content", dict)
    listed = "\n".join(f"#{_text(each, 'id')}. [{_text(each, 'status')}] {_text(each, 'subject')}" for each in items)
    yield (
        "The task tools haven't been used recently. If you're working on tasks that would benefit from tracking "
        "progress, consider using TaskCreate to add new tasks and TaskUpdate to update task status (set to in_progress "
        "when starting, completed when done). Also consider cleaning up the task list if it has become stale. Only use "
        "these if relevant to the current work. This is just a gentle reminder - ignore if not applicable.\n"
    ) + (f"\n\nHere are the existing tasks:\n\n{listed}" if listed else "")


def _memories(attached: Data) -> Iterator[str]:
    for at, memory in enumerate(_list(attached, "memories", dict)):
        first = "Retrieved for possible relevance — use only if it actually applies to what the user asked.\n\n"
        yield f"{'' if at else first}{_text(memory, 'header')}\n\n{_text(memory, 'content')}"


def _diagnostics(attached: Data) -> Iterator[str]:
    files = []
    for file in _list(attached, "files", dict):
        lines = [f"{_text(file, 'uri').rpartition('/')[2]}:"]
        for each in _list(file, "diagnostics", dict):
            start = (_number(each, "range", "start", name) + 1 for name in ("line", "character"))
            code = f" [{each['code']}]" if each.get("code") else ""
            source = f" ({each['source']})" if each.get("source") else ""
            sign = _SEVERITIES[_text(each, "severity")]
            lines.append(f"  {sign} [Line {':'.join(map(str, start))}] {_text(each, 'message')}{code}{source}")
        files.append("\n".join(lines))
    found = "\n\n".join(files)
    if len(found) > _DIAGNOSTICS:
        raise ValueError  # the client shortens them
    if files:
        yield f"<new-diagnostics>The following new diagnostic issues were detected:\n\n{found}</new-diagnostics>"


def _resource(attached: Data) -> Iterator[str]:
    where = f'<mcp-resource server="{_text(attached, "server")}" uri="{_text(attached, "uri")}">'
    contents = member(attached, "content", "contents")
    if not contents:
        yield f"{where}(No content)</mcp-resource>"
        return
    for each in _is(contents, list):
        yield "Full contents of resource:"
        yield _is(member(each, "text"), str)
        yield "Do NOT read this resource again unless you think it may have changed, since you already have the full contents."


def _task(attached: Data) -> Iterator[str]:
    status, id, about = (_text(attached, name) for name in ("status", "taskId", "description"))
    file, news = attached.get("outputFilePath"), attached.get("deltaSummary")
    if status == "killed":
        yield f'Task "{about}" ({id}) was stopped by the user.'
    elif status == "running":
        read = (
            f"You can read partial output at {file}" if file else "You can check its progress with the TaskOutput tool"
        )
        parts = [f'Background agent "{about}" ({id}) is still running.', *([f"Progress: {news}"] if news else [])]
        parts.append(
            f"Do NOT spawn a duplicate. You will be notified when it completes. {read} or send it a message with"
        )
        yield " ".join((*parts, "SendMessage."))
    elif file:
        kind = _text(attached, "taskType")
        parts = [f"Task {id}", f"(type: {kind})", f"(status: {status})", f"(description: {about})"]
        parts += [f"Delta: {news}"] if news else []
        yield " ".join((*parts, f"Read the output file to retrieve the result: {file}"))
    else:
        raise ValueError


def _agents(attached: Data) -> Iterator[str]:
    added, gone, first = _list(attached, "addedLines"), _list(attached, "removedTypes"), _is_true(attached, "isInitial")
    parts = []
    if added:
        begin = "Available agent types for" if first else "New agent types are now available for"
        parts.append("\n".join((f"{begin} the Agent tool:", *added)))
    if gone:
        parts.append("\n".join(("The following agent types are no longer available:", *(f"- {each}" for each in gone))))
        parts.append(_AMBIENT)
    if first and attached.get("showConcurrencyNote"):
        parts.append(
            "When you launch multiple agents for independent work, send them in a single message with multiple tool uses "
            "so they run concurrently."
        )
    yield from ["\n\n".join(parts)] if parts else []


def _servers(attached: Data) -> Iterator[str]:
    added, gone = _list(attached, "addedBlocks"), _list(attached, "removedNames")
    parts = []
    if added:
        parts += [
            "# MCP Server Instructions",
            "The following MCP servers have provided instructions for how to use their tools and resources:",
            *added,
        ]
    if gone:
        first = "The following MCP servers have disconnected. Their instructions above no longer apply:"
        parts += ["\n".join((first, *gone)), _AMBIENT]
    yield from ["\n\n".join(parts)] if parts else []


def _tools(attached: Data) -> Iterator[str]:
    added, gone, again = (_list(attached, name) for name in ("addedLines", "removedNames", "readdedNames"))
    if attached.get("needsAuthMcpServers") or attached.get("pendingMcpServers") or max(len(gone), len(again)) > _FEW:
        raise ValueError  # their texts depend on more than this record
    parts = []
    if added:
        first = (
            "The following deferred tools are now available via ToolSearch. Their schemas are NOT loaded — calling them "
            'directly will fail with InputValidationError. Use ToolSearch with query "select:<name>[,<name>...]" to load '
            "tool schemas before calling them:"
        )
        parts.append("\n".join((first, *added)))
    if again:
        number = f"{len(again)} deferred {'tool is' if len(again) == 1 else 'tools are'}"
        parts.append(
            f"{number} available again (MCP server reconnected — names announced earlier in this conversation): "
            f"{', '.join(again)}. Load via ToolSearch as before."
        )
    if gone:
        first = (
            "The following deferred tools are no longer available (their MCP server disconnected). Do not search for "
            "them — ToolSearch will return no match:"
        )
        parts += ["\n".join((first, *gone)), _AMBIENT]
    yield from ["\n\n".join(parts)] if parts else []


def _output_tokens(attached: Data) -> Iterator[str]:
    turn, budget = _thousands(_number(attached, "turn")), attached.get("budget")
    spent = turn if budget is None else f"{turn} / {_thousands(_number(attached, 'budget'))}"
    yield f"Output tokens — turn: {spent} · session: {_thousands(_number(attached, 'session'))}"


def _thousands(number: int) -> str:
    if number >= 1_000_000:
        raise ValueError
    return str(number) if number < 1000 else f"{number / 1000:.1f}k"


def _memory(attached: Data) -> Iterator[str]:
    if attached.get("source") != "dream":
        raise ValueError
    lines = [f"Background memory consolidation updated your memory directory: {_text(attached, 'summary')}"]
    if paths := _list(attached, "paths"):
        lines.append(f"Files changed: {', '.join(paths)}")
    if stale := _list(attached, "inContextPaths"):
        files = ", ".join(stale)
        lines.append(
            f"Your loaded copy of {files} is now stale relative to disk — Read it again if you need current contents."
        )
    yield "\n".join((*lines, _AMBIENT))


def _ultra(attached: Data) -> Iterator[str]:
    yield (
        "Ultracode is on: optimize for the most exhaustive, correct answer — not the fastest or cheapest. Use the "
        "Workflow tool on every substantive task; token cost is not a constraint. See the Workflow tool's **Ultracode** "
        "section and quality patterns. Solo only on conversational/trivial turns."
        if attached.get("reminderType") == "full"
        else "Ultracode is still on — use the Workflow tool; see its Ultracode section."
    )


_SELECTED = 2000
"""The number of characters of a selection that are sent."""

_DIAGNOSTICS = 4000
"""The number of characters of diagnostics that are sent whole."""

_FEW = 30
"""The number of names that are listed whole."""

_UNRELATED = "This may or may not be related to the current task."
_AMBIENT = "This is ambient context — do not narrate it to the user unless they ask or it is directly relevant to their request."
_HOOK_ADDS = ("response", "hookSpecificOutput", "additionalContext")
_SEVERITIES = {"Error": "✘", "Warning": "⚠", "Info": "ℹ", "Hint": "★"}


def _filled(template: str) -> Callable[[Data], Iterator[str]]:
    """Return the maker of a text that holds members of the attachment, with `/` between a member and its own member."""
    parts = re.split(r"\{([\w/]+)\}", template)

    def made(attached: Data) -> Iterator[str]:
        values = (member(attached, *name.split("/")) for name in parts[1::2])
        texts = [value if isinstance(value, str) else _json(_is(value, (int, float))) for value in values]  # type: ignore[arg-type]
        yield "".join(text for pair in zip(parts[::2], [*texts, ""], strict=True) for text in pair)

    return made


_TEXTS: dict[str, Callable[[Data], Iterator[str]]] = {
    "directory": _directory,
    "edited_text_file": _edited,
    "file": _file,
    "compact_file_reference": _filled(
        "Note: {filename} was read before the last conversation was summarized, but the contents are too large to "
        "include. Use Read tool if you need to access it."
    ),
    "pdf_reference": _pdf,
    "selected_lines_in_ide": _selected,
    "selected_lines_in_diff": _selected_in_diff,
    "opened_file_in_ide": _filled(f"The user opened the file {{filename}} in the IDE. {_UNRELATED}"),
    "plan_file_reference": _filled(
        "A plan file exists from plan mode at: {planFilePath}\n\nPlan contents:\n\n{planContent}\n\nIf this plan is "
        "relevant to the current work and not already complete, continue working on it."
    ),
    "nested_memory": _filled("Contents of {content/path}:\n\n{content/content}"),
    "agent_mention": _filled(
        'The user has expressed a desire to invoke the agent "{agentType}". Please invoke the agent appropriately, '
        "passing in the required context to it. "
    ),
    "skill_listing": _skills,
    "output_style": _style,
    "critical_system_reminder": _filled("{content}"),
    "plan_mode": _plan_mode,
    "plan_mode_exit": _plan_left,
    "plan_mode_reentry": _filled(
        "## Re-entering Plan Mode\n\nYou are returning to plan mode after having previously exited it. A plan file exists "
        "at {planFilePath} from your previous planning session.\n\n**Before proceeding with any new planning, you "
        "should:**\n1. Read the existing plan file to understand what was previously planned\n2. Evaluate the user's "
        "current request against that plan\n3. Decide how to proceed:\n   - **Different task**: If the user's request is "
        "for a different task—even if it's similar or related—start fresh by overwriting the existing plan\n   - **Same "
        "task, continuing**: If this is explicitly a continuation or refinement of the exact same task, modify the "
        "existing plan while cleaning up outdated or irrelevant sections\n4. Continue on with the plan process and most "
        "importantly you should always edit the plan file one way or the other before calling ExitPlanMode\n\nTreat this "
        "as a fresh planning session. Do not assume the existing plan is relevant without evaluating it first."
    ),
    "auto_mode_exit": _filled(
        "## Exited Auto Mode\n\nYou have exited auto mode. The user may now want to interact more directly. You should "
        "ask clarifying questions when the approach is ambiguous rather than making assumptions."
    ),
    "token_usage": _filled("Token usage: {used}/{total}; {remaining} remaining"),
    "total_tokens_reminder": _filled("{text}"),
    "budget_usd": _filled("USD budget: ${used}/${total}; ${remaining} remaining"),
    "output_token_usage": _output_tokens,
    "memory_update": _memory,
    "hook_blocking_error": _filled(
        '{hookName} hook blocking error from command: "{blockingError/command}": {blockingError/blockingError}'
    ),
    "hook_additional_context": _hook_context,
    "hook_stopped_continuation": _filled("{hookName} hook stopped continuation: {message}"),
    "hook_success": _hook_output,
    "async_hook_response": _hook_answer,
    "date_change": _filled(
        "The date has changed. Today's date is now {newDate}. DO NOT mention this to the user explicitly because they "
        "are already aware."
    ),
    "ultrathink_effort": _filled(
        'The user included the keyword "ultrathink", requesting deeper reasoning on this turn. Reason as thoroughly as '
        "the task warrants."
    ),
    "workflow_keyword_request": _filled(
        'The user included the keyword "ultracode", opting this turn into multi-agent orchestration — use the Workflow '
        "tool to fulfill the request."
    ),
    "ultra_effort_enter": _ultra,
    "ultra_effort_exit": _filled("Ultracode is off — the Workflow tool's standard opt-in rule applies again."),
    "invoked_skills": _skills_invoked,
    "todo_reminder": _todos,
    "task_reminder": _tasks,
    "relevant_memories": _memories,
    "diagnostics": _diagnostics,
    "auto_mode": _filled(
        "## Auto Mode Active\n\nBias toward working without stopping for clarifying questions — when you'd normally "
        "pause to check, make the reasonable call and keep going; they'll redirect you if needed. If the user, a skill, "
        "or the shape of the task suggests they want you to ask (with AskUserQuestion or otherwise), do so. And even "
        "absent that signal, it's still fine to stop when you're genuinely blocked — unclear direction, missing input, a "
        "decision only they can make."
    ),
    "mcp_resource": _resource,
    "task_status": _task,
    "deferred_tools_delta": _tools,
    "agent_listing_delta": _agents,
    "mcp_instructions_delta": _servers,
    **dict.fromkeys(
        ("command_permissions", "already_read_file", "edited_image_file", "hook_cancelled", "hook_system_message"),
        lambda _: iter(()),
    ),
}
"""Makers of the texts of an attachment, by its type. They raise KeyError, TypeError, ValueError or AttributeError for
an attachment that is not as Claude Code writes it, or whose texts are not known."""
