"""The deployment as text: what applies and where it was said, and the starter file that `init` writes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from dsh_time.errors import StarterFileError
from dsh_time.problems import Keys, Problem, format_path, is_secret
from dsh_time.yaml_reader import Node, plain

_HIDDEN = "(hidden)"


@attrs.frozen
class Setting:
    """One value that applies. `place` is `FILE:LINE:COLUMN`, `built in`, or the switch that said it."""

    path: str
    value: object
    place: str


def explain(tree: Node) -> tuple[Setting, ...]:
    """Return the scalars and empty collections of a tree in order. A value that may be a secret is hidden."""
    return tuple(
        Setting(format_path(keys), _HIDDEN if is_secret(keys) else plain(node), node.place)
        for keys, node in _leaves(tree, ())
    )


def _leaves(node: Node, keys: Keys) -> Iterator[tuple[Keys, Node]]:
    if isinstance(node.value, Mapping) and node.value:
        for key, child in node.value.items():
            yield from _leaves(child, (*keys, key))
    elif isinstance(node.value, tuple) and node.value:
        for index, child in enumerate(node.value):
            yield from _leaves(child, (*keys, index))
    else:
        yield keys, node


def render(tree: Node) -> str:
    """Return a tree as YAML that loads again, each value with its place as a comment. Secrets are hidden."""
    lines = list(_rendered(tree, (), ""))
    width = min(max(len(text) for text, _ in lines), 60)
    return "".join(f"{text:<{width}}  # {_printable(place)}\n" if place else f"{text}\n" for text, place in lines)


def _rendered(node: Node, keys: Keys, lead: str) -> Iterator[tuple[str, str]]:
    """Yield lines and places.

    `lead` is what stands before the node's first line; later ones are indented as far.
    """
    if isinstance(node.value, Mapping) and node.value:
        children: list[tuple[str | int, str, Node]] = [
            (key, f"{_text(key)}:", child) for key, child in node.value.items()
        ]
    elif isinstance(node.value, tuple) and node.value:
        children = [(index, "-", child) for index, child in enumerate(node.value)]
    else:
        yield f"{lead}{_scalar(_HIDDEN if is_secret(keys) else plain(node))}", node.place
        return
    indent = " " * len(lead)
    for position, (key, mark, child) in enumerate(children):
        start = lead if position == 0 else indent
        path = (*keys, key)
        nested = isinstance(child.value, Mapping | tuple) and len(child.value) > 0
        if nested and mark != "-":
            yield f"{start}{mark}", ""
            yield from _rendered(child, path, f"{indent}  ")
        else:
            yield from _rendered(child, path, f"{start}{mark} ")


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return repr(value).replace("inf", ".inf").replace("nan", ".nan")
    return json.dumps(value)  # null, true, a whole number, [] and {} are the same in YAML


def _text(value: str) -> str:
    """Return text as a YAML scalar: plain where that is safe, else quoted, with whatever a terminal must not
    see escaped.
    """
    if re.fullmatch(r"[A-Za-z/][A-Za-z0-9_./-]*", value) and value.lower() not in ("true", "false", "null"):
        return value
    return f'"{_printable(value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34)))}"'


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else f"\\U{ord(character):08x}" for character in text)


def init_text() -> str:
    """Return the starter file.

    All its settings are commented out (`#key:`, without a blank), so it changes nothing.
    """
    return """\
# dsh-time: what runs in this deployment. YAML 1.2.
# Take the # off a setting, and off the key it stands under, to change it. The values shown are the
# defaults, but for the last one.
# `dsh-time config` prints what applies and where each value comes from.

# Plugins, in the order in which they run. A list here replaces the one of the layers below;
# to change single entries, use a patch.
# `id` is free and defaults to the name without dsh-.
#plugins:
#  - name: dsh-time-context
#    disabled: true
#    config:
#      refreshIntervalMs: 60000
#      timeZone: UTC
#  - name: dsh-time-reminder
#    config:
#      defaultMode: cron
#      cron: '0 0 * * *'
#      fineIntervalMs: 0
#      counterNotice: inject
#      weekday: false
#      # timeZone: Asia/Shanghai  for all sessions; without it, the zone that a prompt came with

# The model: a provider and its settings. Keys and addresses (apiKey, apiKeyEnv, baseUrl) are read from
# the user config file or a file given with --config, never from ./dsh-time.yaml.
#model:
#  provider: demo

# More models, by names that `model:` and `--model NAME` take.
#models:
#  demo:
#    provider: demo

# What one turn may use.
#limits:
#  maxSteps: 50
#  toolTimeoutS: 120
#  toolOutputBytes: 65536
#  argumentBytes: 262144
#  slowHookMs: 50

# Where session logs are kept, if not in the system's folder for a user's data. A relative path starts at
# this file.
#sessions:
#  root: ./sessions
"""


def write_init(path: Path) -> None:
    """Write the starter file, readable by its owner alone (a key may be put into it). Makes the folder where
    there is none.

    Raises StarterFileError when something stands at `path` already, which is left as it is, or when it cannot
    be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(init_text())
    except FileExistsError:
        raise StarterFileError((Problem((), "exists already and is left as it is", place=str(path)),)) from None
    except OSError as error:
        raise StarterFileError((Problem((), f"cannot be written: {error.strerror}", place=str(path)),)) from error
