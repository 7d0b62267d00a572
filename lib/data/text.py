"""Sentences with labels, and their words as vectors that nothing was fitted for."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lib.check import require_finite, require_int
from lib.data import store
from lib.data.errors import DataCorrupted

__all__ = ["SST2_FILES", "TextSet", "hashed_words", "load_sst2"]

NAMES = ("negative", "positive")
_FILES = {"train": ("sst2/train", 67_349), "validation": ("sst2/validation", 872)}
#: Files that :func:`load_sst2` reads.
SST2_FILES = tuple(name for name, _ in _FILES.values())
SST2_SPLITS = tuple(_FILES)


@dataclass(frozen=True, eq=False)
class TextSet:
    """Texts and their labels; the labels are read-only.

    Attributes
    ----------
    name : str
        The label to show wherever results on these texts appear.
    texts : tuple of str
        The n texts.
    labels : ndarray of int64, shape (n,)
        Positions in ``names``.
    names : tuple of str
        The classes.
    """

    name: str
    texts: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)


def load_sst2(split: str) -> TextSet:
    """Load SST-2: sentences from film reviews, negative or positive.

    Parameters
    ----------
    split : {"train", "validation"}
        67,349 phrases or 872 sentences.  The labels of the test split were never published.

    Returns
    -------
    TextSet

    Raises
    ------
    ValueError
        If the split is unknown.
    DataUnavailable, DataCorrupted
        As :func:`lib.data.fetch`; or if a row is not a sentence and a label.

    Notes
    -----
    The training split has sentences and phrases of these, so that two of its points may be parts of
    one sentence; 66,978 of its texts are different.  No sentence of the validation split is one of
    them.

    R. Socher et al., Recursive Deep Models for Semantic Compositionality over a Sentiment Treebank,
    EMNLP 2013; as a task of two classes: A. Wang et al., GLUE, ICLR 2019.
    """
    if split not in SST2_SPLITS:
        raise ValueError(
            f"split must be one of {SST2_SPLITS} for SST-2, whose test labels are not"
            f" public, got {split!r}"
        )
    file, count = _FILES[split]
    path = store.fetch(file)
    head, *rows = path.read_text("utf-8").rstrip("\n").split("\n")
    parts = [row.rpartition("\t") for row in rows]
    for number, (text, _, label) in enumerate(parts, start=2):
        if not text.strip() or label not in ("0", "1"):
            raise DataCorrupted(
                f"{path}, line {number}: expected a sentence, a tabulator and 0 or 1, found"
                f" {rows[number - 2][:60]!r}"
            )
    if head != "sentence\tlabel" or len(rows) != count:
        raise DataCorrupted(
            f"{path}: expected the columns sentence and label and {count:,} rows, found {head!r}"
            f" and {len(rows):,}"
        )
    labels = np.array([int(label) for _, _, label in parts], dtype=np.int64)
    labels.flags.writeable = False
    return TextSet("sst2", tuple(text for text, _, _ in parts), labels, NAMES)


def hashed_words(
    texts: Sequence[str], components: int = 4096, length: float = 16.0
) -> npt.NDArray[np.float32]:
    """Signed counts of words and of pairs of neighbours, hashed into a vector of fixed length.

    Neither a vocabulary nor weights are fitted to texts, so that they cost no privacy: what becomes
    of a text depends on that text alone.

    Parameters
    ----------
    texts : sequence of str
        Lower-cased and parted at blanks.
    components : int
        Length of the vectors, at least 2; words that share a component are told apart by no model.
    length : float
        Euclidean norm of each vector, positive; a text without words is all zeros.

    Returns
    -------
    ndarray of float32, shape (n, components)

    Raises
    ------
    TypeError
        If a text is no string.
    ValueError
        If ``components`` or ``length`` is not as above.

    Notes
    -----
    K. Weinberger et al., Feature Hashing for Large Scale Multitask Learning, ICML 2009; the hash is
    CRC-32: the remainder by ``components`` is the place, the highest bit the sign.
    """
    require_int("components", components, at_least=2)
    require_finite("length", length, above=0)
    found = np.zeros((len(texts), components), dtype=np.float32)
    for row, text in zip(found, texts, strict=True):
        if not isinstance(text, str):
            raise TypeError(f"texts must be strings, got {text!r}")
        words = text.lower().split()
        pairs = map(" ".join, pairwise(words))
        codes = np.array([zlib.crc32(w.encode()) for w in (*words, *pairs)], dtype=np.int64)
        np.add.at(row, codes % components, np.where(codes >> 31, -1, 1))
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return found * np.divide(length, norms, out=np.zeros_like(norms), where=norms > 0)
