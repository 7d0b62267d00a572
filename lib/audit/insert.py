"""Canaries: training examples that get a wrong label."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.check import as_classes, as_generator, as_integer

#: The authors' seed of P5's published single runs.
LEGACY_SEED = 11337


@dataclass(frozen=True, eq=False)
class Canaries:
    """Examples with a wrong label.

    Attributes
    ----------
    positions : ndarray of int64, shape (n,)
        Of the canaries among the training examples, in the order in which they were drawn.
    true_labels, canary_labels : ndarray of int64, shape (n,)
        Their labels before and after.
    n_classes : int
        C.
    """

    positions: npt.NDArray[np.int64]
    true_labels: npt.NDArray[np.int64]
    canary_labels: npt.NDArray[np.int64]
    n_classes: int

    def __len__(self) -> int:
        """Return the number of canaries."""
        return len(self.positions)

    def apply(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return a copy of the labels, those that canaries were drawn for, with the wrong ones."""
        labels = as_classes("labels", labels).astype(np.int64)
        if len(self) and (
            self.positions.max() >= len(labels)
            or not np.array_equal(labels[self.positions], self.true_labels)
        ):
            raise ValueError("labels must be those that the canaries were drawn for")
        labels[self.positions] = self.canary_labels
        return labels


def insert_canaries(
    labels: npt.ArrayLike,
    n: int,
    n_classes: int,
    seed: int | np.random.Generator = LEGACY_SEED,
    *,
    legacy: bool = False,
) -> Canaries:
    """Draw canaries: n examples, each with a label drawn uniformly from its wrong ones.

    Parameters
    ----------
    labels : array_like of int, shape (m,)
        Labels of the training examples, from 0 to C - 1.
    n : int
        Number of canaries, from 0 to m.
    n_classes : int
        C, at least 3: the attack compares the wrong label with *another* wrong one.
    seed : int or Generator
        Of the draw; an integer if `legacy`.
    legacy : bool
        Draw as the authors' program does, by NumPy's legacy generator: with the seed 11337, on the
        labels of CIFAR-10 and CIFAR-100, the positions and labels of P5's published confidences.

    Returns
    -------
    Canaries
        Positions are drawn without replacement.

    References
    ----------
    P5, appendix B, Game 3; the function ``insert_canaries`` of the authors' public program.

    Examples
    --------
    >>> drawn = insert_canaries([0, 1, 2, 0, 1, 2], 2, n_classes=3, seed=0)
    >>> changed = drawn.apply([0, 1, 2, 0, 1, 2])
    >>> bool((changed[drawn.positions] != drawn.true_labels).all())
    True
    """
    n_classes = as_integer("n_classes", n_classes, 3)
    labels = as_classes("labels", labels, classes=n_classes).astype(np.int64)
    if not len(labels):
        raise ValueError("labels must have at least one entry, got none")
    n = as_integer("n", n, 0, len(labels))
    if legacy:
        old = np.random.RandomState(as_integer("seed", seed, 0))
        positions = old.choice(len(labels), n, replace=False)
        wrong = np.empty(n, np.int64)
        for i, position in enumerate(positions):
            others = np.delete(np.arange(n_classes), labels[position])
            wrong[i] = old.choice(others)
    else:
        rng = as_generator(seed)
        positions = rng.permutation(len(labels))[:n]
        wrong = (labels[positions] + rng.integers(1, n_classes, n)) % n_classes
    return Canaries(
        positions.astype(np.int64), labels[positions], wrong.astype(np.int64), n_classes
    )
