"""`config` and `init`: what applies, and the starter file."""

from __future__ import annotations

from pathlib import Path

import click

from .invocation import Invocation, pass_invocation
from .output import say


@click.command()
@pass_invocation
def config(invocation: Invocation) -> None:
    """Print the deployment that applies, and where each value was said.

    The output is a deployment file. Secrets are hidden in it.
    """
    say(invocation.deployment.to_yaml(), newline=False)


@click.command()
@click.option("--user", is_flag=True, help="Write the user's config file instead.")
def init(user: bool) -> None:
    """Write ./dsh-time.yaml, a deployment file with every setting commented out.

    A file that exists already is left as it is.
    """
    from dsh_time.deployment import PROJECT_FILE, user_config_file
    from dsh_time.deployment_text import write_init

    path = user_config_file() if user else Path(PROJECT_FILE)
    write_init(path)
    say(f"Wrote {path}. All settings in it are commented out.")
