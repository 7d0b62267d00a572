"""Sets of images that come as plain arrays, <name>.npz: the book's and a user's own."""

import hashlib
import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from chapter_cells import settings_for

from lib.book.execute import named_data
from lib.book.parameters import ParameterError, parse_parameters
from lib.data import image_files, load_images, split_rows, store
from lib.data.errors import DataCorrupted
from lib.data.images import array_file, examine_arrays
from lib.studies.default_problem import at_hand, default_problem
from lib.training.jobs import DataSpec

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
# Of the binary version's training batches: published, and named by the issue that asked for this.
BATCHES = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
)


def arrays(n=60, **changes):
    rng = np.random.default_rng(0)
    made = {}
    for split, count in (("train", n), ("test", n // 2)):
        made[f"x_{split}"] = rng.integers(0, 256, (count, 4, 5, 3), dtype=np.uint8)
        made[f"y_{split}"] = np.arange(count, dtype=np.uint8) % 3
    return {k: v for k, v in (made | changes).items() if v is not None}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The second of two folders of COMPANION_DATA."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    both = os.pathsep.join(str(tmp_path / each) for each in ("first", "second"))
    monkeypatch.setenv("COMPANION_DATA", both)
    return tmp_path / "second"


def test_own_arrays_load_by_name_from_any_folder(folder):
    given = arrays(train_groups=np.arange(60) // 6)
    np.savez(folder / "mine.npz", **given)
    train, test = (load_images("mine", split) for split in ("train", "test"))
    np.testing.assert_array_equal(train.images, given["x_train"])
    np.testing.assert_array_equal(test.labels, given["y_test"])
    np.testing.assert_array_equal(train.groups, given["train_groups"])
    assert (test.groups, train.names, train.labels.dtype) == (None, ("0", "1", "2"), np.int64)
    assert image_files("mine") == (array_file("mine"),) == ("own/mine",)
    # What a build keeps in its key changes with the arrays.
    before = store.fingerprints("interplay", ["own/mine"])["own/mine"]
    np.savez(folder / "mine.npz", **arrays(x_test=given["x_test"] // 2))
    assert store.fingerprints("interplay", ["own/mine"])["own/mine"] != before
    np.testing.assert_array_equal(load_images("mine", "test").images, given["x_test"] // 2)


def test_own_arrays_are_a_chapters_data(folder):
    (dataset,) = parse_parameters('dataset: str = "digits"  # {digits, own} data\n')
    (fixed,) = parse_parameters('dataset: str = "digits"  # {digits, cifar10} data\n')
    with pytest.raises(ParameterError, match="dataset"):
        dataset.check("mine")
    pixels = {f"x_{s}": np.zeros((n, 9, 8), np.uint8) for s, n in (("train", 60), ("test", 30))}
    np.savez(folder / "mine.npz", **arrays(train_groups=np.arange(60) // 7, **pixels))
    assert dataset.check("mine") == at_hand("mine") == "mine"
    with pytest.raises(ParameterError, match="dataset"):
        fixed.check("mine")
    assert named_data({"dataset": "mine"}) == [f"{store.OWN}mine"]
    spec, model = default_problem("mine", "linear", train=30, validation=6, test=20)
    assert (spec.features, model.inputs, model.classes) == ("pixels", (72,), 3)
    assert load_images("mine", "train").images.shape == (60, 9, 8, 1)  # grey, without a channel
    data = settings_for("mine", "small_cnn", epsilon=3.0).data.load()
    assert (len(data.training), len(data.validation), len(data.labels)) == (40, 6, 30)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_test": None}, "x_test"),
        ({"other": np.arange(3)}, "arrays"),
        ({"x_train": arrays()["x_train"] / 255}, "x_train"),
        ({"x_train": np.zeros((60, 4), np.uint8)}, "x_train"),
        ({"x_train": np.zeros((60, 4, 5, 2), np.uint8)}, "images"),
        ({"y_train": np.arange(59) % 3}, "labels"),
        ({"y_train": np.arange(60) - 1}, "labels"),
        ({"train_groups": np.arange(59)}, "groups"),
        ({"y_test": np.array([{}] * 30)}, "objects|unpickled"),
    ],
)
def test_malformed_arrays_are_one_clear_error(folder, changes, message):
    np.savez(folder / "bad.npz", **arrays(**changes))
    with pytest.raises(ValueError, match=message):
        load_images("bad", "train")
    os.replace(folder / "bad.npz", folder / "cifar10.npz")  # a registered name
    with pytest.raises(DataCorrupted):
        load_images("cifar10", "train")


def test_names_without_arrays_and_folders_that_are_not_there(folder, monkeypatch):
    for name in ("absent", "../mine", "", 3):
        with pytest.raises(ValueError, match="name"):
            load_images(name, "train")
    monkeypatch.setenv("COMPANION_DATA", f"{folder}{os.pathsep}{folder}-2")
    with pytest.raises(NotADirectoryError, match="second-2"):
        load_images("mine", "train")


@pytest.fixture
def accepted(folder, monkeypatch):
    """What comes of accepting arrays of CIFAR-100."""
    monkeypatch.setenv("COMPANION_CACHE", str(folder / "cache"))
    made = {}
    for split, each in (("train", 500), ("test", 100)):
        made[f"x_{split}"] = np.zeros((100 * each, 32, 32, 3), np.uint8)
        made[f"y_{split}"] = np.repeat(np.arange(100, dtype=np.uint8), each)

    def accept(**changes):
        np.savez(folder / "cifar100.npz", **made | changes)
        return store.fetch_unverified("arrays/cifar100", examine_arrays)

    return accept


def test_cifar100_from_arrays_is_taken_once_accepted(folder, accepted):
    """The SHA-256 of no such arrays is known: without a word the official archive is wanted."""
    assert image_files("cifar100") == ("cifar/cifar100_binary",)
    path, said = accepted()
    assert (path, said[:12]) == (folder / "cifar100.npz", "500 and 100 ")
    assert image_files("cifar100") == ("arrays/cifar100",)
    test = load_images("cifar100", "test")
    assert (test.images.shape, len(test.names)) == ((10_000, 32, 32, 3), 100)
    np.savez(path, **arrays())
    with pytest.raises(DataCorrupted, match="SHA-256"):
        store.fetch_unverified("arrays/cifar100", examine_arrays)
    with pytest.raises(DataCorrupted, match="SHA-256"):
        load_images("cifar100", "train")


@pytest.mark.parametrize(
    ("size", "labels", "wrong"),
    [
        ((32, 32, 1), np.arange(50_000) % 100, "train"),
        ((32, 32, 3), np.zeros(50_000, int), "train"),
        ((32, 32, 3), np.arange(50_000) % 100, "test"),
    ],
)
def test_arrays_that_cannot_be_cifar100_are_not_accepted(folder, monkeypatch, size, labels, wrong):
    """As they are read: there is no need of a file of 150 MB."""
    np.savez(folder / "cifar100.npz", **arrays())
    images = np.broadcast_to(np.uint8(0), (50_000, *size))
    halves = {"train": (images, labels), "test": (images[:9999], labels[:9999])}
    monkeypatch.setattr("lib.data.images.read_plain", lambda _, split: halves[split])
    with pytest.raises(DataCorrupted, match=f"y_{wrong} must be .* 32 x 32 x 3"):
        store.fetch_unverified("arrays/cifar100", examine_arrays)


def test_groups_are_drawn_whole_and_at_random_and_need_room():
    groups = np.repeat(np.arange(100), 4)
    counts = np.zeros(100)
    for seed in range(300):
        found = split_rows(400, seed, {"a": 40, "b": 100, "c": 50}, groups=groups)
        assert [len(rows) for rows in found.values()] == [40, 100, 50]
        kinds = [set(groups[rows]) for rows in found.values()]
        assert sum(map(len, kinds)) == len(set.union(*kinds))
        counts += np.bincount(groups[found["a"]], minlength=100)
    # Each group is in with probability 0.1, all four rows of it.
    assert np.all(counts % 4 == 0)
    assert np.abs(counts / 4 - 30).max() < 4.5 * np.sqrt(300 * 0.1 * 0.9)
    for sizes, given in (({"a": 201, "b": 199}, groups), ({"a": 40}, groups[1:])):
        with pytest.raises(ValueError, match=r"sizes|groups"):
            split_rows(400, 0, sizes, groups=given)


@pytest.fixture(scope="module")
def restored(tmp_path_factory):
    """CIFAR-10 and GTSRB as plain arrays, which lie there, or whose program is at hand."""
    for folder in map(Path, os.environ.get("COMPANION_DATA", "").split(os.pathsep)):
        if all((folder / f"{name}.npz").exists() for name in ("cifar10", "gtsrb32")):
            return folder
    if not (SHARED / "restore.py").exists():
        pytest.skip("the plain arrays of CIFAR-10 and GTSRB are not on this machine")
    folder = tmp_path_factory.mktemp("plain")
    restore = runpy.run_path(str(SHARED / "restore.py"))["restore"]
    for name in ("cifar10", "gtsrb32"):
        restore(name, folder)
    return folder


@pytest.mark.slow
def test_cifar10_from_arrays_is_the_official_training_set(restored, monkeypatch):
    monkeypatch.setenv("COMPANION_DATA", str(restored))
    train, test = (load_images("cifar10", split) for split in ("train", "test"))
    records = np.hstack(
        [
            train.labels[:, None].astype(np.uint8),
            train.images.transpose(0, 3, 1, 2).reshape(-1, 3072),
        ]
    )
    found = [hashlib.sha256(part.tobytes()).hexdigest() for part in np.split(records, 5)]
    assert tuple(found) == BATCHES
    assert train.names[:2] == ("airplane", "automobile")
    assert np.all(np.diff(test.labels) >= 0)  # ordered by class: nothing may join it by position


@pytest.mark.slow
def test_gtsrb_is_split_by_track(restored, monkeypatch):
    monkeypatch.setenv("COMPANION_DATA", str(restored))
    source = load_images("gtsrb32", "train")
    assert (len(source), len(source.names), len(np.unique(source.groups))) == (13_069, 43, 1_307)
    assert len(load_images("gtsrb32", "test")) == 12_630
    spec = DataSpec("gtsrb32", "images", train=10_000, test=1000, validation=3000)
    drawn = split_rows(13_069, 0, {"train": 10_000, "validation": 3000}, groups=source.groups)
    tracks = [set(source.groups[rows]) for rows in drawn.values()]
    assert not tracks[0] & tracks[1]
    loaded = spec.load()
    np.testing.assert_array_equal(loaded.training.targets, source.labels[np.sort(drawn["train"])])
