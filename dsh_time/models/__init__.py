"""The models that come with the host."""
