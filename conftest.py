"""Test set-up shared by the host's tests and every plugin's."""

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("remote_faults")

# Deterministic: the same examples on every run, no example database, no deadline that a busy machine could miss.
settings.register_profile(
    "ci", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")
