"""The command `dsh-time cron`: says when an expression fires, or why it is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from dsh_hookspecs.timefmt import BadZone, InstantOutOfRange, format_stamp, load_zone, local_time

from .answers import EITHER_DAY
from .cron import BadCron, parse_cron
from .fires import next_fires
from .modes import process_zone

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_MOST_FIRES = 1000


# Unknown options are arguments: an expression may begin with a minus, and is then refused with its reason.
@click.command(
    "cron", short_help="Say when a cron expression fires.", context_settings={"ignore_unknown_options": True}
)
@click.argument("expression")
@click.option("--zone", "zone_name", metavar="ZONE", help="IANA zone it is read in (default: this machine's).")
@click.option("--after", metavar="TIME", help="ISO time; without an offset it is the zone's own (default: now).")
@click.option("-n", "count", type=click.IntRange(1, _MOST_FIRES), default=5, show_default=True, help="How many fires.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: {next: [...]} or {refused: reason}.")
def cron_command(expression: str, zone_name: str | None, after: str | None, count: int, as_json: bool) -> None:
    """Say when a cron EXPRESSION fires next, or why it is refused (exit code 1)."""
    try:
        zone = load_zone(process_zone() if zone_name is None else zone_name)
    except BadZone as error:
        raise click.BadParameter(str(error), param_hint="--zone") from None
    start = datetime.now(UTC) if after is None else _instant(after, zone)
    try:
        cron = parse_cron(expression)
    except BadCron as error:
        if as_json:
            click.echo(json.dumps({"refused": str(error)}, ensure_ascii=False))
        else:
            click.echo(f"refused: {error}", err=True)
        raise click.exceptions.Exit(1) from None
    try:
        fires = next_fires(cron, zone, start, count)
    except InstantOutOfRange as error:
        raise click.BadParameter(str(error), param_hint="--after") from None
    if as_json:
        stamps = [local_time(fire, zone).isoformat(timespec="seconds") for fire in fires]
        click.echo(json.dumps({"next": stamps}))
        return
    for fire in fires:
        click.echo(format_stamp(fire, zone))
    if cron.either_day:
        click.echo(EITHER_DAY, err=True)


def _instant(text: str, zone: ZoneInfo) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is no ISO time, like 2026-03-08T00:00 or 2026-03-08T00:00:00-05:00"
        raise click.BadParameter(problem, param_hint="--after") from None
    return instant.replace(tzinfo=zone) if instant.tzinfo is None else instant
