"""Sentences with labels, by way of Hugging Face's ``datasets`` where that is installed."""

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.data.errors import DataUnavailable

__all__ = ["TextSet", "load_sst2"]

SST2 = "stanfordnlp/sst2"
REVISION = "8d51e7e4887a4caaa95b3fbebbf53c0490b58bbb"  # the one in Parquet, as others pin it too
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
    """Load SST-2: sentences from film reviews, negative or positive.

    The data come from the Hugging Face hub (``stanfordnlp/sst2``, one fixed revision), through the
    cache of ``datasets``; they are not in this project's registry, so that a chapter's cache key
    does not cover them.

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
        If the split is unknown, or what arrives is not SST-2.
    DataUnavailable
        If ``datasets`` is not installed, or cannot get the data.

    Notes
    -----
    R. Socher et al., Recursive Deep Models for Semantic Compositionality over a Sentiment Treebank,
    EMNLP 2013; as a task of two classes: A. Wang et al., GLUE, ICLR 2019.
    """
    if split not in ("train", "validation"):
        raise ValueError(
            "split must be one of ('train', 'validation') for SST-2, whose test labels are not"
            f" public, got {split!r}"
        )
    try:
        import datasets
    except ImportError as error:
        raise DataUnavailable(
            'SST-2 needs the package datasets: pip install "abstention-privacy-companion[text]"'
        ) from error
    if _set("COMPANION_OFFLINE") and not (_set("HF_HUB_OFFLINE") or _set("HF_DATASETS_OFFLINE")):
        raise DataUnavailable(
            "SST-2 comes through the package datasets, which COMPANION_OFFLINE does not keep from"
            " the network: set HF_HUB_OFFLINE=1 too to read what it has in its cache"
        )
    try:
        table = datasets.load_dataset(SST2, revision=REVISION, split=split)
    except Exception as error:  # it has many for no network, no cache, no such data
        cause = " ".join(str(error).split())
        raise DataUnavailable(f"SST-2 ({SST2}) cannot be loaded: {cause}") from error
    if missing := {"sentence", "label"} - set(table.column_names):
        raise ValueError(
            f"SST-2 ({split}): expected the columns sentence and label, found no {min(missing)} in"
            f" {sorted(table.column_names)}"
        )
    texts, labels = tuple(table["sentence"]), np.array(list(table["label"]))
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"SST-2 ({split}): expected sentences, found {len(texts)} values")
    if len(labels) != len(texts):
        raise ValueError(f"SST-2 ({split}): expected {len(texts)} labels, found {len(labels)}")
    if labels.dtype.kind not in "iu" or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"SST-2 ({split}): expected labels 0 and 1, found {np.unique(labels)}")
    labels = labels.astype(np.int64)
    labels.flags.writeable = False
    return TextSet("sst2", texts, labels, NAMES)


def _set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")
