"""Rules for runs that were measured here, a file for each."""
