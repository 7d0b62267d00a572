"""P4's simulated classifiers, whose true scores are known."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import integrate, special

#: Fraction of labels that are flipped.
FLIP = 0.15

_NEAR = 0.2  # A abstains mostly where |x0 + x1 - 1| is less
_CIRCLE = 0.8

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Simulated:
    """Points with the predictions and abstentions of A and B."""

    X: Array  # shape (n, 2)
    labels: npt.NDArray[np.bool_]  # flipped ones included
    probabilities: tuple[Array, Array]  # of class 1
    propensities: tuple[Array, Array]  # of abstention: the truth
    abstained: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
    scores: tuple[Array, Array]  # zero-one, those that abstention hides included

    @property
    def oracle_difference(self) -> float:
        """Mean score of A minus that of B on these points, had neither abstained."""
        return float(self.scores[0].mean() - self.scores[1].mean())


def simulate(
    n: int,
    experiment: str = "curved",
    epsilon: float = 0.2,
    shift: float = 0.0,
    near: float = _NEAR,
    *,
    rng: np.random.Generator | int,
) -> Simulated:
    """Draw a data set of P4's simulated experiments.

    P4, simulated experiments 1 and 2; the authors' notebook sets the width of B's region.
    """
    rng = np.random.default_rng(rng)
    x = rng.uniform(size=(n, 2))
    labels = (x.sum(axis=1) >= 1) ^ (rng.random(n) < FLIP)
    predictions, propensities = classify(x, experiment, epsilon, shift, near)
    abstained = tuple(rng.random(n) < p for p in propensities)
    scores = tuple(((p > 0.5) == labels).astype(float) for p in predictions)
    return Simulated(x, labels, predictions, propensities, abstained, scores)


def classify(
    x: Array,
    experiment: str = "curved",
    epsilon: float = 0.2,
    shift: float = 0.0,
    near: float = _NEAR,
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Predictions of A and B, and their propensities: B's region is `near` wide to either side."""
    total, square = x.sum(axis=1), (x**2).sum(axis=1)
    predictions = [special.expit(total - 1)]
    close = [np.abs(total - 1) < _NEAR]
    if experiment == "curved":
        predictions.append(np.clip(0.5 * square + 0.1, 0, 1))
        close.append(np.abs(square - _CIRCLE) < 1.25 * near)
    else:
        predictions.append(special.expit(total - 1 - shift))
        close.append(np.abs(total - 1 - shift) < near)
    return tuple(predictions), tuple(np.where(one, 1 - epsilon, epsilon) for one in close)


def true_difference(experiment: str = "curved", shift: float = 0.0) -> float:
    """The population's psi_A - psi_B."""
    # A scores 0.85, B 0.15 instead of it on the other side of the label's boundary.
    if experiment == "shifted":
        return (1 - 2 * FLIP) * (0.5 - (1 - shift) ** 2 / 2)
    # Where the arc x0^2 + x1^2 = 0.8 meets the line x0 + x1 = 1, and where it ends.
    crossing = (1 - math.sqrt(2 * _CIRCLE - 1)) / 2
    area = integrate.quad(
        lambda t: abs((1 - t) - math.sqrt(max(_CIRCLE - t * t, 0.0))),
        0,
        1,
        points=[crossing, 1 - crossing, math.sqrt(_CIRCLE)],
        epsabs=1e-13,
    )[0]
    return (1 - 2 * FLIP) * area
