"""The entry point: `dsh-time`, or `python -m dsh_time`. Imports nothing before it can take Ctrl-C."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C is no traceback, also while the program is still being loaded."""
    try:
        from dsh_time.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
