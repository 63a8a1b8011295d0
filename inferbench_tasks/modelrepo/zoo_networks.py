"""The signatures of the built-in networks that have random weights: published networks by name.

What builds each, of which arguments, stands in ``networks/``; an architecture's name is registered in
``pyproject.toml`` (entry points ``inferbench.architectures``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.contracts.handles import TensorSpec

VOCABULARY = 30_522


@dataclass(frozen=True)
class Network:
    """One network's signature; at least one of the shapes is there.

    ``shape``: each input's in torch without the batch, ``tensorflow_shape``: that in TensorFlow; None: not to be had
    there. ``architecture``: what builds it, None: the one of the network's own name.
    """

    task: str
    shape: tuple[int, ...] | None
    output: TensorSpec
    tensorflow_shape: tuple[int, ...] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    architecture: str | None = None
    inputs: tuple[str, ...] = ("input",)


def _floats(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=shape)


def _scores(count: int = 1000) -> TensorSpec:
    return _floats("scores", count)


_IMAGE = (3, 224, 224)


def _classifier(architecture: str, classes: int = 1000, **arguments: Any) -> Network:
    """Of 224 x 224 images; ``classes`` is an argument of the network where it is not ImageNet's 1000."""
    given = arguments if classes == 1000 else {**arguments, "classes": classes}
    return Network("image-classification", _IMAGE, _scores(classes), None, given, architecture)


def _keras(application: str, side: int = 224, **own: Any) -> Network:
    arguments = {"application": application, "side": side, **own}
    shape = (side, side, 3)
    return Network("image-classification", None, _scores(), shape, arguments, "keras-applications")


def _bert(hidden: int, layers: int) -> Network:
    """Heads of 64, four times as wide within: the published sizes (Devlin et al., 2019; Turc et al., 2019)."""
    arguments = {
        "vocabulary": VOCABULARY, "hidden": hidden, "layers": layers, "heads": hidden // 64,
        "intermediate": hidden * 4, "positions": 512, "pool": "first",
    }  # fmt: skip
    return Network(
        "text-embedding", (128,), _floats("pooled", hidden), arguments=arguments, architecture="bert-base"
    )


def _ssd(side: int, boxes: int, classes: int) -> Network:
    """``classes`` with the background."""
    output = _floats("detections", boxes, 4 + classes)
    arguments = {"side": side, "classes": classes}
    return Network("object-detection", (3, side, side), output, None, arguments, "ssd")


def _images(architecture: str, shape: tuple[int, ...], output: tuple[int, ...], **arguments: Any) -> Network:
    return Network("image-generation", shape, _floats("image", *output), None, arguments, architecture)


_CLASSIFIERS = {
    "resnet18": _classifier("resnet50", blocks=(2, 2, 2, 2), bottleneck=False),
    "resnet34": _classifier("resnet50", blocks=(3, 4, 6, 3), bottleneck=False),
    "resnet101": _classifier("resnet50", blocks=(3, 4, 23, 3)),
    "resnet152": _classifier("resnet50", blocks=(3, 8, 36, 3)),
    "wide-resnet50-2": _classifier("resnet50", inner=2),
    "resnext50-32x4d": _classifier("resnet50", inner=2, groups=32),
    "resnext101-32x8d": _classifier("resnet50", blocks=(3, 4, 23, 3), inner=4, groups=32),
    "se-resnet50": _classifier("resnet50", squeeze=16),
    "open-nsfw": _classifier("resnet50", 2, width=32),
    "senet154": _classifier("senet"),
    "vgg16": _classifier("vgg"),
    "vgg19": _classifier("vgg", blocks=(2, 2, 4, 4, 4)),
    "vgg16-age": _classifier("vgg", 101),
    "vgg16-gender": _classifier("vgg", 2),
    "inception-v1": _classifier("inception"),
    "inception-v1-subitizing": _classifier("inception", 5),
    "inception-v1-places365": _classifier("inception", 365),
    "bn-inception": _classifier("inception", normalised=True),
    "inception-v4": Network("image-classification", (3, 299, 299), _scores()),
    "alexnet": Network("image-classification", (3, 227, 227), _scores()),
    "squeezenet1.0": _classifier("squeezenet", version="1.0"),
    "squeezenet1.1": _classifier("squeezenet", version="1.1"),
    "vit-tiny": _classifier("vit", hidden=192, layers=12, heads=3),
    "vit-small": _classifier("vit", hidden=384, layers=12, heads=6),
    "vit-base": _classifier("vit", hidden=768, layers=12, heads=12),
    "vit-base-32": _classifier("vit", hidden=768, layers=12, heads=12, patch=32),
    "deit-small-distilled": _classifier("vit", hidden=384, layers=12, heads=6, distilled=True),
    "mixer-small": _classifier("mixer", hidden=512, layers=8, tokens=256, channels=2048),
    "mixer-base": _classifier("mixer", hidden=768, layers=12, tokens=384, channels=3072),
    "convnext-tiny": _classifier("convnext"),
    "capsnet": Network("image-classification", (1, 28, 28), _scores(10)),
    "ademxapp-a": Network(
        "image-classification", _IMAGE, _scores(), None, {"classes": 1000}, "ademxapp"
    ),
}  # fmt: skip
_KERAS = {
    # The first publication's: the stride is on the first 1 x 1 convolution, and not on the 3 x 3 one as in `resnet50`.
    "resnet50-v1": _keras("ResNet50"),
    "resnet101-v1": _keras("ResNet101"),
    "resnet152-v1": _keras("ResNet152"),
    "resnet50v2": _keras("ResNet50V2"),
    "resnet101v2": _keras("ResNet101V2"),
    "resnet152v2": _keras("ResNet152V2"),
    "inception-v3": _keras("InceptionV3", 299),
    "inceptionresnetv2": _keras("InceptionResNetV2", 299),
    "xception": _keras("Xception", 299),
    "mobilenet": _keras("MobileNet"),
    "mobilenetv3small": _keras("MobileNetV3Small"),
    "mobilenetv3large": _keras("MobileNetV3Large"),
    "densenet121": _keras("DenseNet121"),
    "densenet201": _keras("DenseNet201"),
    "nasnetmobile": _keras("NASNetMobile"),
    "efficientnetb0": _keras("EfficientNetB0"),
    "efficientnetb2": _keras("EfficientNetB2", 260),
    "efficientnetv2b0": _keras("EfficientNetV2B0"),
}
#: MobileNet's published sizes: width multipliers and sides of the image; `mobilenet` is the largest.
_MOBILENETS = {
    f"mobilenet-{alpha:g}-{side}": _keras("MobileNet", side, alpha=alpha)
    for alpha in (0.25, 0.5, 0.75, 1.0)
    for side in (128, 160, 192, 224)
    if (alpha, side) != (1.0, 224)
}
_BERTS = {
    name: _bert(hidden, layers)
    for name, hidden, layers in (
        ("bert-tiny", 128, 2), ("bert-mini", 256, 4), ("bert-small", 512, 4), ("bert-medium", 512, 8),
        ("bert-large", 1024, 24),
    )
}  # fmt: skip
_OTHERS = {
    "adain": Network(
        "image-generation", (3, 256, 256), _floats("image", 3, 256, 256), inputs=("content", "style")
    ),
    "pix2pix": _images("unet", (3, 256, 256), (3, 256, 256)),
    "vdsr": _images("vdsr", (1, 256, 256), (1, 256, 256)),
    "colorful": _images("colorization", (1, 224, 224), (2, 224, 224), variant="colorful"),
    "colornet": _images("colorization", (1, 224, 224), (2, 224, 224), variant="global"),
    "ssd300-voc": _ssd(300, 8732, 21),
    "ssd512-coco": _ssd(512, 24_564, 81),
    "yolo-v2": Network("object-detection", (3, 416, 416), _floats("detections", 425, 13, 13), None, {}, "yolo"),
    "face-alignment": Network(
        "regression", (3, 256, 256), _floats("heat", 4, 68, 64, 64), architecture="hourglass"
    ),
    "volumetric-face": Network(
        "regression", (3, 256, 256), _floats("volume", 200, 64, 64), None,
        {"stacks": 4, "outputs": 200, "last_only": True}, "hourglass",
    ),
    "depth-in-the-wild": Network(
        "regression", (3, 240, 320), _floats("depth", 1, 240, 320), architecture="depth"
    ),
    "context-camvid": Network(
        "segmentation", (3, 176, 240), _floats("scores", 11, 176, 240), architecture="context"
    ),
    "ademxapp-a1-voc": Network(
        "segmentation", _IMAGE, _floats("scores", 21, 28, 28), None, {"classes": 21, "labels": True}, "ademxapp"
    ),
    "ademxapp-a1-ade20k": Network(
        "segmentation", _IMAGE, _floats("scores", 150, 28, 28), None, {"classes": 150, "labels": True}, "ademxapp"
    ),
}  # fmt: skip
NETWORKS = {
    "resnet50": Network("image-classification", _IMAGE, _scores(), (224, 224, 3)),
    "mobilenet_v2": Network("image-classification", _IMAGE, _scores(), (224, 224, 3)),
    "bert-base": _bert(768, 12),
    "lstm": Network("sequence-modelling", (64, 256), _floats("state", 512), (64, 256)),
    "cyclegan": Network("image-generation", (3, 256, 256), _floats("image", 3, 256, 256)),
    "detector": Network("object-detection", (3, 320, 320), _floats("detections", 2100, 24)),
    **_CLASSIFIERS,
    **_KERAS,
    **_MOBILENETS,
    **_BERTS,
    **_OTHERS,
}
