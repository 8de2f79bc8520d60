"""A key goes to its server and nowhere else: not into a log, an output, a trace, or any file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_server import FakeServer, Reply
from through import WIRES

from dsh_time.models.scripted import call, say

from .conftest import CommandLine
from .terminals import TIMEOUT_S

KEY = "sk-SENTINEL-0123456789"
PATHS = {"openai": "/v1", "anthropic": ""}
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(
    provider: str, wire_servers: dict[str, FakeServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FakeServer:
    """The provider's server; the user file names it, and a key."""
    server = wire_servers[provider]
    model = {"provider": provider, "model": "m", "baseUrl": server.url + PATHS[provider], "apiKeyEnv": "SENTINEL_KEY"}
    file = tmp_path / "user" / "config" / "dsh-time" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"model": model}), encoding="utf-8")
    monkeypatch.setenv("SENTINEL_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "*")
    return server


def assert_clean(text: str) -> None:
    """No key in it, and no header that carries one."""
    assert "SENTINEL-" not in text
    for line in text.splitlines():
        lowered = line.lower()
        assert "authorization" not in lowered or "redacted" in lowered, line
        assert "bearer" not in lowered, line


@pytest.mark.process
def test_the_key_is_in_no_output_no_log_and_no_file_whatever_fails(
    provider: str, server: FakeServer, start: Start, dsh_time: CommandLine, tmp_path: Path
) -> None:
    """A server that repeats the key in its errors, a failing turn, everything verbose, and then every command."""
    echo = json.dumps(server.error(f"bad key {KEY}, header Bearer {KEY}")).encode()
    answers = [call("time_mode"), say("Done.")]
    server.reset(
        [
            Reply([echo], status=500, headers={"retry-after-ms": "1"}),
            Reply([echo], status=401),
            *(Reply(list(WIRES[provider].render(answer))) for answer in answers),
        ]
    )
    out, err = start("-vv", "run", "What time is it?", DSH_TIME_DEBUG="1").communicate(timeout=TIMEOUT_S)
    said = out.decode() + err.decode()
    assert "attempt 2 in 0.0 s" in said
    assert "refuses the key in SENTINEL_KEY" in said
    assert "[key]" in said
    assert_clean(said.replace("header Bearer [key]", ""))

    answered = dsh_time("run", "--continue", "--json", "And now?")
    assert json.loads(answered.stdout)["text"] == "Done."
    shown = [
        dsh_time(*words)
        for words in [
            ["models"],
            ["models", "--json"],
            ["config"],
            ["plugins", "--json"],
            ["show", "last", "--full"],
            ["show", "last", "--raw"],
            ["request", "last", "--turn", "2", "--step", "2"],
            ["sessions", "--json"],
            ["verify", "--all"],
            ["doctor"],
        ]
    ]
    assert [result.exit_code for result in shown] == [0] * len(shown)
    for result in [answered, *shown]:
        assert_clean(result.output.replace("header Bearer [key]", ""))
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert_clean(file.read_text("utf-8", "replace").replace("header Bearer [key]", ""))
    sent = [value for request in server.requests for value in request.headers.values()]
    assert len([value for value in sent if KEY in value]) == 4


def test_a_projects_file_that_says_where_requests_go_is_refused(server: FakeServer, dsh_time: CommandLine) -> None:
    server.reset([])
    for content in (
        "model: {baseUrl: 'https://evil.example'}",
        "model: mine\nmodels: {mine: {provider: openai, model: m, baseUrl: 'https://evil.example'}}",
        "models: {mine: {provider: openai, model: m, api_key_env: SENTINEL_KEY}}",
    ):
        Path("dsh-time.yaml").write_text(content, encoding="utf-8")
        result = dsh_time("run", "hi")
        assert result.exit_code == 1
        assert "is not taken from a project file; put it into your user config file" in result.stderr
    assert server.requests == []
    assert not dsh_time.sessions.exists()


def test_a_key_that_is_missing_or_is_no_key_is_one_message_that_does_not_show_it(
    server: FakeServer, dsh_time: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reset([])
    for value, said in (
        ("", "is not ready: no API key: set the environment variable SENTINEL_KEY"),
        (f"{KEY}\nx", "is not ready: the environment variable SENTINEL_KEY holds characters that no API key has"),
    ):
        monkeypatch.setenv("SENTINEL_KEY", value)
        result = dsh_time("run", "hi")
        assert result.exit_code == 1
        assert said in result.stderr
        assert "SENTINEL-" not in result.output
