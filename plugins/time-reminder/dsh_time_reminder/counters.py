"""Counters of one session: what they hold, their bounds, and what each action does to them.

The tool and the fold both change counters here, so that a log gives back what the tool did.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from dsh_hookspecs import ToolError

if TYPE_CHECKING:
    from .tools import TimeCounterArguments

#: Bounds, in counters, characters (as they were given, before normalisation) and generations.
MAX_COUNTERS: Final = 64
MAX_NAME: Final = 64
MAX_NOTE: Final = 512
MAX_DEPTH: Final = 8

_FORBIDDEN: Final = "=,()@"
#: The arguments that each action uses beside `name`, and those of them that it needs.
_USES: Final[Mapping[str, tuple[str, ...]]] = {
    "start": ("note", "inject", "to_children", "to_parents", "depth"),
    "lapse": (),
    "list": (),
    "note": ("note",),
    "scope": ("inject", "to_children", "to_parents", "depth"),
    "reset": (),
    "remove": (),
}


class NoSuchCounter(ToolError):
    """The session has no counter `name` of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"this session has no counter {name!r}; time_counter with action list shows those there are")
        self.name = name


@frozen
class Counter:
    """Counts from `since` (epoch ms). `depth` is in generations, 1 for a direct parent or child."""

    since: int
    note: str = ""
    inject: bool = False
    to_children: bool = True
    to_parents: bool = False
    depth: int = 2


#: A session's counters by name, in the order they were first started.
Counters = Mapping[str, Counter]


def checked_name(given: str) -> str:
    """The name in Unicode's form NFC. Raises ToolError for one that is empty, too long, or holds what it cannot."""
    if not given:
        raise ToolError("name is empty")
    if len(given) > MAX_NAME:  # before normalising, whose cost is not linear
        raise ToolError(f"name has {len(given)} characters, at most {MAX_NAME} are taken")
    name = unicodedata.normalize("NFC", given)
    for character in name:
        category = unicodedata.category(character)
        if character in _FORBIDDEN or category[0] == "Z" or category in ("Cc", "Cf", "Cs"):
            raise ToolError(
                f"name {name!r} holds U+{ord(character):04X}; a name has no blanks, control or invisible characters "
                f"and none of {' '.join(_FORBIDDEN)}"
            )
    return name


def check_arguments(arguments: TimeCounterArguments) -> None:
    """Raises ToolError, naming the argument, where the action misses one that it needs or has one it does not use."""
    action, uses = arguments.action, _USES[arguments.action]
    given = [name for name in _USES["start"] if getattr(arguments, name) is not None]
    unused = [_camel(name) for name in given if name not in uses]
    if action == "list" and arguments.name is not None:
        unused.insert(0, "name")
    if unused:
        raise ToolError(f"action {action} does not use {', '.join(unused)}; leave it out")
    if action != "list" and arguments.name is None:
        raise ToolError(f"action {action} needs name")
    if action in ("note", "scope") and not given:
        choices = " or ".join(_camel(name) for name in uses)
        raise ToolError(f"action {action} needs {choices}" + (" (an empty one clears it)" if action == "note" else ""))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def changed(counters: Counters, arguments: TimeCounterArguments, at: int) -> Counters:
    """The counters after a call that was logged at `at` (epoch ms); `lapse` and `list` change nothing.

    Raises ToolError, with text for the model, where the call fails; nothing has changed then. NoSuchCounter where
    the session has none of that name, for all actions but `start`, `lapse` and `list`.
    """
    check_arguments(arguments)
    if arguments.name is None or arguments.action == "lapse":
        return counters
    name = checked_name(arguments.name)
    old = counters.get(name)
    if arguments.action == "start":
        if old is None and len(counters) >= MAX_COUNTERS:
            raise ToolError(f"there are {len(counters)} counters, at most {MAX_COUNTERS} are kept; remove one first")
        return {**counters, name: evolve(old or Counter(at), since=at, **_given(arguments))}
    if old is None:
        raise NoSuchCounter(name)
    if arguments.action == "remove":
        return {other: counter for other, counter in counters.items() if other != name}
    if arguments.action == "reset":
        return {**counters, name: evolve(old, since=at)}
    return {**counters, name: evolve(old, **_given(arguments))}


def _given(arguments: TimeCounterArguments) -> dict[str, Any]:
    values = {name: getattr(arguments, name) for name in _USES["start"]}
    return {name: value for name, value in values.items() if value is not None}
