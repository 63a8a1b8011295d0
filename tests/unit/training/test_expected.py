"""Factors between devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.catalogue import CONFIG_DIR
from inferbench_tasks.errors import InputError
from inferbench_tasks.training.expected import ExpectedSpeed, expectation

ROW = "  - {{device: {0}, of: {1}, speed: {2}, source: s, date: '2023'{3}}}\n"


def test_factors_multiply_along_the_way() -> None:
    """JADE2's V100 is 0.67 of a V100, which is 0.943 of an A40: 0.632, and the other way about 1.583."""
    found = expectation("JADE2/V100", "A40", count=1, precision="fp32")
    assert found is not None and found.speed == pytest.approx(0.67 * 0.943) and len(found.steps) == 2
    back = expectation("A40", "JADE2/V100", count=1, precision="fp32")
    assert back is not None and back.speed == pytest.approx(1 / (0.67 * 0.943))
    eight = expectation("JADE2/V100", "A40", count=8, precision="fp32")
    assert eight is not None and eight.speed == pytest.approx(0.67 * 0.927)


def test_a_factor_of_other_counts_and_precisions_says_nothing() -> None:
    """Neither does the table of devices that it has not."""
    assert expectation("V100", "A40", count=4, precision="fp32") is None
    assert expectation("V100", "A40", count=1, precision="fp16") is None
    assert expectation("V100", "H100", count=1, precision="fp32") is None


@pytest.mark.parametrize(
    "rows",
    [
        (("a", "b", 2, ""), ("b", "c", 2, ""), ("c", "a", 2, "")),
        (("a", "a", 2, ""),),
        (("a", "b", 2, ""), ("b", "a", 0.4, ", count: 8")),
    ],
)
def test_expected_speeds_that_lead_in_a_circle_are_refused(
    rows: tuple[tuple[str, str, float, str], ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ways between two devices could disagree, at some number of devices at least."""
    text = "rows:\n" + "".join(ROW.format(*row) for row in rows)
    (tmp_path / "expected_speed.yaml").write_text(text)
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    with pytest.raises(InputError, match="lead in a circle"):
        expectation("a", "b", count=1, precision=None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROW.format("a", "b", 0, ""), "(?s)row 1: .*greater than or equal to 0.000001"),
        (ROW.format("a", "b", -1, ""), "(?s)row 1: .*greater than or equal to 0.000001"),
        (ROW.format("a", "b", ".inf", ""), "(?s)row 1: .*finite"),
        (ROW.format("a", "b", ".nan", ""), "(?s)row 1: .*finite"),
        (ROW.format("a", "b", 2, ", precision: FP32"), "(?s)row 1: .*'fp32', 'tf32', 'bf16' or 'fp16'"),
        (ROW.format("a", "b", 2, ", count: 0"), "(?s)row 1: .*count"),
        ("  - {device: a, speed: 2, source: s, date: '2023'}\n", "(?s)row 1: .*of.*required"),
        ("", "a list under `rows:`; got NoneType"),
    ],
)
def test_factors_that_are_none_are_refused(
    rows: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file and the row, before anything is reckoned by them: 0, negative and endless speeds, a precision that
    there is not (which no run would ever match), no count, no other device, no row.
    """
    (tmp_path / "expected_speed.yaml").write_text(f"rows:\n{rows}")
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    with pytest.raises(InputError, match=message):
        expectation("a", "b", count=1, precision=None)


def test_factors_that_multiply_to_no_speed_are_refused() -> None:
    """Each of two is possible, a millionth of a millionth is not: it is said by which factors, and nothing is divided
    by what is left of it.
    """
    given = [speed("a", "b", 1e-6), speed("b", "c", 1e-6)]
    with pytest.raises(InputError, match=r"from a to c multiply to 1e-12.*a 1e-06 x b.*b 1e-06 x c"):
        expectation("a", "c", count=1, precision=None, given=given)


def speed(device: str, of: str, factor: float) -> ExpectedSpeed:
    return ExpectedSpeed(device=device, of=of, speed=factor, source="s", date="2024")


def test_given_factors_stand_beside_the_table_and_before_it() -> None:
    """A new device is led to by the table's; a row for the same pair, precision and count replaces the table's own."""
    found = expectation("new", "A40", count=1, precision="fp32", given=[speed("new", "V100", 2.0)])
    assert found is not None and found.speed == pytest.approx(2 * 0.943)
    own = ExpectedSpeed(
        device="V100", of="A40", speed=0.5, precision="fp32", count=1, source="measured", date="2025"
    )
    replaced = expectation("V100", "A40", count=1, precision="fp32", given=[own])
    assert replaced is not None and replaced.speed == 0.5
    assert expectation("V100", "A40", count=8, precision="fp32", given=[own]) is not None


def test_given_factors_that_close_a_circle_with_the_table_are_refused() -> None:
    """JADE2's V100 is there by way of the V100."""
    with pytest.raises(InputError, match="the factors given, beside .* lead in a circle"):
        expectation("a", "b", count=1, precision="fp32", given=[speed("JADE2/V100", "A40", 0.6)])
