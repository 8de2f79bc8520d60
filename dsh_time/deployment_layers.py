"""How one layer of the deployment is put on another. Files have been checked before (`deployment_files`).

The deployment in the making is one Node tree (see `yaml_reader`), so every value keeps the file and line that said
it. Its `plugins` are complete entries: `{id, name, disabled, config}`. What does not fit is added to a list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from dsh_time.problems import Keys, Problem, describe, did_you_mean
from dsh_time.yaml_reader import Node, Origin, nearest

#: The plugins of this project, which may be known by name without being installed.
OWN_PLUGINS = ("dsh-anthropic", "dsh-openai", "dsh-subagents", "dsh-time-context", "dsh-time-reminder")

_PREFIX = "dsh-"


def merge(below: Node, above: Node) -> Node:
    """Return `above` put on `below`: mappings merge key by key, anything else is replaced."""
    if not (isinstance(below.value, Mapping) and isinstance(above.value, Mapping)):
        return above
    merged = dict(below.value)
    for key, child in above.value.items():
        merged[key] = merge(merged[key], child) if key in merged else child
    return attrs.evolve(above, value=merged)


def default_id(name: str) -> str:
    """Return the id of an entry that gives none."""
    return name.removeprefix(_PREFIX)


def complete_entry(entry: Node) -> Node:
    """Return a checked entry with all four keys."""
    given = said(entry)
    name: Any = given["name"].value
    defaults = {"id": default_id(name), "name": name, "disabled": False, "config": {}}
    absent = {key: attrs.evolve(entry, value=value) for key, value in defaults.items()}
    return attrs.evolve(entry, value={**absent, **given})


def said(node: Node) -> Mapping[str, Node]:
    """Return the keys of a mapping that have a value: a key without one says nothing."""
    assert isinstance(node.value, Mapping)
    return {key: child for key, child in node.value.items() if child.value is not None}


def apply_layer(tree: Node, layer: Node) -> Node:
    """Return the tree with a checked layer (or the `set` of a patch) on it.

    A list of plugins replaces the one below.
    """
    assert isinstance(tree.value, Mapping)
    if layer.value is None:
        return tree
    result = dict(tree.value)
    for section, node in said(layer).items():
        if section == "plugins":
            assert isinstance(node.value, tuple)
            result[section] = attrs.evolve(node, value=tuple(complete_entry(entry) for entry in node.value))
        elif section == "model":
            result[section] = put_model(result[section], node)
        elif section == "models":
            result[section] = _put_models(result[section], node)
        else:
            result[section] = merge(result[section], node)
    return attrs.evolve(tree, value=result)


def put_model(below: Node, above: Node) -> Node:
    """Return one layer's `model` on another's. Settings belong to a provider: those of another one do not stay."""
    if isinstance(below.value, Mapping) and isinstance(above.value, Mapping):
        old, new = (said(node).get("provider") for node in (below, above))
        if old is None or new is None or old.value == new.value:
            return merge(below, above)
    return above if above.value != {} else below


def _put_models(below: Node, above: Node) -> Node:
    assert isinstance(below.value, Mapping)
    models = dict(below.value)
    for name, settings in said(above).items():
        models[name] = put_model(models[name], settings) if name in models else settings
    return attrs.evolve(above, value=models)


def apply_patch(tree: Node, patch: Node, problems: list[Problem]) -> Node:
    """Return the tree with the items of a checked patch applied in order."""
    assert isinstance(tree.value, Mapping)
    for index, item in enumerate(patch.value if isinstance(patch.value, tuple) else ()):
        assert isinstance(item.value, Mapping)
        if "set" in item.value:
            tree = apply_layer(tree, item.value["set"])
            continue
        entries = list(entries_of(tree))
        if "insert" in item.value:
            inserted: Any = item.value["insert"].value
            for position, entry in enumerate(inserted):
                _insert(entries, complete_entry(entry), (index, "insert", position), problems)
        else:
            _change(entries, item, (index,), problems)
        tree = with_entries(tree, entries)
    return tree


def entries_of(tree: Node) -> tuple[Node, ...]:
    """Return the entries of a deployment in the making."""
    entries = nearest(tree, ("plugins",)).value
    assert isinstance(entries, tuple)
    return entries


def with_entries(tree: Node, entries: Sequence[Node]) -> Node:
    """Return the tree with these entries in place of its own."""
    assert isinstance(tree.value, Mapping)
    return attrs.evolve(
        tree, value={**tree.value, "plugins": attrs.evolve(tree.value["plugins"], value=tuple(entries))}
    )


def _word(entry: Node, key: str) -> str:
    return str(nearest(entry, (key,)).value)


def _find(entries: Sequence[Node], key: str, word: str) -> int | None:
    return next((index for index, entry in enumerate(entries) if _word(entry, key) == word), None)


def _insert(entries: list[Node], entry: Node, keys: Keys, problems: list[Problem]) -> None:
    name, entry_id = _word(entry, "name"), _word(entry, "id")
    index = _find(entries, "id", entry_id)
    if index is None:
        entries.append(entry)
    elif _word(entries[index], "name") == name:
        entries[index] = merge(entries[index], entry)
    else:
        taken = f"the id {entry_id} belongs to {_word(entries[index], 'name')} ({entries[index].place})"
        problems.append(Problem(keys, f"{taken}; give this entry another id", place=entry.place))


def _change(entries: list[Node], change: Node, keys: Keys, problems: list[Problem]) -> None:
    given = said(change)
    entry_id = _word(change, "id")
    index = _find(entries, "id", entry_id)
    if index is None:
        ids = [_word(entry, "id") for entry in entries]
        hint = did_you_mean(entry_id, ids) or f"; the ids are: {', '.join(ids) or 'none'}"
        problems.append(
            Problem((*keys, "id"), f"no entry has the id {describe(entry_id)}{hint}", place=given["id"].place)
        )
    elif "name" in given and given["name"].value != _word(entries[index], "name"):
        message = f"the entry {entry_id} is {_word(entries[index], 'name')}; a patch cannot change that"
        problems.append(Problem((*keys, "name"), message, place=given["name"].place))
    else:
        entries[index] = merge(entries[index], attrs.evolve(change, value=given))


def apply_switch(
    tree: Node, word: str, installed: Collection[str], problems: list[Problem], *, disabled: bool, place: str = ""
) -> Node:
    """Return the tree with one `--enable WORD` or `--disable WORD` applied; `place` if it was said in other words.

    The word is an entry's id, else an entry's name, else (enable only) an installed plugin's name, which is
    then added; a name may stand without `dsh-`. To disable an installed plugin that is not listed changes
    nothing.
    """
    origin = Origin(place or f"--{'disable' if disabled else 'enable'} {word}")
    entries = list(entries_of(tree))
    names = (word, _PREFIX + word)
    found = [_find(entries, "id", word), *(_find(entries, "name", name) for name in names)]
    index = next((index for index in found if index is not None), None)
    name = next((name for name in names if name in installed), None)
    if index is not None:
        switched = Node({"disabled": Node(disabled, origin)}, origin)
        entries[index] = merge(entries[index], switched)
    elif name is None:
        own = next((own for own in OWN_PLUGINS if own in names), None)
        known = [default_id(known) for known in installed] + [_word(entry, "id") for entry in entries]
        hint = to_install(own) if own else did_you_mean(word, known)
        hint = hint or f"; known are: {', '.join(sorted(set(known))) or 'none'}"
        problems.append(Problem((), f"there is no plugin {describe(word)}{hint}", place=origin.label))
    elif not disabled:
        entries.append(complete_entry(Node({"name": Node(name, origin)}, origin)))
    return with_entries(tree, entries)


def install_command(name: str) -> str:
    """Return the command that installs a plugin; its distribution has the plugin's name.

    This project's own ones are no packages of an index: they are installed from a clone, where the command is run.
    """
    return f"pip install ./plugins/{default_id(name)}" if name in OWN_PLUGINS else f"pip install {name}"


def to_install(name: str) -> str:
    """Return `; to install it: COMMAND`, the end of a message on a plugin that is not installed."""
    where = ", in a clone of dsh-time" if name in OWN_PLUGINS else ""
    return f"; to install it{where}: {install_command(name)}"


def check_entries(tree: Node, problems: list[Problem]) -> None:
    """Check what only the whole list shows: ids are unique, and a name is enabled once."""
    ids: dict[str, Node] = {}
    enabled: dict[str, Node] = {}
    for index, entry in enumerate(entries_of(tree)):
        name, entry_id = _word(entry, "name"), _word(entry, "id")
        first = ids.setdefault(entry_id, entry)
        if first is not entry:
            message = f"the id {entry_id} is taken by the entry at {first.place}; give one of them another id"
            problems.append(Problem(("plugins", index, "id"), message, place=entry.place))
        elif not nearest(entry, ("disabled",)).value:
            first = enabled.setdefault(name, entry)
            if first is not entry:
                message = f"{name} is already enabled by the entry at {first.place}; disable one of the two"
                problems.append(Problem(("plugins", index, "name"), message, place=entry.place))
