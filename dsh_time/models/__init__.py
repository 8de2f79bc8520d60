"""The models that come with the host. `BUILT_IN` finds them by name; each is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsh_hookspecs import ModelProvider


class _ByName(Mapping[str, "ModelProvider"]):
    """Providers by name, each imported from its module's `PROVIDER` when it is looked up."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def __getitem__(self, name: str) -> ModelProvider:
        provider: ModelProvider = import_module(self._modules[name]).PROVIDER
        return provider

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


#: The host's own providers by name. Names can be listed and tested without importing a provider.
BUILT_IN: Mapping[str, ModelProvider] = _ByName({"demo": "dsh_time.models.demo"})
