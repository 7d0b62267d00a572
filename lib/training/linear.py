"""A linear softmax classifier on pixels, for data that ship with the book."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.check import as_real


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """A trained linear classifier.

    Attributes
    ----------
    weights : ndarray, shape (n_classes, n_pixels)
        One row a class.
    bias : ndarray, shape (n_classes,)
        Intercepts.
    """

    weights: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]

    def logits(self, images: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Logits of images, shape (n, n_classes).

        Parameters
        ----------
        images : array_like, shape (n, ...)
            Flattened per image.
        """
        images = np.asarray(images, dtype=float)
        flat = images.reshape(len(images), -1)
        if flat.shape[1] != self.weights.shape[1]:
            raise ValueError(
                f"images must have {self.weights.shape[1]} pixels each, got {flat.shape[1]}"
            )
        return flat @ self.weights.T + self.bias


def train_linear(images: npt.ArrayLike, labels: npt.ArrayLike) -> LinearClassifier:
    """Fit a softmax regression with scikit-learn's usual L2 penalty (C = 1), to its optimum.

    Logits sum to zero over the classes, up to rounding.

    Parameters
    ----------
    images : array_like, shape (n, ...)
        Flattened per image.
    labels : array_like of int, shape (n,)
        Classes 0 to k - 1, each of which must occur; k is at least 3.

    Examples
    --------
    >>> classifier = train_linear(inputs, labels)
    >>> bool((classifier.logits(inputs).argmax(axis=1) == labels).mean() > 0.8)
    True
    """
    images, labels = as_real("images", images).astype(float), np.asarray(labels)
    if len(images) != len(labels):
        raise ValueError(f"labels must have one entry per image ({len(images)}), got {len(labels)}")
    classes = np.unique(labels)
    if len(classes) < 3 or not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(f"labels must take all values 0 to k - 1, k >= 3, got {classes.tolist()}")
    # To the optimum: what is left by a solver that stops early depends on the processor.
    from sklearn.linear_model import LogisticRegression  # here: it takes a second

    model = LogisticRegression(solver="newton-cholesky", tol=1e-12)
    model.fit(images.reshape(len(images), -1), labels)
    # The softmax ignores a common shift of the intercepts: of all optima, the one with sum 0.
    bias = model.intercept_ - model.intercept_.mean()
    return LinearClassifier(model.coef_ - model.coef_.mean(axis=0), bias)
