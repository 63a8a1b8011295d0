"""ImageNet's validation set in each layout in which users have it, in miniature; and orders that would be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.datasets.base import Collection, identity, open_dataset
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.datasets.imagenet import CLASSES, GROUND_TRUTH, LISTED, MAPPING, SOLUTION
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from tests.contract.test_datasets import png
from tests.unit.datasets.test_users_data import scoring

SYNSETS = ("n01440764", "n01443537", "n01484850")
#: Image -> its class, neither in the order of the names nor of the classes.
TRUE = {"ILSVRC2012_val_00000001": 2, "ILSVRC2012_val_00000002": 0, "ILSVRC2012_val_00000003": 2}
#: What classes are called of which only numbers are known.
THOUSAND = tuple(str(number) for number in range(CLASSES))
MAPPED = "".join(f"{name} some fish, another name\n" for name in SYNSETS)


def images(folder: Path, where: str) -> None:
    """Each image has a grey of its own: 10, 20, 30."""
    (folder / where).mkdir(parents=True)
    for at, name in enumerate(TRUE, 1):
        (folder / where / f"{name}.JPEG").write_bytes(png(10 * at))


def kaggle(folder: Path) -> None:
    """As Kaggle's archive unpacks; an image with two boxes has its synset twice."""
    images(folder, "ILSVRC/Data/CLS-LOC/val")
    (folder / MAPPING).write_text(MAPPED)
    rows = [f"{name},{SYNSETS[at]} 1 2 3 4 {SYNSETS[at]} 5 6 7 8 \n" for name, at in TRUE.items()]
    (folder / SOLUTION).write_text("ImageId,PredictionString\n" + "".join(reversed(rows)))


def caffe(folder: Path) -> None:
    """The images flat in val/, Caffe's list beside."""
    images(folder, "val")
    (folder / LISTED).write_text("".join(f"{name}.JPEG {at}\n" for name, at in TRUE.items()))


def sorted_into_folders(folder: Path) -> None:
    """A folder for each synset, with the mapping that says which of the thousand they are."""
    for at, (name, label) in enumerate(TRUE.items(), 1):
        place = folder / "val" / SYNSETS[label]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.JPEG").write_bytes(png(10 * at))
    (folder / MAPPING).write_text(MAPPED)


def opened(folder: Path) -> Collection:
    return open_dataset("imagenet-val", folder.name, folder.parent)


@pytest.mark.parametrize("layout", [kaggle, caffe, sorted_into_folders])
def test_each_layout_gives_the_same_labels(tmp_path: Path, layout: object) -> None:
    """By sorted synset, whatever order the files of labels have; each label stays with its image."""
    folder = tmp_path / "imagenet"
    layout(folder)  # type: ignore[operator]
    found = opened(folder)
    assert found.labels is not None and found.count == 3
    pictures = found.rows(np.arange(3))
    greys = {picture: at for at, picture in enumerate((png(10), png(20), png(30)))}
    assert {greys[p]: int(label) for p, label in zip(pictures, found.labels, strict=True)} == {
        0: 2,
        1: 0,
        2: 2,
    }
    assert found.classes == (THOUSAND if layout is caffe else SYNSETS) and not found.by_name


def test_a_model_with_a_class_for_the_background_is_refused(tmp_path: Path) -> None:
    """Caffe's list has numbers alone, of a thousand classes: by a model of 1,001 each would be judged as its
    neighbour's, and hardly any be right. One of a thousand fits."""
    folder = tmp_path / "imagenet"
    caffe(folder)
    with pytest.raises(InputError, match="imagenet has 1000 classes, m scores 1001: they are not the same"):
        fitted(opened(folder), Digits("digits"), scoring(1001, (3, 8, 8)))
    assert len(fitted(opened(folder), Digits("digits"), scoring(1000, (3, 8, 8)))) == 3


def test_the_order_of_some_synsets_is_no_order_of_classes(tmp_path: Path) -> None:
    """Three folders would be classes 0 to 2 by their names; only the thousand are classes 0 to 999."""
    folder = tmp_path / "imagenet"
    sorted_into_folders(folder)
    (folder / MAPPING).unlink()
    with pytest.raises(InputError, match=f"2 folders of synsets, and only of all {CLASSES}"):
        opened(folder)


def test_the_numbers_of_the_development_kit_are_refused(tmp_path: Path) -> None:
    """They count the synsets in another order, and would be wrong without a word."""
    folder = tmp_path / "imagenet"
    images(folder, "val")
    (folder / GROUND_TRUTH).write_text("490\n361\n171\n")
    with pytest.raises(InputError, match="development kit's order"):
        opened(folder)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (LISTED, "ILSVRC2012_val_00000001.JPEG 1000\n", rf"{LISTED}:1: .* 0 to 999"),
        (LISTED, f"ILSVRC2012_val_00000001.JPEG {5_000 * '9'}\n", rf"{LISTED}:1: .* 0 to 999"),
        (
            LISTED,
            "ILSVRC2012_val_00000001.JPEG 1\nILSVRC2012_val_00000001.JPEG 2\n",
            rf"{LISTED}:2: .* another class",
        ),
        (LISTED, "ILSVRC2012_val_00000001.JPEG 1\n", "ILSVRC2012_val_00000002.JPEG has no label"),
        (
            LISTED,
            "".join(f"{n}.JPEG 1\n" for n in (*TRUE, "more")),
            "1 images that have labels are not there: more",
        ),
        (MAPPING, "fish\n", rf"{MAPPING}:1: 'fish' is no synset"),
        (MAPPING, "n01443537 b\nn01440764 a\n", rf"{MAPPING}:2: n01440764 stands behind n01443537"),
        (SOLUTION, "ImageId,PredictionString\nx,n01440764 1 2 3 4\n", f"{MAPPING} is missing"),
        ("notes.txt", "", "has images and no labels"),
    ],
)
def test_bad_labels_are_refused_with_their_line(tmp_path: Path, file: str, text: str, words: str) -> None:
    """What is wrong, in which file and line, and what is needed."""
    folder = tmp_path / "imagenet"
    images(folder, "val")
    (folder / file).write_text(text)
    with pytest.raises(InputError, match=words):
        opened(folder)


def test_a_folder_without_images_says_where_they_are_looked_for(tmp_path: Path) -> None:
    """And a path that is no folder is none."""
    (tmp_path / "imagenet").mkdir()
    with pytest.raises(InputError, match="ILSVRC/Data/CLS-LOC/val"):
        opened(tmp_path / "imagenet")


def test_the_training_set_is_no_part_of_what_is_asked(tmp_path: Path) -> None:
    """Its identity changes with an image or a label, and not with what lies beside."""
    folder = tmp_path / "imagenet"
    kaggle(folder)
    before = identity("imagenet-val", "imagenet", tmp_path)
    (folder / "ILSVRC/Data/CLS-LOC/train").mkdir()
    (folder / "ILSVRC/Data/CLS-LOC/train/x.JPEG").write_bytes(png(1))
    assert identity("imagenet-val", "imagenet", tmp_path) == before
    (folder / SOLUTION).write_text((folder / SOLUTION).read_text().replace(SYNSETS[2], SYNSETS[1]))
    assert identity("imagenet-val", "imagenet", tmp_path) != before
