"""A server of streams of tokens without a model: its pace is given, and its own log is the truth about it."""
