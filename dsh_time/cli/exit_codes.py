"""What the process says when it ends."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes; `docs/cli.md` has the table."""

    OK = 0
    #: Something is wrong and one message says what: settings, a plugin, a session, the disk, a tool that was called.
    ERROR = 1
    #: The command line itself is wrong.
    USAGE = 2
    #: A turn ended without being completed.
    INCOMPLETE = 3
    #: A log is damaged.
    DAMAGED = 4
    #: A bug.
    BUG = 70
    #: Ctrl-C.
    CANCELLED = 130
