"""Which models of other makers there are, by package, and what each is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.models import ColourOrder, Package
from inferbench_tasks.contracts.named_classes import NamedClasses
from inferbench_tasks.modelrepo import magika

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Pictures:
    """See ``ModelSource.picture_size``, ``pixels`` and ``colour_order``."""

    size: tuple[int, int]
    pixels: tuple[float, float]
    colour_order: ColourOrder


@dataclass(frozen=True)
class Packaged:
    """An ONNX file within a package. ``licence``: of weights and package, as the package states it.

    What it is asked: samples of ``dataset``, or made-up ones: ``noise`` gives so many. ``pictures``: how its package
    gives it pictures of others. ``characters``: the entry of the file's metadata that has the characters it scores, a
    line each (``ModelSource.characters``); a space follows after them. ``files``: what it is asked of whole files.
    ``kept``: texts of the package that its answers are read by, which the model's file gets among its metadata, and
    where they lie; ``classes`` makes of them what its classes are called.
    """

    package: Package
    file: str
    task: str
    licence: str
    dataset: Callable[[], Dataset] | None = None
    noise: Callable[[int, np.random.Generator], Arrays] | None = None
    pictures: Pictures | None = None
    characters: str | None = None
    files: Callable[[list[bytes]], Arrays] | None = None
    kept: Mapping[str, str] = field(default_factory=dict)
    classes: Callable[[Mapping[str, str]], NamedClasses] | None = None


MAGIKA = Package("magika", "1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529", 16)
OCR = Package(
    "rapidocr-onnxruntime", "1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf", 15
)
DDDDOCR = Package("ddddocr", "1.6.1", "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935", 76)
SILERO = Package(
    "silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8", 11
)
BASIC_PITCH = Package(
    "basic-pitch", "0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0", 1
)
SPEECHMOS = Package(
    "speechmos", "0.0.1.1", "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7", 9
)
_OCR_FILES = "rapidocr_onnxruntime/models/"


def _pictures(
    name: str, height: int, width: int, mean: float = 127.5, std: float = 127.5
) -> Callable[[], Dataset]:
    """Photographs, ``n x 3 x height x width`` float32; of wide ones the upper part.

    Red first, also where the package gives blue first: they have no labels, and what is said of the answers (how many
    agree with the source model, how far they differ) is of the very same inputs on both sides.
    """

    def normalise(pixels: Array) -> Array:
        import numpy as np

        scaled = (pixels[:, :height, :width].astype(np.float32) - mean) / std
        return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))

    def dataset() -> Dataset:
        from inferbench_tasks.requests.photographs import Photographs

        return Photographs(name, max(height, width), normalise)

    return dataset


def _texts_as_bytes() -> Dataset:
    from inferbench_tasks.requests.sentences import Sentences

    return Sentences(lambda texts: magika.first_and_last([text.encode() for text in texts]))


def _heard(name: str, length: int, *axes: int, rate_hz: int = 16_000) -> Callable[..., Arrays]:
    """Made-up sounds, ``n x length`` and further axes of 1."""

    def noise(count: int, rng: np.random.Generator) -> Arrays:
        from inferbench_tasks.requests.sounds import voices

        return {name: voices(count, length, rng, rate_hz).reshape(count, length, *axes)}

    return noise


def _heard_with_state(count: int, rng: np.random.Generator) -> Arrays:
    """32 ms with the 4 ms before them, and the state that a stream begins with."""
    import numpy as np

    from inferbench_tasks.requests.sounds import voices

    return {"input": voices(count, 576, rng), "state": np.zeros((count, 2, 1, 128), np.float32)}


def _mel_bands(count: int, rng: np.random.Generator) -> Arrays:
    """Nine seconds as 900 x 120 levels, as of decibels that are moved to about 0 to 1."""
    import numpy as np

    return {"input_1": rng.uniform(0, 1, (count, 900, 120)).astype(np.float32)}


def _spectra(count: int, rng: np.random.Generator) -> Arrays:
    """Four seconds as powers, and one of the raters that the model imitates."""
    import numpy as np

    from inferbench_tasks.requests.sounds import log_power, voices

    heard = log_power(voices(count, 64_000, rng))[:, np.newaxis]
    return {
        "degraded_audio": heard,
        "rater_embed": rng.standard_normal((count, 64)).astype(np.float32),
    }


PACKAGED: dict[str, Packaged] = {
    "magika": Packaged(
        MAGIKA, magika.FOLDER + "model.onnx", "file-type-classification", "Apache-2.0",
        dataset=_texts_as_bytes, files=magika.of_files, kept=magika.FILES, classes=magika.classes,
    ),
    "ppocr-detection": Packaged(
        OCR, _OCR_FILES + "ch_PP-OCRv4_det_infer.onnx", "text-detection", "Apache-2.0",
        dataset=_pictures("x", 320, 320),
    ),
    "ppocr-recognition": Packaged(
        OCR, _OCR_FILES + "ch_PP-OCRv4_rec_infer.onnx", "text-recognition", "Apache-2.0",
        dataset=_pictures("x", 48, 320), pictures=Pictures((48, 320), (127.5, 127.5), "bgr"), characters="character",
    ),
    "ppocr-orientation": Packaged(
        OCR, _OCR_FILES + "ch_ppocr_mobile_v2.0_cls_infer.onnx", "image-classification", "Apache-2.0",
        dataset=_pictures("x", 48, 192),
    ),
    "ddddocr-detection": Packaged(
        DDDDOCR, "ddddocr/common_det.onnx", "object-detection", "MIT",
        dataset=_pictures("images", 416, 416, mean=0.0, std=1.0), pictures=Pictures((416, 416), (0.0, 1.0), "bgr"),
    ),
    "silero-vad": Packaged(
        SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx", "voice-activity-detection", "MIT",
        noise=_heard_with_state,
    ),
    "basic-pitch": Packaged(
        BASIC_PITCH, "basic_pitch/saved_models/icassp_2022/nmp.onnx", "music-transcription", "Apache-2.0",
        noise=_heard("serving_default_input_2:0", 43_844, 1, rate_hz=22_050),
    ),
    "dnsmos": Packaged(
        SPEECHMOS, "speechmos/dnsmos_models/sig_bak_ovr.onnx", "speech-quality", "MIT",
        noise=_heard("input_1", 144_160),
    ),
    "dnsmos-p808": Packaged(
        SPEECHMOS, "speechmos/dnsmos_models/model_v8.onnx", "speech-quality", "MIT", noise=_mel_bands,
    ),
    "plcmos": Packaged(
        SPEECHMOS, "speechmos/plcmos_models/plcmos_v2.onnx", "speech-quality", "MIT", noise=_spectra,
    ),
}  # fmt: skip
