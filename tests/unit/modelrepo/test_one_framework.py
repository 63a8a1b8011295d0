"""Built-in models of one framework."""

from __future__ import annotations

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo import ZOO, zoo_source
from inferbench_tasks.submission.model import ZooModel


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("digits", "is trained by scikit-learn; leave framework out"),
        ("breast-cancer-trees", "is trained by scikit-learn; leave framework out"),
        ("smollm2-135m", "is only to be had in GGUF; leave framework out"),
        ("magika", "comes as ONNX; leave framework out"),
        ("all-minilm-l6-v2", "is only to be had in torch"),
        ("efficientnet-lite0", "is only to be had in torch"),
        ("fashion-mnist-resnet", "is only to be had in torch"),
    ],
)
def test_another_framework_is_refused_with_the_one_that_there_is(name: str, words: str) -> None:
    """At its field."""
    with pytest.raises(InputError) as caught:
        zoo_source(ZooModel(kind="zoo", name=name, framework="tensorflow"))
    assert str(caught.value).endswith(f"the zoo model {name!r} {words}")
    assert caught.value.field == "model.framework"


def test_the_one_framework_may_be_named() -> None:
    """It is what is there anyway."""
    source = zoo_source(ZooModel(kind="zoo", name="all-minilm-l6-v2", framework="torch"))
    assert (source.name, source.framework) == ("all-minilm-l6-v2", "torch")


@pytest.mark.parametrize(("name", "words"), [("fashion-mnist", "torch or tensorflow"), ("vgg16", "torch")])
def test_one_that_no_model_is_had_in_is_refused_with_all_that_there_are(name: str, words: str) -> None:
    """Not with the first of several alone."""
    with pytest.raises(InputError, match=f"'{name}' is only to be had in {words}$"):
        ZOO.load(name)(name, "sklearn")
