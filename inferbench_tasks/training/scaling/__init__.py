"""How a training scales over ranks: what was measured, where the rest of it went, and what to expect of more."""
