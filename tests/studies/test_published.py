"""P5's Tables 5 and 6 from its authors' files."""

import os

import numpy as np
import pytest

from lib import data
from lib.audit import insert_canaries
from lib.studies.canaries import published

pytestmark = pytest.mark.skipif(
    not os.environ.get("COMPANION_DATA"),
    reason="COMPANION_DATA is not set: the authors' confidences are not on this machine",
)


@pytest.fixture(scope="module")
def audits():
    return published.published_audits()


@pytest.mark.parametrize(("dataset", "total"), [("cifar10", 4641), ("cifar100", 50213)])
def test_canaries_have_the_published_checksums(dataset, total):
    labels = data.load_cifar_labels(dataset)
    found = insert_canaries(labels, 1000, data.CANARY_CLASSES[dataset], legacy=True)
    assert int(found.positions.sum()) == 25165634
    assert int(found.canary_labels.sum()) == total


@pytest.mark.parametrize(("dataset", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_labels_are_balanced(dataset, classes):
    labels = data.load_cifar_labels(dataset)
    assert np.bincount(labels).tolist() == [50_000 // classes] * classes
    for level in data.CANARY_RUNS:
        runs = data.load_canary_runs(dataset, level)
        assert len(np.unique(runs.positions)) == 1000
        assert (runs.labels != labels[runs.positions]).all()


@pytest.mark.parametrize(
    ("key", "printed"),
    [
        (("cifar10", "ALIBI", "H", "1 x 1000"), "2.9–4.0"),
        (("cifar10", "ALIBI", "L", "1 x 1000"), "0.0–2.2"),
        (("cifar10", "AGIBI", "M", "1 x 1000"), "0.7–1.4"),
        (("cifar10", "ALIBI", "M", "10 x 100"), "0.2–2.5"),
        (("cifar100", "ALIBI", "M", "1 x 1000"), "1.4–2.4"),
        (("cifar100", "ALIBI", "L", "10 x 100"), "0.6–1.1"),
    ],
)
def test_printed_intervals(audits, key, printed):
    assert f"{audits[key].low:.1f}–{audits[key].high:.1f}" == printed
