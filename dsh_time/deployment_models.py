"""The models of a deployment: which of them answers, and which plugin has to be enabled for it.

Works on the Node tree of `deployment_layers`. `model` is a mapping with a `provider`, or the name of one in `models`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from dsh_time.deployment_files import is_name
from dsh_time.deployment_layers import complete_entry, default_id, entries_of, put_model, said, with_entries
from dsh_time.models import BUILT_IN
from dsh_time.problems import Problem, describe, did_you_mean
from dsh_time.yaml_reader import Node, Origin, nearest

#: The plugin of a provider is called like it, behind this.
_PREFIX = "dsh-"


def provider_plugin(provider: str) -> str:
    """Return the name of the plugin that is enabled for a provider which the deployment names."""
    return _PREFIX + provider


def choose_model(tree: Node, word: str | None, problems: list[Problem]) -> Node:
    """Return the tree with the settings of the model that answers as its `model`.

    `word` is what `--model` said: a name in `models`, or PROVIDER:MODEL, which keeps the other settings of `model`
    when that has the same provider. What cannot be used is added to `problems`.
    """
    models = _models(tree)
    for name, settings in models.items():
        if "provider" not in said(settings):
            message = "the key provider is missing; it says who offers the model"
            problems.append(Problem(("models", name), message, place=settings.place))
    model = nearest(tree, ("model",))
    if isinstance(model.value, str):
        named = models.get(model.value)
        if named is None and word not in models:
            message = f"there is no model {describe(model.value)} in models{_known(model.value, models)}"
            problems.append(Problem(("model",), message, place=model.place))
        model = named or model
    if word is not None:
        model = _switched(model, word, models, problems)
    if isinstance(model.value, Mapping) and "provider" not in said(model) and not problems:
        message = "the key provider is missing; a layer below says only the name of a model"
        problems.append(Problem(("model",), message, place=model.place))
    assert isinstance(tree.value, Mapping)
    return attrs.evolve(tree, value={**tree.value, "model": model})


def _models(tree: Node) -> Mapping[str, Node]:
    models = nearest(tree, ("models",)).value
    assert isinstance(models, Mapping)
    return models


def _switched(model: Node, word: str, models: Mapping[str, Node], problems: list[Problem]) -> Node:
    if word in models:
        return models[word]
    origin = Origin(f"--model {word}")
    provider, _, name = word.partition(":")
    if name and is_name(provider):
        return put_model(model, Node({"provider": Node(provider, origin), "model": Node(name, origin)}, origin))
    message = f"there is no model {describe(word)} (any other is named as PROVIDER:MODEL){_known(word, models)}"
    problems.append(Problem((), message, place=origin.label))
    return model


def _known(word: str, models: Mapping[str, Node]) -> str:
    return did_you_mean(word, models) or f"; the names are: {', '.join(models)}"


def enable_provider(tree: Node, settings: Node, installed: Collection[str]) -> Node:
    """Return the tree with the plugin of the provider that `settings` name, added if it is installed and not listed.

    So one that is listed as disabled stays so.
    """
    provider = said(settings)["provider"]
    assert isinstance(provider.value, str)
    name = provider_plugin(provider.value)
    entries = entries_of(tree)
    listed = {nearest(entry, (key,)).value for entry in entries for key in ("id", "name")}
    if provider.value in BUILT_IN or name not in installed or listed & {name, default_id(name)}:
        return tree
    added = complete_entry(attrs.evolve(provider, value={"name": attrs.evolve(provider, value=name)}))
    return with_entries(tree, [*entries, added])


def enable_all_providers(tree: Node, installed: Collection[str]) -> Node:
    """Return the tree with the plugins of all models' providers, as `enable_provider` adds them."""
    for settings in _models(tree).values():
        tree = enable_provider(tree, settings, installed)
    return tree
