"""Sentences with labels: SST-2, and what a linear model sees of a sentence without a vocabulary."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lib.check import require_choice, require_finite, require_int
from lib.data.store import fetch

#: Data files of each set of texts, by split.
TEXT_FILES = {"sst2": {"train": "sst2/train", "validation": "sst2/dev"}}
NAMES = ("negative", "positive")


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
    """Load SST-2 as in GLUE: sentences from film reviews and their phrases, negative or positive.

    Parameters
    ----------
    split : {"train", "validation"}
        67,349 phrases or 872 sentences.  The labels of GLUE's test split were never published.

    Raises
    ------
    ValueError
        If the split is unknown.
    DataUnavailable, DataCorrupted, UndeclaredData
        As :func:`lib.data.fetch`.

    Notes
    -----
    Training rows are whole sentences and parts of them: of the 66,978 different ones 60,093 occur
    within a longer one, so that points drawn from them at random are not independent of each other.
    No validation sentence is a training row; 8 of the 872 contain one of five words or more.

    R. Socher et al., Recursive Deep Models for Semantic Compositionality over a Sentiment Treebank,
    EMNLP 2013; as a task of two classes: A. Wang et al., GLUE, ICLR 2019.
    """
    require_choice("split", split, tuple(TEXT_FILES["sst2"]))
    texts, labels = read_sentences(fetch(TEXT_FILES["sst2"][split]))
    return TextSet("sst2", texts, labels, NAMES)


def read_sentences(path: Path) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Texts and labels of GLUE's TSV: a head, then a sentence, a tab and 0 or 1 a line."""
    rows = [line.split("\t") for line in path.read_text("utf-8").removesuffix("\n").split("\n")]
    labels = np.array([int(label) for _, label in rows[1:]], dtype=np.int64)
    labels.flags.writeable = False
    return tuple(sentence.strip() for sentence, _ in rows[1:]), labels


def hashed_words(
    sentences: Sequence[str], components: int = 4096, norm: float = 16.0
) -> npt.NDArray[np.float32]:
    """Signed counts of words and of pairs of neighboring words, hashed into few components.

    Nothing is fitted: a vocabulary of private sentences would show who is among them.

    Parameters
    ----------
    sentences : sequence of str
        Words are what stands between blanks, in lower case.
    components : int
        Length of a row.
    norm : float
        Euclidean length that every row is scaled to.  A linear model's gradient on an example is
        at most :math:`\\sqrt 2` times as long; with rows of length 1 nearly all would stay below a
        clipping norm of 1, and noise be larger than what is learned.

    Returns
    -------
    ndarray of float32, shape (n, components)
        The hash is BLAKE2b, the same on all machines.  A sentence without words is a row of zeros,
        as is one whose words cancel.

    References
    ----------
    Weinberger et al. (2009), Feature hashing for large scale multitask learning.

    Examples
    --------
    >>> rows = hashed_words(["A fine film .", "a FINE film ."], components=16, norm=2.0)
    >>> bool((rows[0] == rows[1]).all()), float((rows[0] ** 2).sum().round(4))
    (True, 4.0)
    """
    require_int("components", components, at_least=1)
    require_finite("norm", norm, above=0)
    if isinstance(sentences, str) or not all(isinstance(each, str) for each in sentences):
        raise ValueError(f"sentences must be a sequence of strings, got {sentences!r:.80}")
    made = np.zeros((len(sentences), components), dtype=np.float32)
    places: dict[str, tuple[int, int]] = {}
    for row, sentence in zip(made, sentences, strict=True):
        words = sentence.lower().split()
        for term in itertools.chain(words, map(" ".join, itertools.pairwise(words))):
            if term not in places:
                digest = hashlib.blake2b(term.encode(), digest_size=8).digest()
                number = int.from_bytes(digest, "little")
                places[term] = (number >> 1) % components, 1 - 2 * (number & 1)
            place, sign = places[term]
            row[place] += sign
        if row.any():
            row *= norm / np.linalg.norm(row)
    return made
