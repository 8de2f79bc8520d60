"""dsh-time plugin: zoned time and the gap since the last message, in the system prompt."""
