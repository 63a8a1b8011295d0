"""Files and messages that were made to do harm; each is refused with a message."""
