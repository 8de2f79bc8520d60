"""What providers of remote models share: where a key may go, and what failures are called."""

from __future__ import annotations

import ssl

import pytest

from dsh_hookspecs import ModelError
from dsh_hookspecs.remote import Endpoint, TryAgain, check_base_url, check_variable, read_key

ENDPOINT = Endpoint("https://api.example/v1", "m", 60.0, "SOME_KEY", "sk-SENTINEL")


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example/v1",
        "https://api.example:8443",
        "http://localhost:11434/v1",
        "http://127.0.0.1:8080",
        "http://127.8.9.1/v1",
        "http://[::1]:8000/v1",
    ],
)
def test_https_and_loopback_urls_are_taken(url: str) -> None:
    check_base_url(None, None, url)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example/v1",
        "http://127.0.0.1.evil.example/v1",
        "http://localhost.evil.example",
        "http://127.1",
        "http://2130706433",
        "http://0.0.0.0",
        "http://localhost@evil.example",
        "http://evil.example\\@localhost",
        "https://user:secret@api.example",
        "https://api.example/v1?key=secret",
        "https://api.example/v1#secret",
        "ftp://localhost",
        "localhost:11434",
        "https://",
        "https:///v1",
        "https://api.example:99999",
        "https://[::1",
        "https://api.example/ v1",
        "https://\u0430pi.example",
        "",
    ],
)
def test_urls_that_a_key_must_not_go_to_are_refused_without_showing_a_secret(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        check_base_url(None, None, url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("pasted", ["sk-proj-abc", "0a1b2c3d4e5f", "A B", "", "key"])
def test_a_key_in_place_of_a_variables_name_is_refused_and_not_shown(pasted: str) -> None:
    with pytest.raises(ValueError, match="not the key itself") as caught:
        check_variable(None, None, pasted)
    assert not pasted or pasted == "key" or pasted not in str(caught.value)


def test_a_key_is_read_without_blanks_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", " sk-1\n")
    assert read_key("SOME_KEY") == "sk-1"


@pytest.mark.parametrize("value", ["sk-SENTINEL\nx", "sk-SENTINEL é"])
def test_a_key_that_no_header_could_carry_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(ModelError, match="SOME_KEY holds characters") as caught:
        read_key("SOME_KEY")
    assert "SENTINEL" not in str(caught.value)


def test_a_certificate_that_is_not_trusted_is_named() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    chained = OSError("connect failed")
    chained.__cause__ = ExceptionGroup("all attempts", [error])
    failure = ENDPOINT.disconnection(chained)
    assert isinstance(failure, ModelError)
    assert "the TLS certificate of api.example is not valid" in str(failure)
    assert "self-signed certificate" in str(failure)


class ConnectTimeout(Exception):
    pass


def test_a_host_that_cannot_be_reached_is_named() -> None:
    error = TimeoutError()
    error.__cause__ = ConnectTimeout()
    assert "api.example cannot be reached" in str(ENDPOINT.disconnection(error))


def test_a_connection_that_just_broke_is_tried_again() -> None:
    loop = OSError("reset")
    loop.__cause__ = OSError("cause")
    loop.__cause__.__context__ = loop
    assert isinstance(ENDPOINT.disconnection(loop), TryAgain)


@pytest.mark.parametrize(
    ("headers", "after_s"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_wait_a_server_asks_for_is_read_in_seconds(headers: dict[str, str], after_s: float | None) -> None:
    failure = ENDPOINT.refusal(429, "slow down", headers)
    assert isinstance(failure, TryAgain)
    assert failure.after_s == after_s


def test_a_servers_message_becomes_one_short_line_without_the_key() -> None:
    failure = ENDPOINT.refusal(400, "bad\x1b[31m\r\n  key sk-SENTINEL " + "x" * 1000)
    assert str(failure).startswith("api.example refuses the request (status 400): bad [31m key [key] xxx")
    assert len(str(failure)) == 300
