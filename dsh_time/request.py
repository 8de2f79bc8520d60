"""The request header as it is logged: a snapshot, then changes to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import structs

from dsh_hookspecs import (
    Header,
    PromptSection,
    RequestHeader,
    RequestHeaderDelta,
    SectionsDelta,
    ToolSchema,
    ToolsDelta,
)

Named = TypeVar("Named", PromptSection, ToolSchema)


def header_change(old: Header | None, new: Header) -> RequestHeader | RequestHeaderDelta | None:
    """Return the event that leads from the last logged header to `new`, None when they are equal.

    A change is logged as a delta when applying it to `old` gives exactly `new`, else as a snapshot. What counts is what
    is sent: `1`, `1.0` and `true` are equal in Python and differ there.
    """
    if old is None:
        return RequestHeader(header=new, reason="initial")
    if _same(old, new):
        return None
    delta = RequestHeaderDelta(
        system=None if _same(old.system, new.system) else SectionsDelta(*_named_change(old.system, new.system)),
        tools=None if _same(old.tools, new.tools) else ToolsDelta(*_named_change(old.tools, new.tools)),
        config=None if _same(old.config, new.config) else new.config,
        loadout=None if _same(old.loadout, new.loadout) else new.loadout,
    )
    return delta if _same(apply_delta(old, delta), new) else RequestHeader(header=new, reason="change")


def apply_delta(header: Header, delta: RequestHeaderDelta) -> Header:
    """Return `header` after the change. Sections stand by (order, name), tools by name."""
    if delta.system is not None:
        sections = _apply_named(header.system, delta.system.removed, delta.system.changed)
        header = structs.replace(header, system=tuple(sorted(sections, key=lambda s: (s.order, s.name))))
    if delta.tools is not None:
        tools = _apply_named(header.tools, delta.tools.removed, delta.tools.changed)
        header = structs.replace(header, tools=tuple(sorted(tools, key=lambda t: t.name)))
    if delta.config is not None:
        header = structs.replace(header, config=delta.config)
    if delta.loadout is not None:
        header = structs.replace(header, loadout=delta.loadout)
    return header


def _named_change(old: Sequence[Named], new: Sequence[Named]) -> tuple[tuple[str, ...], tuple[Named, ...]]:
    before, after = {item.name: item for item in old}, {item.name: item for item in new}
    removed = tuple(name for name in before if name not in after)
    return removed, tuple(item for name, item in after.items() if not _same(before.get(name), item))


def _apply_named(items: Sequence[Named], removed: Sequence[str], changed: Sequence[Named]) -> list[Named]:
    by_name = {item.name: item for item in items if item.name not in removed}
    by_name.update((item.name, item) for item in changed)
    return list(by_name.values())


def _same(one: object, other: object) -> bool:
    return msgspec.json.encode(one) == msgspec.json.encode(other)
