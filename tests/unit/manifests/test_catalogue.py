"""Reading, resolving, comparing manifests: known values, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.manifests import catalogue as catalogue_of
from inferbench_tasks.manifests.catalogue import Catalogue, Entry, files, parse_id
from inferbench_tasks.manifests.difference import differences
from inferbench_tasks.manifests.kinds.base import KINDS, Manifest
from inferbench_tasks.manifests.reading import of_document, of_plain
from inferbench_tasks.manifests.reference import COMMAND, FILE, markdown
from inferbench_tasks.submission.document import read_document

ROOT = Path(__file__).parents[3]
SCENARIO = "kind: scenario\nname: calm\nversion: 1.2.0\nload:\n  arrivals: {kind: poisson, rate_rps: 5}\n"


def scenario(version: str, rate: float = 5) -> Manifest:
    load = {"arrivals": {"kind": "poisson", "rate_rps": rate}}
    return of_plain({"kind": "scenario", "name": "calm", "version": version, "load": load}, "a test")


def problems(text: str) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        of_document(read_document(text, "x.yaml"))
    return [str(problem) for problem in caught.value.problems]


def test_the_digest_is_of_what_is_said_not_of_how() -> None:
    """Order, a default that is spelled out, and the spelling of a version make no difference; a value does."""
    first = of_document(read_document(SCENARIO, "x.yaml"))
    other = (
        "version: 1.2.0\nkind: scenario\n"
        "load: {duration_s: 10.0, arrivals: {rate_rps: 5.0, kind: poisson}}\nname: calm\n"
    )
    assert of_document(read_document(other, "y.yaml")).digest == first.digest
    assert scenario("1.2.0").digest == first.digest
    assert scenario("1.2.0", 6).digest != first.digest and scenario("1.2.1").digest != first.digest


def test_problems_have_their_line_and_what_is_allowed() -> None:
    """A malformed version, an unknown key, a missing and a wrong value: all at once."""
    told = problems(
        "kind: scenario\nname: calm\nversion: 1.2\nloda: 1\nload:\n  arrivals: {kind: poisson, rate_rps: fast}\n"
    )
    assert any(text.startswith("x.yaml:3: version:") for text in told)
    assert any(text.startswith("x.yaml:4: loda: unknown key; known: kind, name, version") for text in told)
    assert any(text.startswith("x.yaml:6: load.arrivals.rate_rps: must be a number") for text in told)
    assert problems("kind: modle\n") == [
        f"x.yaml:1: kind: unknown kind of manifest 'modle'; did you mean 'model'? known: {', '.join(KINDS)}"
    ]
    told = problems(SCENARIO.replace("1.2.0", '"1.2"'))
    assert told == ["x.yaml:3: version: '1.2' is no version; a version is three numbers such as 1.2.0, or 1.2.0-rc.1 "
                    "before a release"]  # fmt: skip
    nested = problems(SCENARIO + "  scenario: poisson-50@^1\n")
    assert len(nested) == 1 and "a scenario names no other scenario" in nested[0]
    stack = "kind: stack\nname: s\nversion: 1.0.0\nbackend: x\nformat: onnx\nframework: 'a~=1'\n"
    assert problems(stack)[0].startswith("x.yaml:6: framework: 'a~=1'") or "~=1" in problems(stack)[0]
    assert "device" in problems(stack.replace("framework: 'a~=1'", "settings: {device: cpu}"))[0]


def test_the_newest_that_fits_is_taken_and_nothing_says_what_there_is() -> None:
    """1.10.0 before 1.9.0; a constraint without a version names them, a name without a manifest the names."""
    catalogue = Catalogue([Entry(scenario(v), "a test") for v in ("1.9.0", "1.10.0", "2.0.0")])
    assert catalogue.resolve("scenario", "calm", "^1.2").manifest.version == "1.10.0"
    assert [e.manifest.version for e in catalogue.entries("scenario")] == ["2.0.0", "1.10.0", "1.9.0"]
    with pytest.raises(InputError, match=r"calm fits '\^3'; there are: 2\.0\.0, 1\.10\.0, 1\.9\.0"):
        catalogue.resolve("scenario", "calm", "^3")
    with pytest.raises(InputError, match="did you mean 'calm'"):
        catalogue.resolve("scenario", "clam")
    with pytest.raises(InputError, match="allowed are"):
        catalogue.resolve("scenario", "calm", "newest")


def test_a_version_with_two_contents_is_refused_and_says_where() -> None:
    """The same twice is no matter."""
    Catalogue([Entry(scenario("1.0.0"), "PerfDB"), Entry(scenario("1.0.0"), "a file")])
    with pytest.raises(
        InputError, match="one content in PerfDB .* and another in a file .* a version never changes"
    ):
        Catalogue([Entry(scenario("1.0.0"), "PerfDB"), Entry(scenario("1.0.0", 6), "a file")])


def test_what_a_release_brings_beside_other_content_in_perfdb_blocks_that_version_alone() -> None:
    """Both are listed as being in conflict; whoever names that version is told the remedy, which is another version."""
    built_in, stored = Entry(scenario("1.0.0"), "built-in"), Entry(scenario("1.0.0", 6), "PerfDB")
    older = Entry(scenario("0.9.0"), "built-in")
    catalogue = Catalogue([older, built_in, stored])
    assert [(row["version"], row["origin"]) for row in (entry.row() for entry in catalogue.entries())] == [
        ("1.0.0", "built-in, in conflict with PerfDB"),
        ("1.0.0", "PerfDB, in conflict with built-in"),
        ("0.9.0", "built-in"),
    ]
    assert {entry.manifest.digest for entry in catalogue.entries()} == {
        entry.manifest.digest for entry in (older, built_in, stored)
    }
    assert catalogue.resolve("scenario", "calm", "^0.9").entry == older
    with pytest.raises(
        InputError, match=r"calm@1\.0\.0 is in conflict: .* Give yours another version .* and name that"
    ):
        catalogue.resolve("scenario", "calm", "*")
    added = Catalogue([*catalogue.entries(), Entry(scenario("1.0.1", 6), "PerfDB")])
    assert added.resolve("scenario", "calm", "^1").manifest.version == "1.0.1"
    for rate in (5, 6, 7):  # a third content, or either again
        with pytest.raises(InputError, match=r"another in x\.yaml .* a version never changes"):
            Catalogue([*catalogue.entries(), Entry(scenario("1.0.0", rate), "x.yaml")])


def test_a_wrong_file_hides_no_other_from_a_page_and_stops_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown has the good ones, built in or lying beside it, and names each bad file with its error: one that
    can't be read, and one whose version has another content. Who resolves anything is refused.
    """
    folder = tmp_path / "manifests"
    folder.mkdir()
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(tmp_path))
    (folder / "calm.yaml").write_text(SCENARIO)
    assert Catalogue.shown(None, "scenario").wrong == ()
    (folder / "bad.yaml").write_text(SCENARIO.replace("1.2.0", "one"))
    (folder / "other.yaml").write_text(SCENARIO.replace("rate_rps: 5", "rate_rps: 6"))
    shown = Catalogue.shown(None, "scenario")
    assert shown.resolve("scenario", "calm").entry.origin == "configs/manifests/calm.yaml"
    malformed, twice = shown.wrong
    assert "bad.yaml:3: version: 'one' is no version" in malformed
    assert "scenario:calm@1.2.0 has one content in" in twice and "other.yaml" in twice
    assert Catalogue.shown(None, "stack").entries("stack", "onnxruntime")
    with pytest.raises(SubmissionError, match="is no version"):
        Catalogue.here(None)
    (folder / "bad.yaml").unlink()
    with pytest.raises(InputError, match="has one content in"):
        Catalogue.here(None)


def test_of_too_many_files_the_first_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With how many there are; whoever resolves is refused."""
    monkeypatch.setattr(catalogue_of, "MAX_FILES", 1)
    for number in (1, 2):
        (tmp_path / f"{number}.yaml").write_text(SCENARIO.replace("1.2.0", f"{number}.0.0"))
    wrong: list[str] = []
    assert [entry.manifest.version for entry in files(tmp_path, wrong)] == ["1.0.0"]
    assert len(wrong) == 1 and "has 2 manifests; at most 1 are read" in wrong[0]
    with pytest.raises(InputError, match="at most 1 are read"):
        list(files(tmp_path))


def test_ids_are_kind_name_and_constraint() -> None:
    """With all parts, without constraint, without kind; and what is none."""
    assert parse_id("model:digits@^1") == ("model", "digits", "^1")
    assert parse_id("framework:onnxruntime>=1.20") == ("framework", "onnxruntime", ">=1.20")
    assert parse_id("digits") == ("", "digits", "*")
    for text in ("modle:digits", "model:", "model:digits@~=1", "../x"):
        with pytest.raises(InputError):
            parse_id(text)


def test_the_files_that_come_with_inferbench_are_manifests() -> None:
    """Each is named as its file."""
    entries = list(files(ROOT / "configs" / "manifests"))
    assert {entry.manifest.name for entry in entries} >= {
        "single-stream", "multi-stream", "server-50", "offline", "onnxruntime-batching", "onnxruntime-int8",
    }  # fmt: skip
    assert all(entry.origin.endswith(f"/{entry.manifest.name}.yaml") for entry in entries)


def test_a_difference_names_each_field() -> None:
    """By dotted path, both values; what is the same is not told."""
    rows = differences(scenario("1.0.0").content(), scenario("1.1.0", 6).content(), "old", "new")
    assert rows == [
        {"field": "version", "old": "1.0.0", "new": "1.1.0"},
        {"field": "load.arrivals.rate_rps", "old": 5.0, "new": 6.0},
    ]


def test_the_reference_in_docs_is_up_to_date() -> None:
    """Otherwise: run what the message says."""
    assert (ROOT / "docs" / "reference" / FILE).read_text() == markdown(), f"run: {COMMAND}"
