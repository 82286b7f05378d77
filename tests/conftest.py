"""Hypothesis profiles of all tests: `quick` by default, `thorough` with FOLDMARK_DEEP=1."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow]

settings.register_profile("quick", deadline=None, max_examples=100, suppress_health_check=_SLOW)
settings.register_profile("thorough", deadline=None, max_examples=3000, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile("thorough" if os.environ.get("FOLDMARK_DEEP") == "1" else "quick")
