import re

import numpy as np
import pytest
from published import (
    cifar10,
    cifar100,
    encoded,
    gtsrb_csv,
    gtsrb_training,
    idx,
    mat,
    pixels,
    tar,
    zipped,
)

from lib.data import images as module
from lib.data import store
from lib.data.digits import load_digits
from lib.data.errors import DataUnavailable, UndeclaredData
from lib.data.images import ImageSet, load_images
from lib.runs.files import user_cache


def image_set(n=4, name="made", **changes):
    made = {
        "name": name,
        "images": pixels(n, 5, 6, 3),
        "labels": np.arange(n) % 2,
        "names": ("no", "yes"),
    }
    return ImageSet(**made | changes)


def test_arrays_are_read_only_views():
    images, labels = pixels(2, 5, 6, 1), np.array([0, 1])
    made = image_set(images=images, labels=labels)
    assert np.shares_memory(made.images, images)
    for array in (made.images, made.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    images[0] = labels[0] = 0  # the caller's own stay writeable
    ends = image_set(images=np.array([0, 255], np.uint8).reshape(2, 1, 1, 1), labels=labels)
    assert ends.as_float().ravel().tolist() == [0, 1]


@pytest.mark.parametrize("rows", [None, [3, 0, 0], np.array([2], dtype=np.uint8), []])
def test_as_float(rows):
    made = image_set()
    found = made.as_float(rows)
    chosen = list(range(4)) if rows is None else np.asarray(rows, int)
    assert (found.dtype, type(found), found.flags.c_contiguous) == (np.float32, np.ndarray, True)
    expected = made.images[chosen].astype(float).transpose(0, 3, 1, 2) / 255
    np.testing.assert_array_equal(found, expected.astype(np.float32))
    found += 1  # its own memory


def test_fingerprint_is_of_the_content_alone():
    made = image_set()
    assert re.fullmatch("[0-9a-f]{64}", made.fingerprint)
    assert image_set(name="other").fingerprint == made.fingerprint
    strided = np.asfortranarray(made.images)
    assert image_set(images=strided).fingerprint == made.fingerprint
    changed = made.images.copy()
    changed[3, 4, 5, 2] ^= 1
    others = [
        {"images": changed},
        {"images": made.images.reshape(4, 6, 5, 3)},
        {"labels": np.array([0, 1, 1, 1])},
        {"names": ("no", "maybe")},
    ]
    assert len({image_set(**each).fingerprint for each in others} | {made.fingerprint}) == 5


RGB = pixels(12, 32, 32, 3)
SIGNS = list(pixels(43, 20, 24, 3))


def published():
    labels = np.arange(12, dtype=np.uint8) % 10
    test_signs = [
        (f"GTSRB/Final_Test/Images/{number:05d}.ppm", encoded(SIGNS[number], "PPM"))
        for number in range(3)
    ]
    test_rows = gtsrb_csv([("00001.ppm", 42), ("00000.ppm", 16), ("00002.ppm", 0)])
    files = {
        "cifar/cifar10_binary": tar(cifar10(RGB, labels).items()),
        "cifar/cifar100_binary": tar(cifar100(RGB, labels, labels + 50).items()),
        "gtsrb/training": zipped(gtsrb_training(SIGNS).items()),
        "gtsrb/test_images": zipped(test_signs),
        "gtsrb/test_labels": zipped([("GT-final_test.csv", test_rows)]),
    }
    for split in ("train", "test"):
        files[f"fashion_mnist/{split}_images"] = idx(pixels(4, 28, 28))
        files[f"fashion_mnist/{split}_labels"] = idx(np.array([1, 0, 9, 3], dtype=np.uint8))
        y = np.array([[10], [1], [2], [3]])
        files[f"svhn/{split}"] = mat(X=RGB[:4].transpose(1, 2, 3, 0), y=y)
    return files


@pytest.fixture
def small(mirror):
    for name, content in published().items():
        mirror.add(name, content)
    for name in ("fashion_mnist", "cifar10", "cifar100", "gtsrb32"):
        mirror.add(f"arrays/{name}", b"", present=False)
    return mirror


def parsed_folders():
    folder = user_cache() / "parsed"
    return sorted(folder.iterdir()) if folder.exists() else []


FIRST_LABELS = {
    "fashion-mnist": ([1, 0, 9, 3], [1, 0, 9, 3]),
    "cifar10": ([0, 1, 2], [0, 1]),
    "cifar100": ([50, 51, 52], [56, 57]),
    "svhn": ([0, 1, 2, 3], [0, 1, 2, 3]),
    "gtsrb": (list(range(43)), [42, 16, 0]),
}


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", FIRST_LABELS)
def test_every_set_loads_and_is_memory_mapped(small, monkeypatch, name, split):
    first = load_images(name, split)
    assert isinstance(first.images, np.memmap)
    assert not first.labels.flags.writeable
    expected = FIRST_LABELS[name][split == "test"]
    assert first.labels[: len(expected)].tolist() == expected
    own = ImageSet(name, np.array(first.images), np.array(first.labels), first.names)
    assert first.fingerprint == own.fingerprint

    # The second time nothing is parsed, written or hashed to a fingerprint.
    unparsed = module._Source(module._SOURCES[name].files, None)
    monkeypatch.setattr(module, "_SOURCES", {name: unparsed})
    monkeypatch.setattr(module, "_fingerprint", None)
    again = load_images(name, split)
    np.testing.assert_array_equal(again.images, first.images)
    np.testing.assert_array_equal(again.labels, first.labels)
    assert (again.names, again.fingerprint) == (first.names, first.fingerprint)


def test_other_sources_and_another_parser_make_another_copy(small, monkeypatch):
    first = load_images("cifar10", "test")
    changed = cifar10(RGB[::-1], np.arange(12, dtype=np.uint8) % 10)
    small.add("cifar/cifar10_binary", tar(changed.items()))
    second = load_images("cifar10", "test")
    np.testing.assert_array_equal(second.images, RGB[::-1][10:])
    assert second.fingerprint != first.fingerprint
    assert len(parsed_folders()) == 2
    monkeypatch.setattr(module, "PARSER_VERSION", module.PARSER_VERSION + 1)
    assert load_images("cifar10", "test").fingerprint == second.fingerprint
    assert len(parsed_folders()) == 3
    monkeypatch.setenv("COMPANION_CHAPTER", "two")  # to which no copy opens the file
    with pytest.raises(UndeclaredData):
        load_images("cifar10", "test")


def test_absent_and_undeclared_files(monkeypatch):
    with pytest.raises(DataUnavailable, match="svhn/test"):
        load_images("svhn", "test")
    monkeypatch.setenv("COMPANION_CHAPTER", "suitability")
    with pytest.raises(UndeclaredData, match="svhn/test"):
        load_images("svhn", "test")
    # Files that parameters name count as declared.
    monkeypatch.setenv("COMPANION_ALSO", "svhn/train svhn/test")
    with pytest.raises(DataUnavailable, match="svhn/test"):
        load_images("svhn", "test")
    with pytest.raises(UndeclaredData, match="gtsrb/training"):
        load_images("gtsrb", "train")
    assert "svhn/test" not in store.fingerprints("canaries")
    assert store.fingerprints("canaries", ["svhn/test"])["svhn/test"] == store.ABSENT


def test_digits():
    made, digits = load_images("digits", "all"), load_digits()
    assert (made.name, made.images.shape, made.names) == ("digits", (1797, 8, 8, 1), digits.names)
    np.testing.assert_array_equal(made.labels, digits.labels)
    assert len(np.unique(made.images)) == 17
    difference = np.abs(made.as_float()[:, 0] - digits.images)
    assert 0 < difference.max() <= 0.5 / 255 + 1e-7
