"""``inferbench bricks study``: figures of a corpus, and one model that fails among others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import helper

from inferbench_tasks.cli.main import main
from tests.report_page import charts_of
from tests.unit.bricks.graphs import residual, save, weight


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["bricks", "study", *arguments])
    return int(end.value.code or 0)


@pytest.fixture
def corpus(tmp_path: Path, data_dir: Path) -> Path:
    """A residual network twice under two names (one of them three copies), and a matrix product of open size."""
    first, second = residual(tmp_path / "first.onnx"), residual(tmp_path / "second.onnx")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    bad = save(tmp_path / "open.onnx", [node], {"w": weight(4, 4)}, {"x": (1, ("batch", "tokens", 4))})
    copies = "[" + ", ".join(f"{{id: {i}, name: row, layers: 11}}" for i in (1, 2, 3)) + "]"
    text = f"""summary: made up
source: nowhere
models:
  - {{model: {first}, family: f, publication: p, differs: two layers fewer, copies: {copies}}}
  - {{model: {second}, family: f, publication: p}}
"""
    path = tmp_path / "ours.yaml"
    path.write_text(text)
    path.with_name("bad.yaml").write_text(text + f"  - {{model: {bad}, family: f, publication: p}}\n")
    return path


def test_a_study_s_figures(corpus: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four models of nine layers, four of them unique, the two architectures alike; a second run says the same."""
    assert run(str(corpus), "-o", "json") == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["totals"] == {
        "models": 4, "architectures": 2, "layers": 36, "bricks": 36, "unique": 4, "unique_ratio": 4 / 36,
    }  # fmt: skip
    assert [row["new"] for row in document["models"]] == [4, 0]
    assert document["models"][0]["layers_of_source"] == 33
    assert document["jaccard"]["grid"] == [[1.0, 1.0], [1.0, 1.0]]
    assert "36 layers, 4 unique (11.1%)" in err
    assert "has 33 layers for these models, ours 27" in err
    [kept] = (data_dir / "bricks" / "studies").glob("*.json")
    assert kept.name == "file-ours-source-G1.json"  # whatever it is called, it is none of ours
    # Both files have one content, which is cut once.
    assert len(list((data_dir / "bricks" / "cuts").iterdir())) == 1
    assert run(str(corpus), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == document


def test_the_report_has_the_figures_and_their_charts(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One page by itself, with the three figures, what differs, and the paper's totals beside ours."""
    page = tmp_path / "page.html"
    assert run(str(corpus), "-G", "2", "--view", "portable", "--html", str(page)) == 0
    out, err = capsys.readouterr()
    assert "unique_ratio" in out and str(page) in err and "bricks of at most 2 layers" in err
    html = page.read_text()
    assert "two layers fewer" in html and "10,815" in html
    charts = charts_of(html)
    assert set(charts) == {"unique", "repeated", "jaccard"}
    assert charts["jaccard"]["data"][0]["z"] == [[1.0, 1.0], [1.0, 1.0]]
    shares = charts["unique"]["data"][0]["x"]
    assert len(shares) == 2 and shares[0] == shares[1] and 0 < shares[0] <= 100


def test_a_model_that_fails_is_named_and_the_others_go_on(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, the figures of the other two architectures, and why the third is in none of them."""
    assert run(str(corpus.with_name("bad.yaml")), "-o", "json") == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["totals"]["architectures"] == 2
    [failed] = document["failed"]
    assert failed["model"].endswith("open.onnx") and "open sizes" in failed["why"]
    assert "1 of 3 models can't be studied" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paper51"], "known: distinct50, paper50"),
        (["paper50", "-G", "11"], "less than or equal to 10"),
        (["paper50", "-G", "0"], "greater than or equal to 1"),
        (["paper50", "--view", "fast"], "known: runtime, portable, source"),
        (["unknown.yaml"], "resnet51"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2 and nothing on stdout; an unknown model of a corpus too."""
    monkeypatch.chdir(tmp_path)
    entry = "{model: resnet51, family: f, publication: p}"
    Path("unknown.yaml").write_text(f"summary: s\nsource: s\nmodels: [{entry}]\n")
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert message in err and not out
