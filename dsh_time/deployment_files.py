"""What may stand in a deployment file: the shapes, and checks that add what they find to a list and go on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import validators

from dsh_time.errors import StructureError
from dsh_time.problems import Keys, Problem, describe
from dsh_time.structure import structure
from dsh_time.yaml_reader import Node, nearest, plain

_CONNECTION_KEYS = ("baseurl", "apikey", "apikeyenv")


def _from_to(least: float, most: float) -> Any:
    return validators.and_(validators.ge(least), validators.le(most))


@attrs.frozen
class Limits:
    """What one turn may use. Suffixes are units: `_s` seconds, `_ms` milliseconds."""

    max_steps: int = attrs.field(default=50, validator=_from_to(1, 10_000))
    tool_timeout_s: float = attrs.field(default=120, validator=_from_to(0.1, 86_400))
    tool_output_bytes: int = attrs.field(default=65_536, validator=_from_to(1_024, 4 * 1024 * 1024))
    argument_bytes: int = attrs.field(default=262_144, validator=_from_to(1_024, 4 * 1024 * 1024))
    slow_hook_ms: int = attrs.field(default=50, validator=_from_to(1, 600_000))


@attrs.frozen
class Sessions:
    """Where session logs are kept; None leaves it to the store's default."""

    root: Path | None = None


def is_name(word: str) -> bool:
    """Whether `word` can be the name of an entry, a model or a provider."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", word) is not None


_NAME_RULE = "must be at most 128 letters, digits, dots, hyphens and underscores, and start with a letter or digit"


def _is_name(_: object, __: object, value: str) -> None:
    if not is_name(value):
        raise ValueError(f"{_NAME_RULE}, not {describe(value)}")


def _names_a_provider(_: object, __: object, model: Any) -> None:
    if isinstance(model, Mapping) and not isinstance(model.get("provider", ""), str | None):
        raise ValueError(f"provider must be text, not {describe(model['provider'])}")


def _are_models(_: object, __: object, models: Mapping[str, Any] | None) -> None:
    for name, model in (models or {}).items():
        if not is_name(name):
            raise ValueError(f"the name of a model {_NAME_RULE}, not {describe(name)}")
        _names_a_provider(_, __, model)


@attrs.frozen
class _Entry:
    name: str = attrs.field(validator=_is_name)
    id: str | None = attrs.field(default=None, validator=validators.optional(_is_name))
    disabled: bool = False
    config: dict[str, Any] | None = None


@attrs.frozen
class _Layer:
    plugins: list[_Entry] | None = None
    model: dict[str, Any] | str | None = attrs.field(default=None, validator=_names_a_provider)
    models: dict[str, dict[str, Any] | None] | None = attrs.field(default=None, validator=_are_models)
    limits: Limits | None = None
    sessions: Sessions | None = None


@attrs.frozen
class _Change:
    id: str
    name: str | None = None
    disabled: bool | None = None
    config: dict[str, Any] | None = None


@attrs.frozen
class _Insert:
    insert: list[_Entry]


@attrs.frozen
class _Settings:
    model: dict[str, Any] | str | None = attrs.field(default=None, validator=_names_a_provider)
    models: dict[str, dict[str, Any] | None] | None = attrs.field(default=None, validator=_are_models)
    limits: Limits | None = None
    sessions: Sessions | None = None


@attrs.frozen
class _Set:
    set: _Settings


def problem_at(node: Node, keys: Keys, message: str) -> Problem:
    """Return a Problem with the path `keys`, placed where they lead to in `node`."""
    return Problem(keys, message, place=nearest(node, keys).place)


def check_layer(layer: Node, problems: list[Problem], *, project: bool) -> None:
    """Check the shape of a layer file.

    In a `project` file, which others may have written, keys and addresses are refused.
    """
    if isinstance(layer.value, tuple):
        problems.append(problem_at(layer, (), "is a list, which is a patch: give it with --patch"))
    elif layer.value is not None:
        _check_shape(layer, _Layer, (), problems)
        if project:
            _refuse_connection_keys(layer, layer, (), problems)


def check_patch(patch: Node, problems: list[Problem]) -> None:
    """Check the shape of a patch file."""
    if isinstance(patch.value, Mapping):
        problems.append(problem_at(patch, (), "is a mapping, which is a layer: give it with --config"))
    elif patch.value is not None and not isinstance(patch.value, tuple):
        problems.append(problem_at(patch, (), f"a patch must be a list, not {describe(plain(patch))}"))
    for index, item in enumerate(patch.value if isinstance(patch.value, tuple) else ()):
        keys = item.value if isinstance(item.value, Mapping) else {}
        shapes = [shape for key, shape in (("id", _Change), ("insert", _Insert), ("set", _Set)) if key in keys]
        if len(shapes) == 1:
            _check_shape(item, shapes[0], (index,), problems)
        else:
            hint = "; a new entry stands below insert" if "name" in keys else ""
            problems.append(problem_at(patch, (index,), f"must have exactly one of the keys id, insert and set{hint}"))


def _check_shape(node: Node, shape: type, prefix: Keys, problems: list[Problem]) -> None:
    try:
        structure(plain(node), shape, where="")
    except StructureError as error:
        for problem in error.problems:
            place = nearest(node, problem.keys).place
            problems.append(attrs.evolve(problem, keys=(*prefix, *problem.keys), place=place))


def _refuse_connection_keys(layer: Node, node: Node, keys: Keys, problems: list[Problem]) -> None:
    children: Iterable[tuple[str | int, Node]] = ()
    if isinstance(node.value, Mapping):
        children = node.value.items()
    elif isinstance(node.value, tuple):
        children = enumerate(node.value)
    for key, child in children:
        path = (*keys, key)
        if isinstance(key, str) and key.lower().replace("_", "").replace("-", "") in _CONNECTION_KEYS:
            advice = "put it into your user config file, or into a file that you give with --config"
            problems.append(problem_at(layer, path, f"{key} is not taken from a project file; {advice}"))
        else:
            _refuse_connection_keys(layer, child, path, problems)
