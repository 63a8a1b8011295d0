"""A finding as an error: the same words, and its first field."""

from __future__ import annotations

from inferbench_tasks.submission.finding import Finding


def test_an_error_of_a_finding_says_the_same() -> None:
    """Its text is the finding's; the other fields are for those who can show several."""
    finding = Finding(("load.shards", "load.engine"), "MLPerf LoadGen is one sender: leave it out")
    error = finding.as_error()
    assert str(error) == str(finding) == "load.shards: MLPerf LoadGen is one sender: leave it out"
    assert (error.field, error.message) == (finding.fields[0], finding.message)
