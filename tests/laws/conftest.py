"""Hypothesis profiles of the laws: `ci` by default, with the same examples in every run; `deep` (FOLDMARK_DEEP=1)."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow]

settings.register_profile(
    "ci", deadline=None, max_examples=150, stateful_step_count=40, derandomize=True, suppress_health_check=_SLOW
)
settings.register_profile(
    "deep", deadline=None, max_examples=2000, stateful_step_count=80, print_blob=True, suppress_health_check=_SLOW
)
settings.load_profile("deep" if os.environ.get("FOLDMARK_DEEP") == "1" else "ci")
