"""The networks with random weights: published sizes, the shapes they say, and what their arguments change."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.architectures import construct
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.modelrepo.zoo_networks import NETWORKS
from inferbench_tasks.modelrepo.zoo_random import RandomWeights

torch = pytest.importorskip("torch")
IN_TORCH = [name for name, network in NETWORKS.items() if network.shape is not None]
#: As published, or as the usual PyTorch implementations of the publication count them.
PARAMETERS = {
    "resnet18": 11_689_512, "resnet34": 21_797_672, "resnet101": 44_549_160, "resnet152": 60_192_808,
    "wide-resnet50-2": 68_883_240, "resnext50-32x4d": 25_028_904, "resnext101-32x8d": 88_791_336,
    "se-resnet50": 28_088_024, "senet154": 115_088_984, "vgg16": 138_357_544, "vgg19": 143_667_240,
    "inception-v4": 42_679_816, "alexnet": 60_965_224,
    "bn-inception": 11_295_240, "squeezenet1.0": 1_248_424, "squeezenet1.1": 1_235_496,
    "vit-tiny": 5_717_416, "vit-small": 22_050_664, "vit-base": 86_567_656, "vit-base-32": 88_224_232,
    "deit-small-distilled": 22_436_432, "mixer-base": 59_880_472, "ssd300-voc": 26_285_486,
    "convnext-tiny": 28_589_128, "bert-tiny": 4_385_920, "bert-medium": 41_373_184,
}  # fmt: skip


def build(name: str) -> object:
    """Without memory for its weights: only shapes are computed."""
    network = NETWORKS[name]
    with torch.device("meta"):
        return construct(
            "torch", {"name": network.architecture or name, "arguments": network.arguments}
        ).eval()


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_as_published(name: str) -> None:
    """To the last one."""
    assert sum(p.numel() for p in build(name).parameters()) == PARAMETERS[name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", IN_TORCH)
def test_a_network_answers_in_the_shape_it_says(name: str) -> None:
    """Of a batch of two, in every network that PyTorch builds."""
    source = RandomWeights(name)
    kinds = {"float32": torch.float32, "int64": torch.int64}
    inputs = [
        torch.zeros((2, *spec.shape), dtype=kinds[spec.dtype], device="meta") for spec in source.inputs()
    ]
    with torch.no_grad():
        answer = build(name)(*inputs)  # type: ignore[operator]
    assert tuple(answer.shape) == (2, *NETWORKS[name].output.shape)


def test_a_thin_network_is_half_as_wide() -> None:
    """Every convolution behind the stem has half the channels, those between stages too."""
    thin, usual = (
        [m.out_channels for m in build(name).modules() if isinstance(m, torch.nn.Conv2d)]  # type: ignore[attr-defined]
        for name in ("open-nsfw", "resnet50")
    )
    assert thin[0] == usual[0] == 64
    assert [2 * channels for channels in thin[1:]] == usual[1:]


def test_squeeze_and_excitation_weighs_each_channel() -> None:
    """By hand: with weights of zero the gate is sigmoid(bias), here a half and nearly one."""
    from inferbench_tasks.modelrepo.networks.excitation import squeeze_and_excitation

    gate = squeeze_and_excitation(2, 1)
    with torch.no_grad():
        for parameter in gate.parameters():
            parameter.zero_()
        gate.weigh[3].bias.copy_(torch.tensor([0.0, 100.0]))
        answer = gate(torch.full((1, 2, 2, 2), 3.0))
    np.testing.assert_allclose(answer.numpy()[0, :, 0, 0], [1.5, 3.0])


def test_style_moments_are_those_of_the_style() -> None:
    """What the decoder is fed with has the style's mean and spread in every channel."""
    network = construct("torch", {"name": "adain", "arguments": {}}).eval()
    fed: list[object] = []
    network.decoder.register_forward_pre_hook(lambda module, values: fed.append(values[0]))
    rng = torch.Generator().manual_seed(3)
    content, style = (torch.randn((1, 3, 32, 32), generator=rng) for _ in range(2))
    with torch.no_grad():
        network(content, style)
        wanted = network.encoder(style)
    [mixed] = fed
    np.testing.assert_allclose(mixed.mean((2, 3)), wanted.mean((2, 3)), atol=1e-5)  # type: ignore[attr-defined]
    wanted_std = wanted.std((2, 3), correction=0)
    np.testing.assert_allclose(mixed.std((2, 3), correction=0), wanted_std, rtol=0.05, atol=1e-3)  # type: ignore[attr-defined]


def test_a_network_is_known_to_submissions_and_says_where_it_is_to_be_had() -> None:
    """Any of them by its name; one that only Keras has is refused in PyTorch."""
    assert set(NETWORKS) <= set(ZOO)
    assert ZOO.load("xception")("xception", None).framework == "tensorflow"
    with pytest.raises(InputError, match="'xception' is only to be had in tensorflow"):
        ZOO.load("xception")("xception", "torch")
    with pytest.raises(InputError, match="'vgg16' is only to be had in torch"):
        ZOO.load("vgg16")("vgg16", "tensorflow")


def test_weights_are_said_to_be_random() -> None:
    """By every one of them, where its licence stands."""
    assert {ZOO.load(name)(name, None).licence for name in NETWORKS} == {"weights are random"}
