"""Settings of one agent: `/context window | budget`, `/config`, `/model`, `/system` [SPEC 4, 10]."""

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from foldmark.commands.registry import PREVIEW, CommandCall, command
from foldmark.core import selections
from foldmark.core.config import KEYS, KINDS, check_together, checked, key_of
from foldmark.core.errors import CommandError
from foldmark.core.request import Request
from foldmark.core.segments import END
from foldmark.core.wording import count, listing
from foldmark.log import Agent, Result, family
from foldmark.log.live_session import client_session
from foldmark.operations.changes import (
    CHANGE_KINDS,
    CONSENT,
    SCRATCHPAD,
    change_with,
    changes,
    typed,
    values_without,
)
from foldmark.operations.effects import EditText
from foldmark.operations.receipts import ChangedSettings, ThinkingChange, request_change
from foldmark.request.standing import Standing
from foldmark.settings.access import obstacle


def changed(
    call: CommandCall, agent: Agent, values: Mapping[str, Any], *, restores: int | None = None
) -> ChangedSettings:
    """Change an agent's own settings, or its scratchpad, with one event, and return the receipt."""
    is_live = client_session(agent) is not None  # its client makes the requests
    at = agent.standing()
    event_id = agent.change(values, actor=call.actor, restores=restores, reason=call.reason)
    kind = SCRATCHPAD if SCRATCHPAD in values else "config"
    with agent.reading() as (moment, there):
        found = None if is_live else request_change(moment, lambda place: agent.next_request(at=place), at, there)
    return ChangedSettings(event_id, kind, call.actor, found, call.reason)


def take_back(call: CommandCall, target: int) -> Result | None:
    """Take back a change of settings or of the scratchpad, or preview that; None if event `target` is none of this
    agent. Raises CommandError for a change that was taken back already."""
    agent = call.agent
    with agent.reading() as (moment, at):
        event = selections.event(moment, target) if target < END else None
        if event is None or event.kind not in CHANGE_KINDS or event.agent_id != agent.id:
            return None
        found = changes(moment, at)
        change = change_with(found, target)
        if change is None:
            return None
        if change.by is not None:
            again = f"`/restore {change.by}` brings it back into force"
            raise CommandError(f"operation {target} was already taken back; {again}")
        values = values_without(found, target)
    set_then = {key: value for key, value in {**at.settings, **values}.items() if value is not UNSET}
    if SCRATCHPAD not in values:
        check_together(at.given.config(set_then))
    now = ", ".join(_counting(at, set_then, name, value) for name, value in values.items())
    if call.flag(PREVIEW):
        own = {"preview": True, "target": target, "values": _recorded(values)}
        text = f"Preview: restore of operation {target} ({change.words}). Nothing was changed."
        return Result(f"{text}\n  then {now}", None, own)
    done = changed(call, agent, values, restores=target)
    own = {"target": target, "values": _recorded(values)}
    return Result(f"Operation {target} taken back: {now}.", done.event_id, own, effect=done)


def _recorded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON; None for one that is no longer set."""
    return {name: None if value is UNSET else value for name, value in values.items()}


def _counting(at: Standing, settings: Mapping[str, Any], name: str, value: Any) -> str:
    """Return in a few words what counts with these settings; `value` is that of the agent itself."""
    if name in _TEXTS:
        return f"{_TEXTS[name]} is {'as before' if value and value is not UNSET else 'empty'}"
    if value is not UNSET:
        return f"{name} = {typed(value)}"
    if name not in KEYS:
        return f"{name} is not set"
    source = at.given.source(name, settings, at.inherited)
    return f"{name} = {typed(getattr(at.given.config(settings), name))} ({source})"


_TEXTS = {SCRATCHPAD: "the scratchpad", "system": "the system prompt"}
"""The values that are texts, and are not shown where they change."""


def _set(call: CommandCall, values: Mapping[str, Any], text: str) -> Result:
    """Set some of the agent's own settings, and return the receipt. If nothing changes, say so and record nothing."""
    agent, at = call.agent, call.agent.standing()
    is_same = all(_has(at, key, value) for key, value in values.items())
    done = None if is_same else changed(call, agent, values)
    text = unchanged(values) if done is None else text
    event_id = None if done is None else done.event_id
    own: dict[str, Any] = {"event": event_id}
    if "model" in values and (why := obstacle(values["model"], os.environ, at.given)):
        text, own["obstacle"] = f"{text}\n  It cannot be asked yet. {why}", why
    return _described(at, values, Result(text, event_id, own, effect=done))


def unchanged(values: Mapping[str, Any]) -> str:
    """Return the answer to a change that sets values which the agent has already."""
    texts = [
        f"{_TEXTS[name]} {'has this text' if value else 'is empty'}" for name, value in values.items() if name in _TEXTS
    ]
    rest = [f"{name} = {typed(value)}" for name, value in values.items() if name not in _TEXTS]
    return f"Nothing was changed: {', '.join([*rest, *texts])} already."


def _has(at: Standing, key: str, value: Any) -> bool:
    """Return True if this agent has this value already; a default may still be set for it."""
    return at.settings.get(key, UNSET) == value or (key == "system" and not value and not at.config.system)


def _described(at: Standing, values: Mapping[str, Any], result: Result) -> Result:
    """Complete the result of a change with its settings as JSON, and with what overrides them."""
    rows, lines = [], [result.text]
    for key, value in values.items():
        row = {"key": key, "value": value, **result.own}
        if (over := at.given.overrides.get(key)) is not None:
            shown = typed(over.value)
            now = f"{key} = {shown}" if "\n" not in shown else f"another {key}"
            lines = [] if len(values) == 1 else lines
            lines.append(f"Kept for this agent, but {over.source} overrides it: {now}")
            row["overridden"] = {"value": over.value, "source": over.source}
        rows.append(row)
    own = rows[0] if len(rows) == 1 else {**result.own, "settings": rows}
    return replace(result, text="\n".join(lines), own=own)


def _consent(call: CommandCall, value: Any, text: str) -> Result:
    """Record a person's consent, which belongs to the whole conversation and changes no request."""
    agent, key = _owner(call.agent, CONSENT), CONSENT
    at = agent.standing()
    if agent != call.agent:
        agent.context()
        text = f"{text} (for {family.label(agent)}, which this agent belongs to)"
    event_id = agent.configure(key, value, actor=call.actor)
    return _described(at, {key: value}, Result(text, None, {"event": event_id}))


def _owner(agent: Agent, key: str) -> Agent:
    """Return the agent that owns a setting: `tool_approval` belongs to the whole conversation."""
    return family.root(agent) if key == CONSENT else agent


@command("context window N")
def _window(call: CommandCall) -> Result:
    """Send at most the newest N turns; 0 sends all."""
    turns = KINDS["context_size"]._replace(example="20").value("N", call.arguments["N"])
    text = f"The request holds the newest {count(turns, 'turn')}." if turns else "The request holds all turns that fit."
    return _set(call, {"context_size": turns}, text)


@command("context budget TOKENS")
def _budget(call: CommandCall) -> Result:
    """Send as many turns as fit TOKENS; 0 means no limit."""
    tokens = KINDS["sliding_context_tokens"].value("TOKENS", call.arguments["TOKENS"])
    text = f"The request holds up to {tokens:,} tokens." if tokens else "The request has no budget."
    return _set(call, {"sliding_context_tokens": tokens}, text)


@command("config get [KEY]", at_once=True)
def _get(call: CommandCall) -> Result:
    """Show this agent's settings, or one, and where each comes from."""
    keys = KEYS if call.get("KEY") is None else (key_of(call.arguments["KEY"]),)
    owners = {key: _owner(call.agent, key) for key in keys}
    with call.agent.log.store.read():
        standing = {owner: owner.standing() for owner in set(owners.values())}
    values = {key: getattr(standing[owner].config, key) for key, owner in owners.items()}
    sources = {key: _source(standing[owner], key) for key, owner in owners.items()}
    for key, owner in owners.items():
        if owner != call.agent and sources[key] == "this agent":
            sources[key] = family.label(owner)
    shown = {key: f"{key} = {typed(value)}".rstrip() for key, value in values.items()}
    text = "\n".join(f"{line} ({sources[key]})" for key, line in shown.items())
    return Result(text, None, {"settings": values, "sources": sources})


def _source(at: Standing, key: str) -> str:
    return at.given.source(key, at.counting, at.inherited)


@command("config set KEY=VALUE...")
def _set_any(call: CommandCall) -> Result:
    """Change a setting of this agent, or several KEY=VALUE pairs."""
    text = call.arguments["KEY=VALUE"]
    pairs = words if len(words := text.split()) > 1 and all(map(_is_pair, words)) else [text]
    # Check all pairs before the first is recorded.
    found = {key: (value, line) for key, value, line in (_checked(call, *_pair(pair)) for pair in pairs)}
    values = {key: value for key, (value, _) in found.items()}
    if values.keys() & {"provider_compaction", "provider_editing"}:
        check_together(replace(call.agent.standing().config, **values))
    results = [_consent(call, values.pop(CONSENT), found[CONSENT][1])] if CONSENT in values else []
    if values:
        results.append(_set(call, values, "\n".join(found[key][1] for key in values)))
    if len(results) == 1:
        return results[0]
    consent, rest = results
    rows = rest.own.get("settings") or [rest.own]
    return replace(rest, text=f"{consent.text}\n{rest.text}", own={"settings": [consent.own, *rows]})


def _is_pair(word: str) -> bool:
    """Return True if a word is KEY=VALUE and KEY is a setting."""
    name, equals, _ = word.partition("=")
    try:
        return bool(equals) and bool(key_of(name))
    except CommandError:
        return False


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        words = text.split()
        hint = f"did you mean {words[0]}={words[1]}?" if len(words) == 2 and _is_pair("=".join(words)) else ""
        hint = hint or "usage: /config set KEY=VALUE. `/config get` lists the keys"
        raise CommandError(f"'{name[:40]}' has no '='; {hint}")
    return key_of(name.strip()), value.strip()


def _checked(call: CommandCall, key: str, value: str) -> tuple[str, Any, str]:
    """Return a setting's key, its checked value and the line that reports it. Raises CommandError for an invalid
    value."""
    if key == "model":
        call.agent.log.check_model(value)
    there: list[str] = []
    unknown: list[str] = []
    if key == "tools" and value not in ("all", "none"):
        there = [spec.name for spec in call.agent.log.tools()]
        unknown = [name for name in checked(key, value).split(", ") if name not in there]
    remark = f" ({listing(unknown)}: not available now; available: {listing(there, 40)})" if unknown else ""
    return key, checked(key, value), f"{key} = {value}{remark}"


@command("model [NAME] [--preview]")
def _model(call: CommandCall) -> Result:
    """Show or change the model, and say which messages the new one is not sent."""
    agent = call.agent
    if call.get("NAME") is None:
        at = agent.standing()
        name, source = at.config.model, at.given.source("model", at.settings, at.inherited)
        return Result(f"Model: {name} ({source})", None, {"model": name, "source": source})
    name = call.arguments["NAME"]
    agent.log.check_model(name)
    now = _next_request(agent)
    if call.flag(PREVIEW):
        return _previewed(agent, name, now)
    result = _set(call, {"model": name}, f"Model: {name}")
    then = _next_request(agent)
    lines, data = ([], {}) if now is None or then is None else _change_of_request(agent, now, then)
    return replace(result, text="\n".join([result.text, *lines]), own={**result.own, **data})


def _previewed(agent: Agent, name: str, now: Request | None) -> Result:
    """Return what a change of the model would do."""
    with agent.reading() as (moment, at):
        there = at.with_setting("model", name)
        found = request_change(moment, lambda place: agent.next_request(at=place), at, there)
        thoughts, then = (ThinkingChange(), None) if found is None else (found.thoughts, found.after)
    lines, data = ([], {}) if now is None or then is None else _change_of_request(agent, now, then, always=True)
    why = obstacle(name, os.environ, agent.log.given)
    lines = [
        f"Preview: model {name}. Nothing was changed.",
        *([f"  It cannot be asked yet. {why}"] if why else []),
        *lines,
        *(f"  {each}" for each in thoughts.lines(would=True)),
    ]
    return Result("\n".join(lines), None, {"preview": True, "model": name, **data, **thoughts.data()})


def _next_request(agent: Agent, at: Standing | None = None) -> Request | None:
    """Return the next request, by default of the current standing; None if it cannot be made, which the next turn
    reports."""
    try:
        return agent.next_request(at=at)
    except CommandError:
        return None


def _change_of_request(
    agent: Agent, now: Request, then: Request, *, always: bool = False
) -> tuple[list[str], dict[str, Any]]:
    """Return what another model makes of the next request, as lines and as data. Messages in the form of one provider,
    such as its calls of tools, are not sent to a model of another one. Without such messages there are no lines, unless
    they are `always` wanted."""
    out, was = ({each.event for each in one.manifest.left_out if each.why == "isolation"} for one in (then, now))
    with agent.log.store.read() as moment:
        gone, back = ([event.dialect for event in moment.events(sorted(ids))] for ids in (out - was, was - out))
    data: dict[str, Any] = {"tokens": then.tokens, "before": now.tokens, "isolated": len(gone), "returned": len(back)}
    if not gone and not back and not always:
        return [], data
    forms = Counter(form for form in gone if form)
    leaving = [f"{count(number, 'message')} in the form of {form}" for form, number in forms.most_common()]
    lines = (
        [f"  {listing(leaving)}: not sent to this model. A model of {listing(sorted(forms))} gets them"] if gone else []
    )
    lines += [f"  {count(len(back), 'message')}: sent again, since this model reads their form"] if back else []
    return [*lines, f"  next request ~{then.tokens:,} tokens instead of ~{now.tokens:,}"], data


@command("system", at_once=True)
def _system(call: CommandCall) -> Result:
    """Show the system prompt."""
    system = call.agent.standing().config.system
    return Result(system or "No system prompt.", None, {"system": system})


@command("system edit [TEXT...]")
def _system_edit(call: CommandCall) -> Result:
    """Change the system prompt; without TEXT in your editor."""
    text = call.get("TEXT")
    if text is None:
        return Result("", effect=EditText(call.agent.standing().config.system, "/system edit", "/system clear"))
    return _set(call, {"system": text}, "System prompt set.")


@command("system clear")
def _system_clear(call: CommandCall) -> Result:
    """Remove the system prompt."""
    return _set(call, {"system": ""}, "System prompt removed.")


SETTINGS = (_window, _budget, _get, _set_any, _model, _system, _system_edit, _system_clear)
