"""What the Messages API streams, as far as it is read."""

from __future__ import annotations

from msgspec import Struct

from dsh_hookspecs import Usage


class TokenCounts(Struct, frozen=True):
    """Token counts; later events repeat those that grew. `input_tokens` leaves out what the other two count."""

    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None

    def updated(self, later: TokenCounts | None) -> TokenCounts:
        """These counts with those that `later` has."""
        if later is None:
            return self
        pairs = zip(self.__struct_fields__, self._counts(), later._counts(), strict=True)
        return TokenCounts(**{name: new if new is not None else old for name, old, new in pairs})

    def usage(self) -> Usage | None:
        """The counts in the log's terms, None if there are none."""
        if all(count is None for count in self._counts()):
            return None
        fresh, read, written, output = (count or 0 for count in self._counts())
        return Usage(input_tokens=fresh + read + written, cached_tokens=read, output_tokens=output)

    def _counts(self) -> tuple[int | None, ...]:
        return (self.input_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens, self.output_tokens)


class Start(Struct, frozen=True):
    """The message that begins."""

    usage: TokenCounts | None = None


class ContentBlock(Struct, frozen=True):
    """A block that begins."""

    type: str
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    name: str = ""


class Delta(Struct, frozen=True):
    """What is added to a block, or to the message."""

    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class Event(Struct, frozen=True):
    """One event of the stream."""

    type: str
    message: Start | None = None
    content_block: ContentBlock | None = None
    delta: Delta | None = None
    usage: TokenCounts | None = None
