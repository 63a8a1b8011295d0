"""The corpora that come with InferBench, and what is refused of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.bricks.corpus import corpora, parse_corpus, read_corpus
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo import ZOO

NO_CONVOLUTIONS = {"bert", "vit", "mixer", "recurrent"}


def test_the_paper_s_table_is_whole() -> None:
    """Fifty rows, each once, with the 10,815 layers of the paper."""
    copies = [copy for entry in read_corpus("paper50").models for copy in entry.copies]
    assert sorted(copy.id for copy in copies) == list(range(1, 51))
    assert sum(copy.layers or 0 for copy in copies) == 10_815
    by_model = {entry.model: entry for entry in read_corpus("paper50").models}
    assert by_model["cyclegan"].count == 10
    assert by_model["cyclegan"].layers_of_source == 8 * 94 + 2 * 96


def test_the_distinct_corpus_is_fifty_different_architectures() -> None:
    """Of at least ten families, at least eight of them without convolutions, none of them twice."""
    models = read_corpus("distinct50").models
    assert len(models) == 50 and not any(entry.copies for entry in models)
    assert len({entry.family for entry in models}) >= 10
    assert sum(entry.family in NO_CONVOLUTIONS for entry in models) >= 8
    assert models[0].count == 1 and models[0].layers_of_source is None


def test_a_model_has_one_family_in_all_corpora() -> None:
    """They are one table: what one corpus calls another family's would tell of its own family in the other."""
    said: dict[str, set[str]] = {}
    for entry in (entry for name in corpora() for entry in read_corpus(name).models):
        said.setdefault(entry.model, set()).add(entry.family)
    assert len(said) > 50 and {model for model, families in said.items() if len(families) > 1} == set()


@pytest.mark.parametrize("name", ["distinct50", "paper50"])
def test_every_model_of_a_corpus_is_one_of_the_zoo(name: str) -> None:
    """No name leads nowhere."""
    assert name in corpora()
    assert {entry.model for entry in read_corpus(name).models} <= set(ZOO)


def test_the_configs_folder_shows_them() -> None:
    """They lie in the package, where an installed InferBench finds them; ``configs/bricks`` is the same folder."""
    shown = Path(__file__).parents[3] / "configs" / "bricks"
    assert sorted(path.stem for path in shown.glob("*.yaml")) == corpora()


ENTRY = "{model: digits, family: f, publication: p"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"summary: s\nsource: s\nmodels: [{ENTRY}}}, {ENTRY}}}]",
            "the same model twice: digits; say copies",
        ),
        ("summary: s\nsource: s\nmodels: []", "models: "),
        (f"summary: s\nsource: s\nmodels: [{ENTRY}, weights: 3}}]", "models.0.weights: Extra inputs"),
        (
            f"summary: s\nsource: s\nmodels: [{ENTRY}, copies: [{{id: 1, name: a}}, {{id: 1, name: b}}]}}]",
            "the same id twice: 1",
        ),
        ("models: [", "is no YAML that can be read"),
        ("[]", "is no corpus"),
    ],
)
def test_a_bad_corpus_is_refused(text: str, message: str) -> None:
    """With the field that is wrong."""
    with pytest.raises(InputError, match="mine") as error:
        parse_corpus(text, "mine")
    assert message in str(error.value)


def test_an_unknown_corpus_is_refused_with_those_there_are(tmp_path: Path) -> None:
    """By name, and a file that is not there by its path."""
    with pytest.raises(InputError, match="known: distinct50, paper50"):
        read_corpus("paper51")
    with pytest.raises(InputError, match="can't be read"):
        read_corpus(str(tmp_path / "mine.yaml"))
