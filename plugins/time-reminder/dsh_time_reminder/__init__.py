"""A clock of adjustable precision for the model, and counters that related sessions can read."""

from .plugin import TimeReminder

__all__ = ["TimeReminder"]
