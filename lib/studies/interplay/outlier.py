"""P1's synthetic example: one outlier among a thousand points (section 3.3, Figure 1)."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.runs import Checkpoint, Outcome, RunStore
from lib.training import ModelSpec, TrainingConfig, TrainingData, module_of, train_many

MAJORITY, OUTLIER = 1, 0  # classes; P1's labels 1 and -1
POINTS, DISTANCE = 1000, 10.0  # of the majority, of the outlier from its middle
BUDGETS = (math.inf, 7.0, 3.0, 1.0)  # P1's
RATES = (0.1, 0.3, 1.0, 3.0)  # learning rates, which P1 does not give
OTHER_NORM = 1.0  # clipping norm beside the one asked for: 10 in P1


@dataclass(frozen=True, eq=False)
class OutlierStudy:
    """Logistic regressions on a majority around 0 and one point around (10, 0)."""

    epsilons: tuple[float, ...]
    # shape (epsilons, seeds): probability of the majority's class at the training outlier
    wrong_confidence: npt.NDArray[np.float64]
    test_wrong_confidence: npt.NDArray[np.float64]  # the same at an outlier drawn anew
    test_accuracy: npt.NDArray[np.float64]  # on a test set drawn anew, of the same size
    points: npt.NDArray[np.float64]  # shape (n, 2): of the first seed, the outlier last
    # shape (epsilons, 3): (w1, w2, b) of the first seed; the outlier's class is predicted where
    # w1 x1 + w2 x2 + b > 0
    weights: npt.NDArray[np.float64]


def run_outlier(
    epsilons: Sequence[float], n_seeds: int, *, seed: int, **training: Any
) -> OutlierStudy:
    """Train logistic regressions with and without privacy on data with one outlier."""
    usual = {"batch_size": 128, "clipping_norm": 10.0, "learning_rate": 1.0, "steps": 1600}
    # For each seed a training and a test set.
    drawn = np.random.default_rng([seed, 0x0071]).standard_normal((n_seeds, 2, POINTS + 1, 2))
    drawn[:, :, -1, 0] += DISTANCE
    labels = np.r_[np.full(POINTS, MAJORITY), OUTLIER]
    sets = [TrainingData(points, labels, 2) for points in drawn[:, 0]]
    configs = [
        TrainingConfig(
            ModelSpec("linear", (2,), 2),
            epsilon=epsilon,
            seed=1_000_000 * seed + n_seeds * i + k,
            **usual | training,
        )
        for i, epsilon in enumerate(epsilons)
        for k in range(n_seeds)
    ]
    results = train_many(configs, sets * len(epsilons), sets[0].inputs)
    weights = np.array([_difference(module_of(result)) for result in results])
    weights = weights.reshape(len(epsilons), n_seeds, 3)
    inputs = np.array([d.inputs for d in sets], dtype=float)

    def logit(points: np.ndarray) -> np.ndarray:  # (seeds, n, 2) -> (epsilons, seeds, n)
        slopes = weights[:, :, :2].transpose(0, 2, 1)
        return np.einsum("skd,eds->esk", points, slopes) + weights[:, :, 2:]

    def majority(z: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(np.clip(z, -500, 500)))

    z_train, z_test = logit(inputs[:, -1:]), logit(drawn[:, 1])
    right = np.where(labels == OUTLIER, z_test > 0, z_test <= 0)
    return OutlierStudy(
        tuple(epsilons),
        majority(z_train)[..., 0],
        majority(z_test)[..., -1],
        right.mean(-1),
        inputs[0],
        weights[:, 0],
    )


@dataclass(frozen=True)
class OutlierRun:
    """One call of :func:`run_outlier`, as a job of :mod:`lib.runs`."""

    epsilons: tuple[float, ...]  # Its arguments
    n_seeds: int
    seed: int
    clipping_norm: float

    def data_fingerprint(self) -> str:
        """Nothing: the data are drawn."""
        return ""

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train all models."""
        given = {"seed": self.seed, "clipping_norm": self.clipping_norm}
        study = run_outlier(self.epsilons, self.n_seeds, **given)
        names = [field.name for field in fields(study) if field.name != "epsilons"]
        return Outcome({name: getattr(study, name) for name in names}, {})

    def study(self) -> OutlierStudy:
        """The study, from the store if it was run before."""
        return OutlierStudy(self.epsilons, **RunStore().run(self).arrays)


def outlier_table(study: OutlierStudy) -> pd.DataFrame:
    """Wrong confidence by budget: means with standard errors, and how often the model is wrong."""
    n = study.wrong_confidence.shape[1]
    return pd.DataFrame(
        {
            "epsilon": study.epsilons,
            "wrong confidence": study.wrong_confidence.mean(1),
            "standard error": study.wrong_confidence.std(1, ddof=1) / math.sqrt(n),
            "outlier misclassified": (study.wrong_confidence >= 0.5).mean(1),
            "at a new outlier": study.test_wrong_confidence.mean(1),
            "test accuracy": study.test_accuracy.mean(1),
        }
    )


def growth_of_wrong_confidence(study: OutlierStudy) -> float:
    """How surely wrong confidence grows as epsilon falls, in seeds that are aligned."""
    values, aligned = _private(study)
    return _smallest_z(values[:, aligned])


def overall_growth(study: OutlierStudy) -> float:
    """The same over all seeds, whether the outlier is misclassified or not."""
    return _smallest_z(_private(study)[0])


def _private(study: OutlierStudy) -> tuple[npt.NDArray, npt.NDArray[np.bool_]]:
    """Wrong confidence of private models, and where all of a seed misclassify the outlier."""
    values = study.wrong_confidence[np.isfinite(study.epsilons)]
    return values, (values >= 0.5).all(0)


def _smallest_z(values: npt.NDArray) -> float:
    """Smallest z of the steps from one budget to the next, (epsilons, seeds)."""
    if values.shape[1] < 2 or len(values) < 2:
        return math.nan
    steps = np.diff(values, axis=0)
    errors = steps.std(1, ddof=1) / math.sqrt(values.shape[1])
    return float((steps.mean(1) / np.maximum(errors, 1e-300)).min())


def rate_sweep(
    epsilons: Sequence[float], n_seeds: int, seed: int, clipping_norm: float
) -> pd.DataFrame:
    """Mean wrong confidence by clipping norm, learning rate and budget, and how surely it grows.

    With the given clipping norm, and with the other one beside it.
    """
    rows = []
    for norm, rate in itertools.product(dict.fromkeys((clipping_norm, OTHER_NORM)), RATES):
        given = {"clipping_norm": norm, "learning_rate": rate}
        study = run_outlier(epsilons, n_seeds, seed=seed, **given)
        means = zip(epsilons, study.wrong_confidence.mean(1), strict=True)
        rows.append(
            {
                "clipping norm": norm,
                "learning rate": rate,
                **{f"epsilon = {e:g}": mean for e, mean in means},
                "wrong": float((study.wrong_confidence[np.isfinite(epsilons)] >= 0.5).mean()),
                "aligned": int(_private(study)[1].sum()),
                "z, aligned": growth_of_wrong_confidence(study),
                "z, all": overall_growth(study),
            }
        )
    return pd.DataFrame(rows)


def _difference(module) -> np.ndarray:
    """(w1, w2, b) of the logit of the outlier's class against the majority's."""
    layer = module[-1]
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return np.r_[weight[OUTLIER] - weight[MAJORITY], bias[OUTLIER] - bias[MAJORITY]].astype(float)
