"""What providers of remote models share: where a key may go, what a failure is called, when to try again.

Only provider plugins import this module; it needs no HTTP library. A provider turns what its SDK raises into the two
exceptions a try may end with:

    ModelError      the request failed for good; its text is shown to the user
    TryAgain        it failed for a reason that may pass; `with_retries` sends the same bytes again if nothing came yet

Neither may hold, or be chained to, an exception of an SDK: those carry the request with its headers.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from attrs import field, frozen

from ._models import ModelDelta, ModelError, Retrying

_SHOWN_CHARACTERS: Final = 300
#: Seconds. A server that asks for a longer wait than this is not waited for.
_LONGEST_WAIT_S: Final = 120.0
_FIRST_DELAY_S: Final = 0.5
_LONGEST_DELAY_S: Final = 8.0
_OVERFLOW: Final = re.compile(
    r"context[ _]?(length|window|size)|maximum context|prompt is too long|too many tokens|request_too_large"
)


class TryAgain(Exception):
    """A try that failed before it gave anything. `after_s`: how long the server asked to wait, None if it did not."""

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s


def check_base_url(_instance: object, _attribute: object, value: str) -> None:
    """Refuse, as an attrs validator, a URL that a key must not be sent to. Raises ValueError.

    Needed: https, or http to a loopback address; a host; no user name, query or fragment, which may be secrets.
    """
    wanted = "write a URL like https://host/v1"
    if not re.fullmatch(r"[!-~]+", value) or "\\" in value:
        raise ValueError(f"a base URL has no blanks, backslashes or letters outside ASCII: {wanted}")
    parts = urlsplit(value)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"a base URL holds no user name, query or fragment: {wanted}; the key has a variable of its own"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{value!r} is no base URL: {wanted}")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError(f"{value!r} would send key and conversation unencrypted: use https (or a loopback host)")


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_variable(_instance: object, _attribute: object, value: str) -> None:
    """Refuse, as an attrs validator, what is no name of an environment variable. Raises ValueError.

    Capitals only, so that a key which was pasted in place of a name is refused, and never shown.
    """
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
        raise ValueError("write the name of a variable of the environment, in capitals, not the key itself")


def read_key(variable: str) -> str:
    """The API key that the environment variable holds. Raises ModelError, which names the variable only."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ModelError(f"no API key: set the environment variable {variable}, or name another one in model.apiKeyEnv")
    if not re.fullmatch(r"[!-~]+", key):
        raise ModelError(f"the environment variable {variable} holds characters that no API key has: set it again")
    return key


@frozen
class Endpoint:
    """Where a model's requests go, and what its failures are called to the user.

    `url` has passed `check_base_url`. `variable` names the key's environment variable, None: no key is sent.
    """

    url: str
    model: str
    timeout_s: float
    variable: str | None = None
    key: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """Host and port, as the URL has them."""
        return urlsplit(self.url).netloc

    def error(self, text: str) -> ModelError:
        """A ModelError of one line of at most 300 characters, without the key."""
        return ModelError(self._shown(text))

    def refusal(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, code: str = ""
    ) -> ModelError | TryAgain:
        """What an HTTP status other than 2xx means. `message` and `code` are what the server says about it."""
        headers = headers or {}
        said = f": {message}" if message else ""
        about = f"{code} {message}".lower()
        if status in (400, 413, 422, 500) and _OVERFLOW.search(about):
            advice = "start a new session, or choose a model that reads more"
            return self.error(f"the conversation is longer than {self.model} can read: {advice}{said}")
        if status == 402 or "insufficient_quota" in about:
            return self.error(f"{self.host} says that the account behind {self._key} has no credit left{said}")
        if status in (408, 409, 429) or status >= 500:
            return TryAgain(self._shown(f"{self.host} answers with status {status}{said}"), _wait_s(headers))
        return self.error(self._final_refusal(status, said, headers, about))

    def _final_refusal(self, status: int, said: str, headers: Mapping[str, str], about: str) -> str:
        if 300 <= status < 400:
            host = urlsplit(headers.get("location", "")).netloc or self.host
            return f"{self.host} redirects to {host}, which is not followed with a key: correct model.baseUrl"
        if status == 401:
            need = f"refuses {self._key}: set a valid one" if self.variable else "wants a key: set model.apiKeyEnv"
            return f"{self.host} {need}{said}"
        if status == 403:
            return f"{self.host} does not let {self._key} use {self.model}: choose another model or key{said}"
        if status in (404, 405):
            if "model" in about:
                return f"{self.host} has no model {self.model!r}: correct model.model{said}"
            return f"{self.host} has no chat API at {urlsplit(self.url).path or '/'!r}: correct model.baseUrl{said}"
        return f"{self.host} refuses the request (status {status}){said}"

    @property
    def _key(self) -> str:
        return f"the key in {self.variable}" if self.variable else "this request, which has no key,"

    def broke_off(self, content_type: str, *, began: bool) -> ModelError | TryAgain:
        """What the end of a stream means that came too early. `began`: at least one event had come."""
        kind = content_type.partition(";")[0].strip().lower()
        if began or kind in ("", "text/event-stream"):
            return TryAgain(f"{self.host} ended the stream")
        return self.error(f"{self.host} answers with {kind}, which is no stream of a chat API: correct model.baseUrl")

    def disconnection(self, error: BaseException) -> ModelError | TryAgain:
        """What a failed or broken connection means. `error` is only read: nothing of it is kept but its kind."""
        import socket
        import ssl

        causes = list(_causes(error))
        kinds = " ".join(type(cause).__name__ for cause in causes)
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                advice = "correct model.baseUrl, or the certificates that this machine trusts"
                return self.error(f"the TLS certificate of {self.host} is not valid: {advice} ({cause.verify_message})")
            if isinstance(cause, ssl.SSLError):
                return self.error(f"{self.host} does not speak TLS: correct model.baseUrl (http or https, and port)")
            if isinstance(cause, socket.gaierror):
                return self.error(f"the host of {self.host} is unknown: correct model.baseUrl, or go online")
            if isinstance(cause, ConnectionRefusedError):
                return self.error(f"nothing answers at {self.host}: start the server, or correct model.baseUrl")
        if "ConnectTimeout" in kinds:
            return self.error(f"{self.host} cannot be reached: correct model.baseUrl, or go online")
        if "Timeout" in kinds:
            silence = f"{self.host} sent nothing for {self.timeout_s:g} s"
            return self.error(f"{silence}: raise model.timeoutS, or try later")
        return TryAgain(f"{self.host} closed the connection")

    def _shown(self, text: str) -> str:
        if self.key:
            text = text.replace(self.key, "[key]")
        text = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _SHOWN_CHARACTERS]).split())
        return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


@frozen
class Defaults:
    """A provider's own URL, and the environment variables that its users know for another URL and for the key."""

    url: str
    url_variable: str
    key_variable: str

    def variable(self, base_url: str | None, api_key_env: str | None) -> str | None:
        """The environment variable of the key that the settings send, None: they send none.

        Without `api_key_env` the default key goes to a URL that is the provider's own or the environment's, and to no
        other server: a `base_url` of the deployment file gets no key then.
        """
        return api_key_env or (self.key_variable if base_url is None else None)

    def endpoint(self, model: str, timeout_s: float, base_url: str | None, api_key_env: str | None) -> Endpoint:
        """Where the settings send requests, with the key read. Raises ModelError."""
        url, variable = base_url, self.variable(base_url, api_key_env)
        if url is None:
            url = os.environ.get(self.url_variable) or self.url
            try:
                check_base_url(None, None, url)
            except ValueError as error:
                raise ModelError(f"the environment variable {self.url_variable} cannot be used: {error}") from None
        return Endpoint(url.rstrip("/"), model, timeout_s, variable, read_key(variable) if variable else None)


def said(body: object) -> str:
    """What the body of an error says, in the shapes that servers give it; nothing if it has none of them."""
    if not isinstance(body, Mapping):
        return ""
    inner = body.get("error", body)
    message = (inner.get("message") or inner.get("detail")) if isinstance(inner, Mapping) else inner
    return message if isinstance(message, str) else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and all that it came from, through exception groups too."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [c for c in (cause.__context__, cause.__cause__) if c is not None]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions


def _wait_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` asks for; its form with a date would need a clock that agrees, so it is not read."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value := headers.get(name, "")):
            return float(value) * unit
    return None


async def with_retries(
    attempt: Callable[[], AsyncGenerator[ModelDelta, None]], retries: int, sleep: Callable[[float], Awaitable[object]]
) -> AsyncGenerator[ModelDelta, None]:
    """The deltas of the first attempt that gives any, and a `Retrying` before each further one.

    Waits as long as the server asks, else 0.5 s, doubled each time up to 8 s. Raises ModelError when the attempt does,
    when `retries` further ones failed too, or when a stream breaks after its first delta.
    """
    for number in range(1, retries + 2):
        failure: TryAgain | None = None
        started = False
        stream = attempt()
        try:
            async for delta in stream:
                started = True
                yield delta
        except TryAgain as error:
            failure = error
        finally:
            await stream.aclose()
        if failure is None:
            return
        if started:
            raise ModelError(f"{failure.reason} before the answer was complete: ask again")
        delay_s = min(_FIRST_DELAY_S * 2 ** (number - 1), _LONGEST_DELAY_S)
        if failure.after_s is not None:
            delay_s = failure.after_s
        if delay_s > _LONGEST_WAIT_S:
            raise ModelError(f"{failure.reason}; try again in {delay_s:.0f} s")
        if number > retries:
            raise ModelError(f"{failure.reason}; tried {number} times: try again later, or raise model.retries")
        yield Retrying(attempt=number + 1, delay_s=delay_s, reason=failure.reason)
        await sleep(delay_s)
