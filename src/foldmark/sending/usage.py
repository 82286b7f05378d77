"""Record what answers cost by the provider's own count, and calibrate estimates by it [SPEC 5.4]."""

from foldmark.core.answer import Stopped, Usage
from foldmark.core.request import Request
from foldmark.log.log import Agent
from foldmark.request.usage import usage_data


def record_usage(agent: Agent, request: Request, usage: Usage, stopped: Stopped | None) -> None:
    """Record what a request cost by the provider's count, beside its estimate."""
    data = usage_data(request.provider, request.model, usage, stopped)
    agent.record("usage", data={**data, "estimate": request.tokens, "size": request.size})


def calibrate(agent: Agent, request: Request, usage: Usage) -> None:
    """Record a new calibration if the estimate of a request was off [SPEC 5.4].

    It is a `config` event, so that every reader of the log gets the same estimates. It moves the window, so it is
    recorded at the end of a turn [SPEC 5.3].
    """
    from foldmark.tokens.calibration import recalibrated
    from foldmark.tokens.counting import calibration_key, ruler

    at = agent.standing()
    whole, by = usage.input + usage.cleared, ruler(request.provider, request.model, at.config)
    ratio = recalibrated(request.size, whole, by.ratio)
    if ratio is not None:
        name = calibration_key(request.provider, request.model, at.config)
        settings = {**at.settings, "calibration": {**at.config.calibration, name: ratio}}
        agent.record("config", f"calibration of {name}: {ratio}", data={"settings": settings})
