"""COCO's layout: boxes stay with their images, classes with their names; what is wrong is refused with its entry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.datasets.about import facts
from inferbench_tasks.datasets.base import Collection, identity, open_dataset
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from tests.layouts import SPLIT, coco, instances, png
from tests.unit.datasets.test_users_data import MODEL


def opened(folder: Path) -> Collection:
    return open_dataset("coco", folder.name, folder.parent)


def taking(height: int, width: int) -> Any:
    """A model of pictures of that size."""
    return MODEL.model_copy(
        update={
            "task": None,
            "inputs": (TensorSpec(name="input", dtype="float32", shape=(3, height, width)),),
            "outputs": (TensorSpec(name="detections", dtype="float32", shape=(-1, 6)),),
        }
    )


def test_boxes_are_those_of_their_images_by_rising_id(tmp_path: Path) -> None:
    """Corners of x, y, width, height; classes by the categories' ids (1, 3, 90 are 0, 1, 2) with their names; crowds
    and areas as they stand there; an image without annotation has no box and stays.
    """
    found = opened(coco(tmp_path / "coco"))
    assert found.count == 3 and found.classes == ("person", "car", "brush") and found.labels is None
    assert found.rows(np.arange(3)) == [png((30, 30), 7), png((20, 40), 9), png((40, 20), 42)]
    boxes = found.targets["boxes"]
    assert (boxes[0, :, 0] == -1).all()
    assert boxes[1].tolist() == [[0, 0, 0, 10, 20, 0, 200, 1], [0, 10, 20, 20, 40, 1, 90, 1]]
    assert boxes[2, 0].tolist() == [2, 10, 5, 30, 15, 0, 150.5, 1] and boxes[2, 1, 0] == -1
    assert facts(found)["boxes"] == 2 and facts(found)["crowds"] == facts(found)["without_boxes"] == 1
    assert facts(found)["classes"] == 3


def test_the_whole_picture_is_squeezed_and_its_boxes_with_it(tmp_path: Path) -> None:
    """40 x 20 into 80 wide and 60 high: twice as wide, three times as high, a pixel of the input is a sixth of one."""
    dataset = fitted(opened(coco(tmp_path / "coco")), Digits("digits"), taking(60, 80))
    box = dataset.targets()["boxes"][2, 0]
    assert box[:6].tolist() == [2, 20, 15, 60, 45, 0] and box[6] == 150.5 and box[7] == pytest.approx(1 / 6)
    inputs = dataset.inputs(np.array([2]))["input"]
    assert inputs.shape == (1, 3, 60, 80)
    # Nothing is cut off: a picture whose left third is white has it in the input, too.
    from PIL import Image

    half = Image.new("RGB", (40, 20), (0, 0, 0))
    half.paste((255, 255, 255), (0, 0, 10, 20))
    half.save(tmp_path / "coco" / SPLIT / "000042.png")
    edge = fitted(opened(tmp_path / "coco"), Digits("digits"), taking(20, 20)).inputs(np.array([2]))["input"]
    assert edge[0, 0, :, :4].min() == 1.0 and edge[0, 0, :, 7:].max() == 0.0


def test_classes_txt_has_the_models_order(tmp_path: Path) -> None:
    """Of a model that answers COCO's own ids the lines are its numbers; a category that is in no line is named."""
    folder = coco(tmp_path / "coco")
    (folder / "classes.txt").write_text("none\nperson\nnone 2\ncar\nbrush\n")
    found = opened(folder)
    assert found.targets["boxes"][2, 0, 0] == 4 and found.classes[3] == "car"
    (folder / "classes.txt").write_text("person\ncar\n")
    with pytest.raises(
        InputError, match=r"instances_val2017.json: the category 90 'brush' is no class of classes"
    ):
        opened(folder)


Edit = Callable[[dict[str, Any]], Any]


def put(key: str, at: int, name: str, value: Any) -> Edit:
    """An entry's field."""

    def edit(document: dict[str, Any]) -> None:
        document[key][at][name] = value

    return edit


def left_out(key: str, at: int, name: str) -> Edit:
    return lambda document: document[key][at].pop(name)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            put("annotations", 1, "image_id", 5),
            r"annotations\[1\]: image_id 5 is none of the 3 ids under images",
        ),
        (
            put("annotations", 0, "category_id", 2),
            r"annotations\[0\]: category_id 2 is no .*known: 1 person, 3 car, 90",
        ),
        (
            put("annotations", 0, "bbox", [1, 2, 3]),
            r"annotations\[0\]: bbox must be four numbers, x, y, width",
        ),
        (put("annotations", 0, "bbox", [1, 2, -3, 4]), r"annotations\[0\]: bbox must be four numbers"),
        (
            put("annotations", 0, "bbox", [1, 2, 3, float("nan")]),
            r"annotations\[0\]: bbox must be four numbers",
        ),
        (put("annotations", 0, "bbox", [1, 2, 3, 10**400]), r"annotations\[0\]: bbox must be four numbers"),
        (left_out("annotations", 2, "bbox"), r"annotations\[2\]: bbox must be four numbers.*got None"),
        (
            put("annotations", 0, "bbox", [10, 5, 30, 18]),
            r"annotations\[0\]: bbox .* leaves its image of 40 x 20",
        ),
        (put("annotations", 0, "iscrowd", 2), r"annotations\[0\]: iscrowd must be 0 or 1; got 2"),
        (put("annotations", 0, "area", -1), r"annotations\[0\]: area must be a number from 0 on"),
        (
            put("annotations", 0, "image_id", "42"),
            r"annotations\[0\]: image_id must be a whole number; got '42'",
        ),
        (put("images", 1, "id", 42), r"images\[1\]: the id 42 is that of .*images\[0\], too"),
        (
            put("images", 1, "file_name", "000042.png"),
            r"images\[1\]: 000042.png is the file of .*images\[0\]",
        ),
        (
            put("images", 1, "file_name", "gone.png"),
            r"1 of 3 images are not in coco/val2017: .*images\[1\]: gone.png",
        ),
        (
            put("images", 1, "file_name", "../../x.png"),
            r"images\[1\]: file_name .* leads out of the folder coco",
        ),
        (put("images", 0, "width", 41), r"images\[0\]: 000042.png has 40 x 20 pixels, and not 41 x 20"),
        (put("images", 0, "width", 0), r"images\[0\]: 0 x 20 is no size"),
        (put("categories", 1, "name", "car"), r"categories\[1\]: id 1 and name 'car' must each be no other"),
        (put("categories", 1, "name", " "), r"categories\[1\]: name must be a text"),
        (lambda d: d.update(images=[]), r"images is empty"),
        (lambda d: d.update(categories=[]), r"categories is empty"),
        (lambda d: d.update(annotations=[]), r"annotations \(0\) has no box to be found"),
        (lambda d: d.pop("annotations"), r"annotations must be a list; got nothing"),
        (lambda d: d["annotations"].append(5), r"annotations\[3\]: must be an object; got 5"),
    ],
)
def test_a_bad_file_is_refused_with_its_entry(tmp_path: Path, edit: Edit, message: str) -> None:
    """Which entry of which list, what stands there, and what is needed."""
    document = instances()
    edit(document)
    with pytest.raises(InputError, match=message) as caught:
        opened(coco(tmp_path / "coco", document))
    assert caught.value.field == "evaluate.path"


def test_a_size_that_is_turned_says_so(tmp_path: Path) -> None:
    """Boxes of a picture as EXIF turns it would lie elsewhere in its pixels."""
    document = instances()
    document["images"][0] |= {"width": 20, "height": 40}
    document["annotations"][0]["bbox"] = [1, 1, 5, 5]
    with pytest.raises(InputError, match="and not 20 x 40; its boxes seem to be of the image turned"):
        opened(coco(tmp_path / "coco", document))


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 200_000, '{"images": 1}'])
def test_what_is_no_file_of_instances_is_refused(tmp_path: Path, text: str) -> None:
    """No object, no JSON, JSON that is too deep, no lists."""
    with pytest.raises(InputError, match="instances_val2017.json: "):
        opened(coco(tmp_path / "coco", text))


def test_which_file_is_meant_is_told_by_the_images_that_are_there(tmp_path: Path) -> None:
    """All of COCO's annotations lie together; of two splits with images the validation; else they are named."""
    folder = coco(tmp_path / "coco")
    (folder / "annotations" / "instances_train2017.json").write_text("{}")
    (folder / "annotations" / "captions_val2017.json").write_text("{}")
    assert opened(folder).count == 3
    (folder / "train2017").mkdir()
    assert opened(folder).count == 3
    (folder / SPLIT).rename(folder / "test2017")
    (folder / "annotations" / f"instances_{SPLIT}.json").rename(
        folder / "annotations/instances_test2017.json"
    )
    with pytest.raises(
        InputError, match=r"2 files of annotations.*instances_test2017.json, .*train2017.json; allowed"
    ):
        opened(folder)


def test_images_may_lie_beside_the_file_or_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """As other tools export: all in one folder, or in ``data`` or ``images``."""
    folder = coco(tmp_path / "coco")
    (folder / "annotations" / f"instances_{SPLIT}.json").rename(folder / "labels.json")
    (folder / "annotations").rmdir()
    for place in ("data", "images"):
        (folder / SPLIT if place == "data" else folder / "data").rename(folder / place)
        assert opened(folder).count == 3
    for image in list((folder / "images").iterdir()):
        image.rename(folder / image.name)
    assert opened(folder).count == 3
    (folder / "000042.png").rename(folder / "x.png")
    with pytest.raises(
        InputError, match=r"images\[0\]: 000042.png is in none .*labels, images/labels, images, data"
    ):
        opened(coco_of_42_first(folder))


def coco_of_42_first(folder: Path) -> Path:
    """The image that is missing is the first by its id."""
    document = json.loads((folder / "labels.json").read_text())
    document["images"] = document["images"][:1]
    document["annotations"] = document["annotations"][:1]
    (folder / "labels.json").write_text(json.dumps(document))
    return folder


def test_without_a_file_and_with_one_for_a_folder_it_is_said_what_to_give(tmp_path: Path) -> None:
    """Where the file is looked for; that a folder is needed."""
    folder = coco(tmp_path / "coco")
    with pytest.raises(
        InputError, match=r"instances_val2017.json is no folder; give the one that has annotations/"
    ):
        open_dataset("coco", f"coco/annotations/instances_{SPLIT}.json", tmp_path)
    (folder / "annotations" / f"instances_{SPLIT}.json").unlink()
    with pytest.raises(InputError, match=r"no file of annotations in any of: annotations/instances_"):
        opened(folder)


def test_more_than_one_broken_image_in_a_hundred_is_refused(tmp_path: Path) -> None:
    """One of three, by its entry."""
    folder = coco(tmp_path / "coco")
    (folder / SPLIT / "000007.png").write_bytes(b"none")
    with pytest.raises(
        InputError, match=r"1 of 3 images can't be read, allowed are 1%: .*images\[1\]: 000007.png: "
    ):
        opened(folder)


def test_its_identity_changes_with_a_box_an_image_and_a_class_and_with_nothing_beside(tmp_path: Path) -> None:
    """The training set beside it is none of it."""
    folder = coco(tmp_path / "coco")
    seen = [identity("coco", "coco", tmp_path)["files"]]
    (folder / "annotations" / "captions_val2017.json").write_text("{}")
    assert identity("coco", "coco", tmp_path)["files"] == seen[0]
    document = instances()
    document["annotations"][0]["bbox"][0] = 11
    coco(folder, document)
    seen.append(identity("coco", "coco", tmp_path)["files"])
    (folder / SPLIT / "000007.png").write_bytes(png((30, 30), 8))
    seen.append(identity("coco", "coco", tmp_path)["files"])
    (folder / "classes.txt").write_text("person\ncar\nbrush\n")
    seen.append(identity("coco", "coco", tmp_path)["files"])
    assert all(one != other for at, one in enumerate(seen) for other in seen[:at])
