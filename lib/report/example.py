"""An example of a user's file, made of scikit-learn's digits, and the ten lines that make one."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib import data
from lib.data.arrays import as_path
from lib.report.canonical import COLUMNS
from lib.report.predictions import ModelPredictions
from lib.runs import write_atomic

#: Libraries whose models' predictions :mod:`lib.report.examples` saves.
EXAMPLES = ("tables", "pytorch", "scikit_learn", "hugging_face")

_SIZES = {"train": 300, "other": 90, "holdout": 450, "test": 450, "user": 450}
_LABELLED = 120
_CLAIM = 1.0, 1e-5  # which is not true: nothing private was done


def example_predictions(path: Any, kind: str = "npz", *, seed: int) -> Path:
    """Write an example of the file that :func:`lib.report.read_predictions` reads, with everything.

    A linear classifier of scikit-learn's digits.  Each of 300 images is in its training data by the
    toss of a coin, and the attack's score is the log probability of an image's class.  The model
    abstains at random, the likelier the less sure it is; a competitor was trained on 90 other
    images.  The user's images are blurred; 120 of them, drawn at random, have labels.  A privacy of
    epsilon = 1 is claimed, which is not true.

    Parameters
    ----------
    path : path-like
        Where the file shall be; missing folders are made.  It appears whole or not at all.
    kind : {"npz", "csv"}
        Its format.  Both hold the same numbers.
    seed : int
        Of everything that is drawn.

    Returns
    -------
    pathlib.Path
        `path`.
    """
    path = as_path("path", path)
    if kind not in ("npz", "csv"):
        raise ValueError(f"kind must be npz or csv, got {kind!r}")
    arrays = _arrays(seed)
    if kind == "npz":
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return write_atomic(path, buffer.getvalue())
    return write_atomic(path, _as_csv(arrays))


def example_source(name: str) -> str:
    """Return the text of one of the files in :mod:`lib.report.examples`.

    Parameters
    ----------
    name : {"tables", "pytorch", "scikit_learn", "hugging_face"}
        What the outputs come from.

    Returns
    -------
    str
        Python; the function ``save_predictions``.
    """
    if name not in EXAMPLES:
        raise ValueError(f"name must be one of {', '.join(EXAMPLES)}, got {name!r}")
    path = Path(__file__).parent / "examples" / f"{name}.py"
    return path.read_text(encoding="utf-8")


def _arrays(seed: int) -> dict[str, npt.NDArray[Any]]:
    images, labels = _digits(seed, _SIZES)
    rng = np.random.default_rng([seed, 9])
    member = rng.random(_SIZES["train"]) < 0.5
    model = _Linear(images["train"][member], labels["train"][member])
    other = _Linear(images["other"], labels["other"])
    arrays = _three_parts(model, images, labels, rng)
    arrays["other_logits"] = other.logits(images["test"])
    sure = {w: special.softmax(arrays[f"{w}_logits"], axis=1).max(1) for w in ("test", "other")}
    arrays["test_features"] = np.column_stack([*sure.values(), images["test"].mean(axis=(1, 2))])
    for who, confidence in sure.items():
        propensity = 0.8 - 0.7 * confidence
        arrays[f"{who}_abstained"] = rng.random(len(confidence)) < propensity
        arrays[f"{who}_propensities"] = propensity
    scores = _log_probabilities(model, images["train"], labels["train"])
    arrays |= {"member_scores": scores[member], "nonmember_scores": scores[~member]}
    return arrays | dict(zip(("epsilon", "delta"), map(np.asarray, _CLAIM), strict=True))


def _digits(seed: int, sizes: dict[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Images and labels of disjoint sets."""
    digits, rows = data.load_digits(), data.digits_splits(seed, sizes)
    return (
        {name: digits.images[where] for name, where in rows.items()},
        {name: digits.labels[where] for name, where in rows.items()},
    )


def _three_parts(
    model: Any, images: dict[str, Any], labels: dict[str, Any], rng: Any
) -> dict[str, npt.NDArray[Any]]:
    """Logits and labels; the user's images are blurred, and few of their labels are known."""
    user = labels["user"]
    images = images | {"user": data.corrupt(images["user"], "blur", 0.5, rng)}
    known = rng.choice(len(user), _LABELLED, replace=False)
    labels = labels | {"user": np.where(np.isin(np.arange(len(user)), known), user, -1)}
    arrays = {}
    for part in ("holdout", "test", "user"):
        arrays |= {f"{part}_logits": model.logits(images[part]), f"{part}_labels": labels[part]}
    return arrays


def suitability_example(seed: int) -> ModelPredictions:
    """Logits of digits: a classifier that was trained on few, so that errors remain."""
    sizes = {"train": 150, "holdout": 700, "test": 400, "user": 500}
    images, labels = _digits(seed, sizes)
    model = _Linear(images["train"], labels["train"])
    return ModelPredictions(**_three_parts(model, images, labels, np.random.default_rng(seed)))


class _Linear:
    """That of :func:`lib.training.train_linear`, whose package loads PyTorch: no report does."""

    def __init__(self, images: Any, labels: Any):
        from sklearn.linear_model import LogisticRegression  # here: it takes a second

        model = LogisticRegression(solver="newton-cholesky", tol=1e-12)
        model.fit(images.reshape(len(images), -1), labels)
        self._weights = model.coef_ - model.coef_.mean(axis=0)
        self._bias = model.intercept_ - model.intercept_.mean()

    def logits(self, images: Any) -> npt.NDArray[Any]:
        """Logits of images, shape (n, n_classes)."""
        flat = np.asarray(images, dtype=float).reshape(len(images), -1)
        return flat @ self._weights.T + self._bias


def _log_probabilities(model: Any, images: Any, labels: Any) -> npt.NDArray[Any]:
    log = special.log_softmax(model.logits(images), axis=1)
    return log[np.arange(len(labels)), labels]


def _as_csv(arrays: dict[str, npt.NDArray[Any]]) -> str:
    """The arrays of the example as one table."""
    tables = []
    for part, kinds in COLUMNS.items():
        columns: dict[str, Any] = {"part": part}
        for kind, name in kinds.items():
            if name in arrays:
                value = arrays[name]
                if value.ndim == 2:
                    columns |= {f"{kind}_{j}": column for j, column in enumerate(value.T)}
                else:
                    columns[kind] = value[()]
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables)
    table["label"] = table["label"].where(table["label"] >= 0).astype("Int64")
    return table.to_csv(index=False, lineterminator="\n")
