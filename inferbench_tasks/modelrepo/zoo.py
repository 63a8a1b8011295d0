"""The built-in models (``model: {kind: zoo, name: ...}``); one file per model or family of models."""

from __future__ import annotations

from typing import Protocol

from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.modelrepo.networks.efficientnet_lite import SIZES
from inferbench_tasks.modelrepo.packaged_models import PACKAGED
from inferbench_tasks.modelrepo.zoo_fashion_networks import NETWORKS as FASHION
from inferbench_tasks.modelrepo.zoo_networks import NETWORKS
from inferbench_tasks.registry import Registry
from inferbench_tasks.submission.model import ZooModel


class ZooFactory(Protocol):
    """Gives the source for a name; ``framework`` None means the model's usual one.

    Raises InputError where the model is not to be had in that framework.
    """

    def __call__(self, name: str, framework: str | None) -> ModelSource: ...


ZOO: Registry[ZooFactory] = Registry(
    "zoo model",
    "inferbench.zoo",
    {
        "digits": "inferbench_tasks.modelrepo.zoo_digits:Digits",
        **dict.fromkeys(FASHION, "inferbench_tasks.modelrepo.zoo_fashion:FashionMnist"),
        **dict.fromkeys(SIZES, "inferbench_tasks.modelrepo.zoo_efficientnet:EfficientNetLite"),
        "smollm2-135m": "inferbench_tasks.modelrepo.zoo_smollm2:SmolLm2",
        "llama-random": "inferbench_tasks.modelrepo.zoo_llama_random:LlamaRandom",
        "all-minilm-l6-v2": "inferbench_tasks.modelrepo.zoo_minilm:MiniLm",
        "breast-cancer-trees": "inferbench_tasks.modelrepo.zoo_trees:BreastCancerTrees",
        **dict.fromkeys(PACKAGED, "inferbench_tasks.modelrepo.packaged:PackagedModel"),
        **dict.fromkeys(
            NETWORKS,
            "inferbench_tasks.modelrepo.zoo_random:RandomWeights",
        ),
    },
)


def zoo_source(spec: ZooModel) -> ModelSource:
    """The source of a built-in model, in the framework and size that are asked for.

    UnknownKindError for no such model, InputError where it is not to be had so; nothing is fetched or made.
    """
    return ZOO.load(spec.name, "model.name")(spec.name, spec.framework).sized(spec.layers, spec.width)
