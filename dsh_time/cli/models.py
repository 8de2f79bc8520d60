"""`models`: which models are configured, and whether their keys are there. A key itself is never read out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve, frozen

from .invocation import Invocation, pass_invocation
from .output import say_json, say_table

if TYPE_CHECKING:
    from dsh_time.deployment import Deployment
    from dsh_time.plugin_host import PluginHost


@frozen
class _Row:
    """A model. `key_variable` names what its key is read from; None when it needs none, or that is not known."""

    name: str
    provider: str
    model: str
    used: bool
    key_variable: str | None = None
    key_present: bool | None = None
    problem: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@pass_invocation
def models(invocation: Invocation, as_json: bool) -> None:
    """List the models that the deployment names, and where their keys come from.

    The one marked with * answers; `--model NAME` chooses another. No key is shown, and no server is asked.
    """
    from dsh_time.plugin_host import PluginHost

    deployment = invocation.deployment
    everything = deployment.with_all_providers(invocation.sources)
    rows = list(_rows(deployment, PluginHost(everything, sources=invocation.sources, tolerant=True)))
    if as_json:
        say_json([_json(row) for row in rows])
        return
    cells = [("*" if row.used else "", row.name, row.provider, row.model, _key(row), row.problem) for row in rows]
    say_table(("", "name", "provider", "model", "key", "problem"), cells)


def _rows(deployment: Deployment, host: PluginHost) -> Iterator[_Row]:
    used = [name for name, settings in deployment.models.items() if settings == deployment.model]
    if not used:
        yield _row(deployment, host, None, used=True)
    for name in deployment.models:
        yield _row(deployment, host, name, used=name in used[:1])


def _row(deployment: Deployment, host: PluginHost, name: str | None, *, used: bool) -> _Row:
    from dsh_time.errors import DeploymentError
    from dsh_time.models import BUILT_IN

    written = deployment.model if name is None else deployment.models[name]
    row = _Row(name or "", written["provider"], str(written.get("model", "")), used)
    provider = host.loadout.providers.get(row.provider) or BUILT_IN.get(row.provider)
    if provider is None:
        return evolve(row, problem=f"nobody offers this provider. {host.advice(row.provider)}")
    try:
        settings: Any = deployment.model_settings(provider.settings, name)
    except DeploymentError as error:
        return evolve(row, problem="; ".join(map(str, error.problems)))
    variable = provider.key_variable(settings)
    present = None if variable is None else bool(os.environ.get(variable, "").strip())
    return evolve(row, model=str(getattr(settings, "model", "")), key_variable=variable, key_present=present)


def _key(row: _Row) -> str:
    if row.key_variable is None:
        return "" if row.problem else "none needed"
    return f"{row.key_variable}, {'set' if row.key_present else 'not set'}"


def _json(row: _Row) -> dict[str, object]:
    from dsh_time.structure import camel_case

    return {camel_case(name): value for name, value in asdict(row).items()}
