"""What answers cost by the provider's own count: recorded beside them, and what estimates learn of it [SPEC 5.4]."""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from foldmark.core.answer import Stopped, Usage
from foldmark.core.request import Request

if TYPE_CHECKING:
    from foldmark.conversation.agent import Agent


class Snapshot(Struct, frozen=True):
    """What one request and its answer weighed: `input` and `output` tokens as the provider counted them [S2]."""

    input: int
    output: int

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.input + self.output


def snapshot_of(data: dict[str, Any] | None) -> Snapshot | None:
    """The snapshot that a usage event's data stand for; None if they hold none."""
    data = data or {}
    parts = [data.get(name) for name in ("fresh", "cache_read", "cache_write", "output")]
    if not all(isinstance(part, int) for part in parts):
        return None
    fresh, read, write, output = (int(part or 0) for part in parts)
    return Snapshot(fresh + read + write, output)


def usage_data(provider: str, model: str, usage: Usage, stopped: Stopped | None) -> dict[str, Any]:
    """What a usage event holds of what a provider said that an answer cost."""
    return {
        "provider": provider,
        "model": model,
        "fresh": usage.fresh,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output": usage.output,
        "stopped": stopped.said if stopped else "",
    }


def record_usage(agent: "Agent", request: Request, usage: Usage, stopped: Stopped | None) -> None:
    """Record what the provider said that a request cost, beside what it was estimated at."""
    data = usage_data(request.provider, request.model, usage, stopped)
    agent.record("usage", data={**data, "estimate": request.tokens, "size": request.size})


def calibrate(agent: "Agent", request: Request, usage: Usage) -> None:
    """Record a new calibration if the estimate of a request was off [SPEC 5.4].

    It is a `config` event: whoever reads the log with it gets the same estimates. It moves the window, so its place is
    the end of a turn [SPEC 5.3].
    """
    from foldmark.tokens.calibration import recalibrated
    from foldmark.tokens.counting import calibration_key, ruler

    at = agent.standing()
    ratio = recalibrated(request.size, usage.input, ruler(request.provider, request.model, at.config).ratio)
    if ratio is not None:
        name = calibration_key(request.provider, request.model, at.config)
        settings = {**at.settings, "calibration": {**at.config.calibration, name: ratio}}
        agent.record("config", f"calibration of {name}: {ratio}", data={"settings": settings})
