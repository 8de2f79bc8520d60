"""Test set-up shared by the host's tests and every plugin's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from fake_server import FakeServer

pytest.register_assert_rewrite("remote_faults")

# Deterministic: the same examples on every run, no example database, no deadline that a busy machine could miss.
settings.register_profile(
    "ci", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")

#: Sessions with a scripted model. They run once as they are, and once over each provider's wire; see `through`.
OVER_THE_WIRE: Final = {
    "test_agent_inbox",
    "test_agent_tools",
    "test_agent_turns",
    "test_family_loops",
    "test_golden",
    "test_lineage",
    "test_real_loop",
    "test_recovery",
    "test_replay",
    "test_restraint",
    "test_subagents",
}
#: What measures this process, depends on which of two sessions is faster, or is slow and shown by its neighbours too.
SCRIPT_ONLY: Final = {
    "test_a_step_costs_the_same_after_a_hundred_events_and_after_ten_thousand",
    "test_a_turn_leaves_nothing_for_the_collector",
    "test_every_request_that_was_ever_sent_is_rebuilt_from_the_log_byte_for_byte",
    "test_steer_wakes_an_idle_relative_and_two_do_not_keep_each_other_awake",
    "test_two_sessions_do_not_keep_each_other_awake",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module, test = metafunc.module.__name__.rpartition(".")[2], metafunc.function.__name__
    if module in OVER_THE_WIRE and test not in SCRIPT_ONLY:
        metafunc.parametrize("over", ["script", "openai", "anthropic"], indirect=True)


@pytest.fixture(scope="session")
def wire_servers() -> Iterator[dict[str, FakeServer]]:
    """The running fake servers by provider."""
    from contextlib import ExitStack

    from through import WIRES

    with ExitStack() as stack:
        yield {name: stack.enter_context(wire.server().running()) for name, wire in WIRES.items()}


@pytest.fixture(autouse=True)
def over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let scripted models answer over the wire that the parameter names; `script`: as they are."""
    if getattr(request, "param", "script") == "script":
        yield
        return
    import ssl

    from through import WIRES, Through, patched

    from dsh_time.models.scripted import ScriptedModel

    server = request.getfixturevalue("wire_servers")[request.param]
    server.reset([])
    monkeypatch.setattr(ScriptedModel, "_play", patched(Through(WIRES[request.param], server)))
    # Certificates are of no use on loopback, and reading them takes longer than a session.
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_args, **_kwargs: None)
    yield
    assert server.refusals == []
