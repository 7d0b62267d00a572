"""SST-2's files, and sentences as rows of numbers."""

import hashlib

import numpy as np
import pytest

from lib.data import available, load_sst2
from lib.data.text import TEXT_FILES, hashed_words, read_sentences

HEAD = "sentence\tlabel\n"


def test_real_files(real_data):
    if not all(map(available, TEXT_FILES["sst2"].values())):
        pytest.skip("SST-2 is not on this machine")
    train, validation = load_sst2("train"), load_sst2("validation")
    assert (len(train), len(validation)) == (67_349, 872)
    assert (train.labels.sum(), validation.labels.sum()) == (37_569, 444)
    assert train.texts[0] == "hide new secretions from the parental units"
    assert validation.texts[1] == "unflinchingly bleak and desperate"
    assert (train.name, train.names) == ("sst2", ("negative", "positive"))
    with pytest.raises(ValueError, match="read-only"):
        train.labels[0] = 0
    rows = set(train.texts)
    assert len(rows) == 66_978
    assert not rows & set(validation.texts)


@pytest.mark.parametrize("end", ["", "\n"])
def test_rows(tmp_path, end):
    content = HEAD + 'a "fine film \t1\n\x85 dull\x0b one\t0' + end
    path = tmp_path / "dev.tsv"
    path.write_text(content, "utf-8", newline="")
    texts, labels = read_sentences(path)
    assert texts == ('a "fine film', "dull\x0b one")
    assert labels.tolist() == [1, 0]
    assert labels.dtype == np.int64


def test_hashed_words_by_their_definition():
    sentence = "Not a Good film"
    expected = np.zeros(64)
    for term in ("not", "a", "good", "film", "not a", "a good", "good film"):
        number = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")
        expected[number // 2 % 64] += -1 if number % 2 else 1
    found = hashed_words([sentence, sentence.upper()], components=64, norm=3.0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], 3 * expected / np.linalg.norm(expected), rtol=1e-6)
    np.testing.assert_array_equal(found[0], found[1])


def test_hashed_words_stay_what_they_are():
    """In other processes, and in other years."""
    (row,) = hashed_words(["a fine film"])
    places = np.flatnonzero(row)
    assert (places.tolist(), np.sign(row[places]).tolist()) == (
        [416, 2139, 2466, 3104, 3562],
        [1, -1, -1, 1, 1],
    )
    np.testing.assert_allclose(np.linalg.norm(row), 16, rtol=1e-6)
