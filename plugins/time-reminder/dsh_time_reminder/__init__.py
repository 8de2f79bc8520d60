"""A clock of adjustable precision for the model, and counters that related sessions can read."""
