"""Versions and constraints: node-semver's own examples, and what is refused."""

from __future__ import annotations

import pytest
from packaging.version import Version

from inferbench_tasks.contracts.versions import (
    Constraint,
    Requirement,
    any_version,
    same_version,
    semantic_version,
)


@pytest.mark.parametrize(
    ("constraint", "inside", "outside"),
    [
        # README of node-semver, "Caret Ranges"
        ("^1.2.3", ["1.2.3", "1.2.4", "1.9.9"], ["1.2.2", "2.0.0", "0.9.9"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0", "1.0.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.2", "0.0.4"]),
        ("^1.2.x", ["1.2.0", "1.9.0"], ["1.1.9", "2.0.0"]),
        ("^0.0.x", ["0.0.0", "0.0.9"], ["0.1.0"]),
        ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
        ("^1.x", ["1.0.0", "1.99.0"], ["0.9.0", "2.0.0"]),
        ("^0.x", ["0.0.0", "0.99.0"], ["1.0.0"]),
        ("^0", ["0.0.0", "0.99.0"], ["1.0.0"]),
        ("^0.0.0", ["0.0.0"], ["0.0.1"]),
        ("^1.2", ["1.2.0", "1.10.0"], ["1.1.9", "2.0.0"]),
        ("^1.2.3-beta.2", ["1.2.3b2", "1.2.3b4", "1.2.3", "1.3.0"], ["1.2.3b1", "1.2.4b2", "2.0.0b1"]),
        # "Tilde Ranges"
        ("~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"]),
        ("~1.2", ["1.2.0", "1.2.9"], ["1.1.9", "1.3.0"]),
        ("~1", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0"]),
        ("~0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0"]),
        ("~0", ["0.0.0", "0.9.9"], ["1.0.0"]),
        ("~1.2.3-beta.2", ["1.2.3b2", "1.2.3b4", "1.2.9"], ["1.2.4b2", "1.3.0"]),
        # "X-Ranges"
        ("*", ["0.0.0", "9.9.9"], ["1.0.0rc1"]),
        ("1.x", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0"]),
        ("1.2.x", ["1.2.0", "1.2.9"], ["1.1.9", "1.3.0"]),
        ("1.2.*", ["1.2.0"], ["1.3.0"]),
        ("1", ["1.0.0", "1.9.9"], ["2.0.0"]),
        ("1.2", ["1.2.0", "1.2.9"], ["1.3.0"]),
        # comparisons, with whole versions and with parts of them
        (">=1.20,<1.30", ["1.20.0", "1.29.9"], ["1.19.9", "1.30.0", "1.30.0rc1"]),
        (">=1.20 <1.30", ["1.20.0", "1.29.9"], ["1.19.9", "1.30.0"]),
        (">= 1.20, < 1.30", ["1.20.0"], ["1.30.0"]),
        (">1.2", ["1.3.0"], ["1.2.9"]),
        ("<=1.2", ["1.2.9"], ["1.3.0"]),
        (">1.2.3", ["1.2.4"], ["1.2.3"]),
        ("<=1.2.3", ["1.2.3"], ["1.2.4"]),
        ("1.2.3", ["1.2.3"], ["1.2.4", "1.2.2"]),
        ("==1.2.3", ["1.2.3"], ["1.2.4"]),
        ("v1.2.3", ["1.2.3"], ["1.2.4"]),
        ("^1.2,!=1.3.0", ["1.2.0", "1.3.1"], ["1.3.0"]),
        (">1.2.3-alpha.3", ["1.2.3a7", "3.4.5"], ["3.4.5a9"]),
        ("1.2.7 || >=1.2.9 <2.0.0", ["1.2.7", "1.2.9", "1.4.6"], ["1.2.8", "2.0.0"]),
    ],
)  # fmt: skip
def test_a_constraint_means_what_npm_says(constraint: str, inside: list[str], outside: list[str]) -> None:
    """The ranges of node-semver's documentation, written out."""
    parsed = Constraint.parse(constraint)
    assert [text for text in inside if not parsed.allows(Version(text))] == []
    assert [text for text in outside if parsed.allows(Version(text))] == []


def test_a_build_counts_as_its_version() -> None:
    """PyTorch calls itself 2.13.0+cpu; it is 2.13.0."""
    assert Constraint.parse("<=2.13.0").allows(Version("2.13.0+cpu"))
    assert Constraint.parse("2.13.0").allows(Version("2.13.0+cpu"))


def test_the_newest_that_fits_is_taken_by_number_not_by_letter() -> None:
    """1.10 is newer than 1.9."""
    versions = ["1.9.0", "1.10.0", "1.2.0", "2.0.0", "1.11.0rc1"]
    assert Constraint.parse("^1.2").newest(versions) == "1.10.0"
    assert Constraint.parse("3.x").newest(versions) is None


@pytest.mark.parametrize(
    "text",
    ["", " ", "one", "1..2", "^", ">=", "^1.2,", ",1.2", "1.x.3", "1.2.3.4.5", "~=1.2", "=>1.2", "1.2-1.4", "^1.2 ||",
     "!=1.2", "<x", "1.2rc1", "1" * 300, "9" * 10, "^1.2;import os"],
)  # fmt: skip
def test_what_is_no_constraint_is_refused(text: str) -> None:
    """Never read as something that it does not say."""
    with pytest.raises(ValueError, match=r"1\.2"):
        Constraint.parse(text)


@pytest.mark.parametrize(
    "text", ["1", "1.2", "1.2.3.4", "01.2.3", "1.2.3+cpu", "v1.2.3", "latest", "1.2.x", ""]
)
def test_a_manifests_version_has_three_numbers(text: str) -> None:
    """Whatever else packaging would read."""
    with pytest.raises(ValueError, match="three numbers"):
        semantic_version(text)


def test_spellings_of_one_version_are_one() -> None:
    """So that a version can't be there twice with other content."""
    assert semantic_version("1.2.0-rc.1") == semantic_version("1.2.0rc1") == "1.2.0rc1"
    assert any_version("2.13") == "2.13"
    with pytest.raises(ValueError, match="numbers with dots"):
        any_version("2.13.0+cpu")


def test_a_requirement_is_a_name_with_a_constraint() -> None:
    """As pip writes it, with an @, or bare."""
    for text, name, constraint in (
        ("onnxruntime>=1.20,<1.30", "onnxruntime", ">=1.20,<1.30"),
        ("digits@^1.2", "digits", "^1.2"),
        ("onnxruntime @ 1.x", "onnxruntime", "1.x"),
        ("all-minilm-l6-v2", "all-minilm-l6-v2", "*"),
        ("squeezenet1.0@~1", "squeezenet1.0", "~1"),
        ("scikit-learn^1", "scikit-learn", "^1"),
    ):
        requirement = Requirement.parse(text)
        assert (requirement.name, requirement.constraint.text) == (name, constraint)
    for text in ("", "@1", "a b", "../x@1", "a@", "x;y>=1"):
        with pytest.raises(ValueError, match="allowed"):
            Requirement.parse(text)


def test_a_version_without_a_build_is_any_build_of_it() -> None:
    """Two builds are the same only if both are that one."""
    assert same_version("2.13.0", "2.13.0") and same_version("2.13.0+cpu", "2.13.0")
    assert same_version("2.13.0", "2.13.0+cu12") and same_version("2.13.0+cpu", "2.13.0+cpu")
    assert not same_version("2.13.0+cpu", "2.13.0+cu12") and not same_version("2.13.0", "2.13.1")
