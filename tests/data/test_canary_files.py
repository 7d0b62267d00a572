"""The canaries' files, as the authors published them."""

import io
import pickle
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
        with (tmp_path / "file").open("wb") as file:
            value = content[name]
            file.write(value) if isinstance(value, bytes) else np.save(file, value)
        return tmp_path / "file"

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
    both = {"clean_label": labels % 10, "random_label2": labels // 10}
    files["cifar_n/cifar10_human"] = archive({"a/data.pkl": both})
    np.testing.assert_array_equal(data.load_cifar_labels("cifar10"), labels % 10)
    people = data.load_cifar_labels("cifar10", "random_label2")
    np.testing.assert_array_equal(people, labels // 10)


def test_all_names_are_registered_and_told_once():
    names = canaries.canary_files()
    assert len(names) == len(set(names)) == 2 * (10 + 9 + 1)
    assert set(names) <= set(data.registry())
