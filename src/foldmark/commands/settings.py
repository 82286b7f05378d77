"""Settings of one agent: `/context window | budget`, `/config`, `/model`, `/system` [SPEC 4, 10]."""

import os
from collections import Counter
from typing import Any

from msgspec.structs import replace

from foldmark.commands.registry import PREVIEW, CommandCall, command
from foldmark.core.config import KEYS, KINDS, check_together, checked, key_of
from foldmark.core.errors import CommandError
from foldmark.core.request import Request
from foldmark.core.wording import count, listing
from foldmark.log import Agent, Result, family
from foldmark.operations.effects import EditText
from foldmark.request.standing import Standing
from foldmark.settings.access import obstacle


def _set(call: CommandCall, key: str, value: Any, text: str) -> Result:
    """Record the agent's settings with one of them changed. The newest `config` event holds all of them."""
    agent = _owner(call.agent, key)
    at = agent.standing()
    if agent != call.agent:
        agent.context()
        text = f"{text} (for {family.label(agent)}, which this agent belongs to)"
    from foldmark.operations.receipts import thinking_change

    event_id = agent.configure(key, value, actor=call.actor)
    with agent.reading() as (moment, there):
        thoughts = thinking_change(moment, lambda place: agent.request(at=place), at, there)
    if lost := thoughts.lines():
        text = ". ".join((text.rstrip("."), *lost)) + "."
    data = {"key": key, "value": value, "event": event_id, **thoughts.data()}
    if key == "model" and (why := obstacle(value, os.environ, at.given)):
        text, data["obstacle"] = f"{text}\n  It cannot be asked yet. {why}", why
    if (over := at.given.overrides.get(key)) is None:
        return Result(text, None, data)
    value = _typed(over.value)
    now = f"{key} = {value}" if "\n" not in value else f"another {key}"
    text = f"Kept for this agent, but {over.source} overrides it: {now}"
    return Result(text, None, {**data, "overridden": {"value": over.value, "source": over.source}})


def _owner(agent: Agent, key: str) -> Agent:
    """Return the agent that owns a setting: `tool_approval` belongs to the whole conversation."""
    return family.root(agent) if key == "tool_approval" else agent


@command("context window N")
def _window(call: CommandCall) -> Result:
    """Send at most the newest N turns; 0 sends all."""
    turns = KINDS["context_size"]._replace(example="20").value("N", call.arguments["N"])
    text = f"The request holds the newest {count(turns, 'turn')}." if turns else "The request holds all turns that fit."
    return _set(call, "context_size", turns, text)


@command("context budget TOKENS")
def _budget(call: CommandCall) -> Result:
    """Send as many turns as fit TOKENS; 0 means no limit."""
    tokens = KINDS["sliding_context_tokens"].value("TOKENS", call.arguments["TOKENS"])
    text = f"The request holds up to {tokens:,} tokens." if tokens else "The request has no budget."
    return _set(call, "sliding_context_tokens", tokens, text)


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
    shown = {key: f"{key} = {_typed(value)}".rstrip() for key, value in values.items()}
    text = "\n".join(f"{line} ({sources[key]})" for key, line in shown.items())
    return Result(text, None, {"settings": values, "sources": sources})


def _source(at: Standing, key: str) -> str:
    return at.given.source(key, at.counting, at.inherited)


def _typed(value: Any) -> str:
    """Return a value in the form that `/config set` accepts."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@command("config set KEY=VALUE...")
def _set_any(call: CommandCall) -> Result:
    """Change a setting of this agent, or several KEY=VALUE pairs."""
    text = call.arguments["KEY=VALUE"]
    pairs = words if len(words := text.split()) > 1 and all(map(_is_pair, words)) else [text]
    # Check all pairs before the first is recorded.
    found = [_checked(call, *_pair(pair)) for pair in pairs]
    values = {key: value for key, value, _ in found}
    if values.keys() & {"provider_compaction", "provider_editing"}:
        check_together(replace(call.agent.standing().config, **values))
    results = [_set(call, key, value, text) for key, value, text in found]
    if len(results) == 1:
        return results[0]
    return Result("\n".join(each.text for each in results), None, {"settings": [each.data for each in results]})


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
    result = _set(call, "model", name, f"Model: {name}")
    then = _next_request(agent)
    lines, data = ([], {}) if now is None or then is None else _change_of_request(agent, now, then)
    return replace(result, text="\n".join([result.text, *lines]), own={**result.own, **data})


def _previewed(agent: Agent, name: str, now: Request | None) -> Result:
    """Return what a change of the model would do."""
    from foldmark.operations.receipts import thinking_change

    with agent.reading() as (moment, at):
        there = at.with_setting("model", name)
        thoughts = thinking_change(moment, lambda place: agent.request(at=place), at, there)
        then = _next_request(agent, there)
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
        return agent.request(at=at)
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
    return _set(call, "system", text, "System prompt set.")


@command("system clear")
def _system_clear(call: CommandCall) -> Result:
    """Remove the system prompt."""
    return _set(call, "system", "", "System prompt removed.")


SETTINGS = (_window, _budget, _get, _set_any, _model, _system, _system_edit, _system_clear)
