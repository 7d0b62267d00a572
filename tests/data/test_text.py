import importlib.util
import sys
import types

import numpy as np
import pytest

from lib.data.errors import DataUnavailable
from lib.data.text import REVISION, load_sst2

ROWS = {"sentence": ["a fine film", "a dull one", "fine"], "label": [1, 0, 1], "idx": [0, 1, 2]}


class Table(dict):
    @property
    def column_names(self):
        return list(self)


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for the package ``datasets``, which remembers what it was asked for."""
    made = types.SimpleNamespace(table=Table(ROWS), error=None, calls=[])

    def load_dataset(*arguments, **options):
        made.calls.append((arguments, options))
        if made.error:
            raise made.error
        return made.table

    package = types.ModuleType("datasets")
    package.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", package)
    monkeypatch.setenv("COMPANION_OFFLINE", "0")
    return made


@pytest.mark.parametrize("split", ["train", "validation"])
def test_texts_and_labels(hub, split):
    made = load_sst2(split)
    assert (made.name, made.names, len(made)) == ("sst2", ("negative", "positive"), 3)
    assert made.texts == tuple(ROWS["sentence"])
    np.testing.assert_array_equal(made.labels, ROWS["label"])
    assert made.labels.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        made.labels[0] = 0
    assert hub.calls == [(("stanfordnlp/sst2",), {"revision": REVISION, "split": split})]


@pytest.mark.parametrize("split", ["test", "all", None])
def test_other_splits(hub, split):
    with pytest.raises(ValueError, match=r"one of \('train', 'validation'\) .* not public, got"):
        load_sst2(split)
    assert hub.calls == []


def test_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # what makes import fail
    with pytest.raises(DataUnavailable) as caught:
        load_sst2("train")
    assert 'pip install "abstention-privacy-companion[text]"' in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(importlib.util.find_spec("datasets") is not None, reason="it is installed")
def test_really_not_installed():
    with pytest.raises(DataUnavailable, match="pip install"):
        load_sst2("train")


def test_offline(hub, monkeypatch):
    monkeypatch.setenv("COMPANION_OFFLINE", "1")
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DataUnavailable, match="set HF_HUB_OFFLINE=1"):
        load_sst2("train")
    assert hub.calls == []
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert len(load_sst2("train")) == 3


@pytest.mark.parametrize("error", [ConnectionError("no\nnetwork"), RuntimeError("odd")])
def test_failure_is_one_line_with_its_cause(hub, error):
    hub.error = error
    with pytest.raises(
        DataUnavailable, match=r"sst2. cannot be loaded: (no network|odd)"
    ) as caught:
        load_sst2("train")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"text": ["a"], "label": [0]}, r"found no sentence in \['label', 'text'\]"),
        ({"sentence": ["a"]}, r"found no label in \['sentence'\]"),
        ({"sentence": [], "label": []}, "expected sentences, found 0 values"),
        ({"sentence": ["a", None], "label": [0, 1]}, "expected sentences"),
        ({"sentence": ["a", "b"], "label": [0, -1]}, r"labels 0 and 1, found \[-1 +0\]"),
        ({"sentence": ["a", "b"], "label": ["0", "1"]}, "labels 0 and 1"),
        ({"sentence": ["a", "b"], "label": [0]}, "expected 2 labels, found 1"),
    ],
)
def test_other_content(hub, table, message):
    hub.table = Table(table)
    with pytest.raises(ValueError, match=rf"SST-2 \(train\): .*{message}"):
        load_sst2("train")
