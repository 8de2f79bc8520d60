"""The contract between the dsh-time host and its plugins."""
