"""BenchmarkJade's tables and logs, read as they were published: kept apart from what was measured here."""
