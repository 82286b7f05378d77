"""`/cost`: what the requests of an agent have cost so far, and what the next one costs."""

from foldmark.commands.live_request import is_live
from foldmark.commands.registry import CommandCall, command
from foldmark.core.wording import count
from foldmark.cost.spending import Spending, next_input, spent
from foldmark.log import Result, family
from foldmark.log.live_session import client_tokens


@command("cost", at_once=True)
def _cost(call: CommandCall) -> Result:
    """Show the cost so far, as the meter does, and that of the next request."""
    agent = call.agent
    with agent.reading() as (moment, at):
        spending = spent(moment, agent)
        others = [spent(moment, place.agent) for place in family.tree(family.root(agent)) if place.agent != agent]
        tokens = client_tokens(agent, moment, at) if is_live(agent) else agent.next_request().tokens
        known = agent.log.model_named(at.config.model)
    lines = [f"So far: {_so_far(spending)}."]
    if any(each.input for each in others):
        lines.append(
            f"The other agents of this conversation: {'; '.join(_so_far(each) for each in others if each.input)}."
        )
    full, cached = next_input(tokens, known)
    price = "the price of its model is not known" if full is None else f"${full:,.4f} for its input at the full price"
    if cached is not None and cached != full:
        price += f", ${cached:,.4f} if all of it comes from the cache"
    lines.append(f"The next request: ~{count(tokens, 'token')}, {price}.")
    data = {
        "input": spending.input,
        "read": spending.read,
        "dollars": spending.dollars,
        "unknown": spending.unknown,
        "next": {"tokens": tokens, "dollars": full, "dollars_cached": cached},
    }
    return Result("\n".join(lines), None, data)


def _so_far(spending: Spending) -> str:
    if not spending.input:
        return "no request was answered yet"
    parts = [spending.price or "at a price that is not known", count(spending.input, "input token")]
    if spending.read:
        parts.append(f"{spending.cached}% of it from the cache")
    if spending.unknown and spending.price:
        parts.append(f"without {count(spending.unknown, 'request')} whose price is not known")
    return " · ".join(parts)


COST = (_cost,)
