"""Strict structuring: plain data (as read from YAML) onto attrs classes, with every problem reported at once.

cattrs finds the hook for a type; the hooks here make it strict. Nothing is coerced: a whole number is not
true, text or 1.0, a list is a list. (One exception: a whole number may stand for a fraction.) Keys are the
camelCase of the field names, as the seeds write them. A field's attrs validators are run one by one, so that
each refusal is reported with its key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from types import GenericAlias, UnionType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

import attrs

from dsh_time.errors import StructureError
from dsh_time.problems import Keys, Problem, describe, did_you_mean, is_secret

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

#: What cattrs calls with a value and the type it should become.
_Hook = Callable[[Any, Any], Any]

_NO_VALUE = object()


def structure(data: object, cls: type[T], *, where: str) -> T:
    """Return an instance of the attrs class `cls` made of `data`, a mapping with camelCase keys.

    `where` is put before the path of each problem. Fields may be int, float, str, bool, Path (`~` is
    expanded), Literal, unions, attrs classes, and lists, tuples, sets and mappings of these. Validators run
    twice, so they must be pure.

    Raises StructureError with every problem: missing and unknown keys, wrong types, refusals by validators. A
    problem with the class itself (a type that YAML cannot give) is reported the same way.
    """
    try:
        result: T = _converter().structure(data, cls)
    except Exception as error:  # a plugin's validators and converters may raise anything; each becomes a problem
        # Without the cause: its text may hold a secret that the problem leaves out.
        raise StructureError(tuple(_problems(error, (), where))) from None
    return result


def camel_case(name: str) -> str:
    """Return the key of a field: `refresh_interval_ms` is `refreshIntervalMs`."""
    first, *others = name.strip("_").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


class _Refused(Exception):
    """A value that does not fit. `expected` completes "must be ..."."""

    def __init__(self, message: str, value: object = _NO_VALUE, expected: str = "") -> None:
        super().__init__(message)
        self.value = value
        self.expected = expected


def _refuse(expected: str, value: object) -> NoReturn:
    raise _Refused(f"must be {expected}, not {describe(value)}", value, expected)


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.cols import is_mapping

    converter = Converter()
    for kind, hook in ((bool, _boolean), (int, _integer), (float, _number), (str, _text), (Path, _path)):
        converter.register_structure_hook(kind, hook)
    converter.register_structure_hook_factory(is_mapping, _mapping_hook)
    converter.register_structure_hook_factory(_is_collection, _collection_hook)
    converter.register_structure_hook_factory(_is_choice_of_types, _union_hook)
    converter.register_structure_hook_factory(_is_literal, _literal_hook)
    converter.register_structure_hook_factory(attrs.has, _class_hook)
    return converter


def _boolean(value: object, _: type) -> bool:
    return value if isinstance(value, bool) else _refuse("true or false", value)


def _integer(value: object, _: type) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else _refuse("a whole number", value)


def _number(value: object, _: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse("a number", value)
    return float(value)


def _text(value: object, _: type) -> str:
    return value if isinstance(value, str) else _refuse("text", value)


def _path(value: object, _: type) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        _refuse("a path", value)
    try:
        return Path(value).expanduser()
    except RuntimeError:  # what pathlib raises for `~nobody`
        _refuse("a path below a home folder that exists", value)


def _mapping_hook(kind: Any, converter: Converter) -> _Hook:
    from cattrs.cols import mapping_structure_factory

    inner = mapping_structure_factory(kind, converter)
    return lambda value, _: inner(value, kind) if isinstance(value, Mapping) else _refuse("a mapping", value)


def _is_collection(kind: Any) -> bool:
    return (get_origin(kind) or kind) in _COLLECTIONS


#: What a list becomes, by the type of the field. Abstract ones get the frozen kind.
_COLLECTIONS: dict[Any, Any] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: tuple,
    Set: frozenset,
}


def _collection_hook(kind: Any, converter: Converter) -> _Hook:
    from cattrs import StructureHandlerNotFoundError
    from cattrs.cols import list_structure_factory

    collection, arguments = get_origin(kind) or kind, get_args(kind)
    if collection is tuple and arguments[1:] not in ((), (...,)):
        raise StructureHandlerNotFoundError(f"no strict hook for {kind}", kind)
    items_kind: Any = GenericAlias(list, arguments[:1] or (Any,))
    inner = list_structure_factory(items_kind, converter)
    build = _COLLECTIONS[collection]
    return lambda value, _: (
        build(inner(value, items_kind)) if isinstance(value, list | tuple) else _refuse("a list", value)
    )


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _literal_hook(kind: Any, _: Converter) -> _Hook:
    choices = get_args(kind)
    expected = "one of " + ", ".join(str(choice) for choice in choices)

    def hook(value: object, _: Any) -> object:
        for choice in choices:
            if type(choice) is type(value) and choice == value:
                return choice
        _refuse(expected, value)

    return hook


def _is_choice_of_types(kind: Any) -> bool:
    """A union of several types; cattrs itself knows what to do with `X | None`."""
    return get_origin(kind) in (Union, UnionType) and len(set(get_args(kind)) - {type(None)}) > 1


def _union_hook(kind: Any, converter: Converter) -> _Hook:
    def hook(value: object, _: Any) -> object:
        members = get_args(kind)
        if value is None and type(None) in members:
            return None
        errors: list[Exception] = []
        for member in members:
            if member is not type(None):
                try:
                    return converter.structure(value, member)
                except Exception as error:  # whatever it is, another member may fit
                    errors.append(error)
        closest = [error for error in errors if not isinstance(error, _Refused)]
        if closest:  # of the right shape, wrong inside
            raise closest[0]
        _refuse(" or ".join(error.expected for error in errors if isinstance(error, _Refused)), value)

    return hook


def _class_hook(cls: Any, converter: Converter) -> _Hook:
    attrs.resolve_types(cls)
    fields = {camel_case(field.alias): field for field in attrs.fields(cls) if field.init}

    def hook(data: object, _: Any) -> object:
        if not isinstance(data, Mapping):
            _refuse(f"a mapping like {{{next(iter(fields))}: …}}" if fields else "a mapping", data)
        failures: list[Exception] = []

        def fail(key: str, error: Exception) -> None:
            from cattrs import AttributeValidationNote

            error.add_note(AttributeValidationNote(f"at {key}", key, None))
            failures.append(error)

        for key in data:
            if key not in fields:
                known = f"; known keys: {', '.join(fields)}" if fields else "; there are no keys here"
                fail(key, _Refused(f"unknown key{did_you_mean(str(key), fields) or known}"))
        arguments = {}
        for key, field in fields.items():
            if key not in data:
                if field.default is attrs.NOTHING:
                    failures.append(_Refused(f"the key {key} is missing"))
                continue
            try:
                arguments[field.alias] = converter.structure(data[key], Any if field.type is None else field.type)
            except Exception as error:  # collected, so that the other keys are looked at too
                fail(key, error)
        for key, refusal in _refusals(cls, arguments, complete=not failures):
            fail(key, refusal)
        if failures:
            from cattrs import ClassValidationError

            raise ClassValidationError(f"while structuring {cls.__name__}", failures, cls)
        return cls(**arguments)

    return hook


def _refusals(cls: Any, arguments: Mapping[str, Any], *, complete: bool) -> Iterable[tuple[str, Exception]]:
    """Run the validator of each given field on its own; yield the key and the error of those that refuse.

    attrs stops at the first one, and without saying whose it was. The validators see a bare instance that is
    then thrown away. Where it is not `complete`, one that misses a field there is not listened to.
    """
    instance = cls.__new__(cls)
    given = []
    for field in attrs.fields(cls):
        try:
            value = arguments[field.alias] if field.alias in arguments else _default(instance, field)
            if value is attrs.NOTHING:
                continue
            value = attrs.setters.convert(instance, field, value)
            object.__setattr__(instance, field.name, value)
            if field.alias in arguments:
                given.append((field, value))
        except Exception as error:  # a plugin's converter or default may raise anything
            yield camel_case(field.alias), error
    for field, value in given:
        try:
            attrs.setters.validate(instance, field, value)
        except Exception as error:  # a plugin's validator may raise anything
            if complete or not isinstance(error, AttributeError):
                yield camel_case(field.alias), error


def _default(instance: Any, field: attrs.Attribute[Any]) -> Any:
    default: Any = field.default
    if not hasattr(default, "factory"):
        return default
    return default.factory(instance) if default.takes_self else default.factory()


def _problems(error: Exception, keys: Keys, where: str) -> Iterable[Problem]:
    from cattrs import AttributeValidationNote, BaseValidationError, IterableValidationNote

    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            below = keys
            for note in getattr(inner, "__notes__", ()):
                if isinstance(note, AttributeValidationNote):
                    below = (*keys, note.name)
                elif isinstance(note, IterableValidationNote):
                    below = (*keys, note.index)
            yield from _problems(inner, below, where)
    elif is_secret(keys) and not (isinstance(error, _Refused) and error.value is _NO_VALUE):
        expected = error.expected if isinstance(error, _Refused) else ""
        yield Problem(keys, f"must be {expected}" if expected else "is not valid", None, where)
    else:
        value = getattr(error, "value", None)
        yield Problem(keys, _message(error, keys), None if value is _NO_VALUE else value, where)


def _message(error: Exception, keys: Keys) -> str:
    from cattrs import StructureHandlerNotFoundError

    if isinstance(error, StructureHandlerNotFoundError):
        return f"cannot be set in a file: {error} (a fault of the class, not of the file)"
    text = str(error.args[0]) if error.args else ""
    if not isinstance(error, _Refused | ValueError | TypeError):
        return f"{type(error).__name__}: {text}"
    # The validators of attrs begin with the field's name, which the path has already said.
    return re.sub(r"^'\w+' (?=must )", "", text) if keys else text
