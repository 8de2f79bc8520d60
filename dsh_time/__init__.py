"""dsh-time: a minimal agent-loop harness whose agents know the time. Importing this package imports nothing heavy."""

__version__ = "0.1.0"
