import zlib

import numpy as np
import pytest

from lib.data import DataCorrupted, DataUnavailable, available, load_sst2, store, text
from lib.data.text import hashed_words

ROWS = 'sentence\tlabel\na fine film \t1\na "dull"\u0085one\t0\nfine\t1\n'


@pytest.fixture
def file(monkeypatch, tmp_path):
    """A stand-in for the published file."""
    path = tmp_path / "train.tsv"
    path.write_text(ROWS, encoding="utf-8")
    monkeypatch.setattr(store, "fetch", {"sst2/train": path}.__getitem__)
    monkeypatch.setattr(text, "_FILES", {"train": ("sst2/train", 3)})
    return path


def test_texts_and_labels(file):
    made = load_sst2("train")
    assert (made.name, made.names, len(made)) == ("sst2", ("negative", "positive"), 3)
    assert made.texts == ("a fine film ", 'a "dull"\u0085one', "fine")
    assert made.labels.tolist() == [1, 0, 1]
    assert made.labels.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        made.labels[0] = 0


@pytest.mark.parametrize("split", ["test", "all", None])
def test_other_splits(split):
    with pytest.raises(ValueError, match=r"one of \('train', 'validation'\) .* not public, got"):
        load_sst2(split)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROWS.replace("\t0", "\t2"), "line 3: expected a sentence, a tabulator and 0 or 1"),
        (ROWS.replace("fine\t1", "\t1"), "line 4: expected a sentence"),
        (ROWS.replace("fine\t1", "fine"), "line 4: expected a sentence"),
        (ROWS.replace("label", "y"), "3 rows, found 'sentence.ty' and 3"),
        (ROWS + "good\t1\n", "3 rows, found .* and 4"),
    ],
)
def test_other_content(file, content, message):
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataCorrupted, match=message):
        load_sst2("train")


@pytest.mark.data
def test_the_published_files():
    if not available("sst2/train"):
        with pytest.raises(DataUnavailable, match="sst2/train"):
            load_sst2("train")
        return
    train, validation = load_sst2("train"), load_sst2("validation")
    assert (len(train), len(validation)) == (67_349, 872)
    assert (train.labels.sum(), validation.labels.sum()) == (37_569, 444)
    known = {t.strip() for t in train.texts}
    assert len(known) == 66_978
    assert not known & {t.strip() for t in validation.texts}


def test_words_and_pairs_are_counted_with_signs():
    places = {}
    for gram in ("good", "film", "good film", "film good"):
        code = zlib.crc32(gram.encode())
        places[gram] = code % 4096, -1 if code >= 2**31 else 1
    (row,) = hashed_words(["Good film  GOOD"], length=5.0)
    expected = np.zeros(4096)
    for gram, count in (("good", 2), ("film", 1), ("good film", 1), ("film good", 1)):
        place, sign = places[gram]
        expected[place] += sign * count
    np.testing.assert_allclose(row, 5 * expected / np.linalg.norm(expected), rtol=1e-6)
    assert {sign for _, sign in places.values()} == {-1, 1}


def test_vectors_have_one_length_and_do_not_depend_on_the_others():
    texts = ["a fine film", "", "dull", "a fine film"]
    found = hashed_words(texts, components=64)
    assert (found.dtype, found.shape) == (np.float32, (4, 64))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [16, 0, 16, 16], rtol=1e-6)
    np.testing.assert_array_equal(found[0], found[3])
    np.testing.assert_array_equal(found[2:3], hashed_words(["dull"], components=64))
    assert hashed_words([]).shape == (0, 4096)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"texts": [1]}, TypeError, "texts must be strings, got 1"),
        (
            {"texts": ["a"], "components": 1},
            ValueError,
            "components must be a number at least 2, got 1",
        ),
        ({"texts": ["a"], "length": 0.0}, ValueError, "length must be a number above 0, got 0.0"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        hashed_words(**arguments)
