"""The canaries' files are refused in one sentence if they hold anything but what was published."""

import io
import pickle
import re
import zipfile

import numpy as np
import pytest

from lib import data
from lib.data import canaries


@pytest.fixture
def files(tmp_path, monkeypatch):
    """What stands for the downloads: name to content, written when it is asked for."""
    content = {}

    def fetch(name):
        path = tmp_path / name.replace("/", "_")
        value = content[name]
        if isinstance(value, bytes):
            path.write_bytes(value)
        else:
            with path.open("wb") as file:
                np.save(file, value)
        return path

    monkeypatch.setattr(canaries, "fetch", fetch)
    return content


def archive(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, value in members.items():
            out.writestr(name, pickle.dumps(value))
    return file.getvalue()


P = np.full((1000, 10), 0.1, np.float32)


def test_what_was_published_is_read(files):
    files["canaries/confs_cifar10_RR_HH"] = P
    found = data.load_canary_confidences("cifar10", "ALIBI", "HH")
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, 0.1)
    positions = np.arange(1000)[::-1].astype(np.int32)
    files |= {
        "canaries/10x100_confs_cifar10_RR_M": P,
        "canaries/10x100_pos_cifar10_RR_M": positions,
        "canaries/10x100_labels_cifar10_RR_M": positions % 10,
    }
    runs = data.load_canary_runs("cifar10", "M")
    np.testing.assert_array_equal(runs.positions, positions)
    np.testing.assert_array_equal(runs.labels, positions % 10)
    labels = np.arange(50_000) % 100
    files["cifar_n/cifar100_human"] = archive({"a/data.pkl": {"clean_label": labels}})
    np.testing.assert_array_equal(data.load_cifar_labels("cifar100"), labels)


def test_all_names_are_registered_and_told_once():
    names = canaries.canary_files()
    assert len(names) == len(set(names)) == 2 * (10 + 9 + 1)
    assert set(names) <= set(data.registry())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (P[:, :9], "must hold floats of shape (1000, 10), got float32 of shape (1000, 9)"),
        (P.astype(int), "must hold floats of shape (1000, 10), got int64 of shape (1000, 10)"),
    ],
)
def test_other_confidences_are_refused(files, wrong, message):
    files["canaries/confs_cifar10_PATE_L"] = wrong
    with pytest.raises(ValueError, match=re.escape(f"canaries_confs_cifar10_PATE_L {message}")):
        data.load_canary_confidences("cifar10", "PATE", "L")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros(999, int), "must hold integers of shape (1000,), got int64 of shape (999,)"),
        (np.zeros(1000), "must hold integers of shape (1000,), got float64 of shape (1000,)"),
        (np.arange(1000) - 1, "must hold numbers from 0 to 9, got -1 to 998"),
        (np.full(1000, 10), "must hold numbers from 0 to 9, got 10 to 10"),
    ],
)
def test_other_labels_are_refused(files, wrong, message):
    files |= {
        "canaries/10x100_confs_cifar10_RR_H": P,
        "canaries/10x100_pos_cifar10_RR_H": np.zeros(1000, int),
        "canaries/10x100_labels_cifar10_RR_H": wrong,
    }
    with pytest.raises(ValueError, match=re.escape(message)):
        data.load_canary_runs("cifar10", "H")


@pytest.mark.parametrize("members", [{}, {"a/data.pkl": {}, "b/data.pkl": {}}])
def test_an_archive_with_another_number_of_pickles_is_refused(files, members):
    files["cifar_n/cifar10_human"] = archive(members)
    message = f"cifar_n_cifar10_human must hold one data.pkl, got {len(members)}"
    with pytest.raises(ValueError, match=message):
        data.load_cifar_labels("cifar10")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.load_cifar_labels("mnist"), "dataset must be one of 'cifar10', 'cifar100'"),
        (
            lambda: data.load_canary_confidences("cifar10", "RR", "H"),
            "mechanism must be one of 'ALIBI', 'AGIBI', 'PATE', got 'RR'",
        ),
        (
            lambda: data.load_canary_confidences("cifar10", "AGIBI", "HH"),
            "level must be one of 'H', 'M', 'L', got 'HH'",
        ),
        (
            lambda: data.load_canary_runs("cifar10", "HH"),
            "level must be one of 'H', 'M', 'L', got 'HH'",
        ),
    ],
)
def test_unknown_names_say_what_there_is(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
