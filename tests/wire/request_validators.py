"""Would the real provider accept this request? Strict validators, written from the providers' documented rules.

Each takes the JSON body of a request and returns its violations, `path: what is wrong`, empty if there is none. They
share no code with Foldmark, so that an encoder cannot be wrong in the same way. The rules with their sources stand in
`rules_*.py`; where they demand more than the provider, the header of the file says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rules_anthropic import anthropic
from rules_gemini import gemini, gemini_gca
from rules_openai import openai
from rules_openai_responses import openai_responses

__all__ = ["VALIDATORS", "anthropic", "gemini", "gemini_gca", "openai", "openai_responses"]

VALIDATORS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "anthropic": anthropic,
    "openai": openai,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "gemini_gca": gemini_gca,
}
