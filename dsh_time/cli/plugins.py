"""`plugins`: what is installed, what is enabled, and why something is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from .invocation import Invocation, pass_invocation
from .output import say_json, say_table

if TYPE_CHECKING:
    from dsh_time.plugin_host import PluginStatus


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@pass_invocation
def plugins(invocation: Invocation, as_json: bool) -> None:
    """List the plugins: those of the deployment in their order, then others that are installed.

    Only enabled plugins are imported. One that cannot be loaded is listed with the reason.
    """
    statuses = invocation.plugins(tolerant=True).statuses()
    if as_json:
        from attrs import asdict

        say_json([asdict(status) for status in statuses])
    else:
        say_plugins(statuses)


def say_plugins(statuses: Iterable[PluginStatus]) -> None:
    """Print plugins as a table. A plugin has its distribution's name, so that stands in the JSON only."""
    rows = [
        (
            "" if status.order is None else str(status.order),
            status.name,
            status.version,
            status.state,
            status.reason,
            ", ".join(status.hooks),
        )
        for status in statuses
    ]
    say_table(("order", "name", "version", "state", "reason", "hooks"), rows)
