"""P1's synthetic example: one outlier among a thousand points (section 3.3, Figure 1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.runs import Checkpoint, Outcome, RunStore
from lib.training import ModelSpec, TrainingConfig, TrainingData, module_of, train_many

MAJORITY, OUTLIER = 1, 0  # classes; P1's labels 1 and -1


@dataclass(frozen=True, eq=False)
class OutlierStudy:
    """Logistic regressions on a majority around 0 and one point around (10, 0)."""

    epsilons: tuple[float, ...]  # Budgets
    # shape (epsilons, seeds): Probability that the model gives to the majority's class at the
    # training outlier
    wrong_confidence: npt.NDArray[np.float64]
    # shape (epsilons, seeds): The same at an outlier drawn anew
    test_wrong_confidence: npt.NDArray[np.float64]
    # shape (epsilons, seeds): On a test set drawn anew: 1,000 points of the majority and one
    # outlier
    test_accuracy: npt.NDArray[np.float64]
    # shape (n, 2): Training points of the first seed, the outlier last
    points: npt.NDArray[np.float64]
    # shape (epsilons, 3): (w1, w2, b) of the first seed: the outlier's class is predicted where w1
    # x1 + w2 x2 + b > 0
    weights: npt.NDArray[np.float64]


def run_outlier(
    epsilons: Sequence[float] = (math.inf, 7.0, 3.0, 1.0),
    n_seeds: int = 100,
    *,
    n_majority: int = 1000,
    distance: float = 10.0,
    steps: int = 1600,
    batch_size: int = 128,
    clipping_norm: float = 1.0,
    learning_rate: float = 1.0,
    seed: int = 0,
) -> OutlierStudy:
    """Train logistic regressions with and without privacy on data with one outlier.

    P1, section 3.3 and Figure 1.
    """
    rng = np.random.default_rng([seed, 0x0071])
    spec = ModelSpec("linear", (2,), 2)
    labels = np.r_[np.full(n_majority, MAJORITY), OUTLIER]
    sets, tests = [], []
    for _ in range(n_seeds):
        sets.append(TrainingData(_draw(rng, n_majority, distance), labels, 2))
        tests.append(_draw(rng, n_majority, distance))
    configs, data = [], []
    for i, epsilon in enumerate(epsilons):
        for k in range(n_seeds):
            configs.append(
                TrainingConfig(
                    spec,
                    epsilon=epsilon,
                    clipping_norm=clipping_norm,
                    batch_size=batch_size,
                    steps=steps,
                    learning_rate=learning_rate,
                    seed=1_000_000 * seed + n_seeds * i + k,
                )
            )
            data.append(sets[k])
    results = train_many(configs, data, sets[0].inputs)
    weights = np.array([_difference(module_of(result)) for result in results])
    weights = weights.reshape(len(epsilons), n_seeds, 3)
    training = np.array([d.inputs for d in sets], dtype=float)
    fresh = np.array(tests, dtype=float)

    def logit(points: np.ndarray) -> np.ndarray:  # (seeds, n, 2) -> (epsilons, seeds, n)
        return (
            np.einsum("skd,eds->esk", points, weights[:, :, :2].transpose(0, 2, 1))
            + (weights[:, :, 2:])
        )

    majority = lambda z: 1 / (1 + np.exp(np.clip(z, -500, 500)))  # noqa: E731
    z_train, z_test = logit(training[:, -1:]), logit(fresh)
    right = np.where(labels == OUTLIER, z_test > 0, z_test <= 0)
    return OutlierStudy(
        tuple(epsilons),
        majority(z_train)[..., 0],
        majority(z_test)[..., -1],
        right.mean(-1),
        training[0],
        weights[:, 0],
    )


@dataclass(frozen=True)
class OutlierRun:
    """One call of :func:`run_outlier`, as a job of :mod:`lib.runs`."""

    epsilons: tuple[float, ...]  # Its arguments
    n_seeds: int
    seed: int

    def data_fingerprint(self) -> str:
        """Nothing: the data are drawn."""
        return ""

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train all models."""
        study = run_outlier(self.epsilons, self.n_seeds, seed=self.seed)
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
    """How surely the wrong confidence grows as epsilon falls, where utility is aligned.

    Utility is aligned among the private models of a seed if all of them misclassify the outlier;
    other seeds are left out.
    """
    values = study.wrong_confidence[np.isfinite(study.epsilons)]
    return _smallest_z(values[:, (values >= 0.5).all(0)])


def overall_growth(study: OutlierStudy) -> float:
    """The same over all seeds, whether the outlier is misclassified or not."""
    return _smallest_z(study.wrong_confidence[np.isfinite(study.epsilons)])


def _smallest_z(values: npt.NDArray) -> float:
    """Smallest z of the steps from one budget to the next, (epsilons, seeds)."""
    if values.shape[1] < 2 or len(values) < 2:
        return math.nan
    steps = np.diff(values, axis=0)
    errors = steps.std(1, ddof=1) / math.sqrt(values.shape[1])
    return float((steps.mean(1) / np.maximum(errors, 1e-300)).min())


def rate_sweep(
    epsilons: Sequence[float],
    n_seeds: int,
    rates: Sequence[float] = (0.1, 0.3, 1.0, 3.0),
    seed: int = 1,
) -> pd.DataFrame:
    """Mean wrong confidence by learning rate and budget, and how surely it grows."""
    rows = []
    for rate in rates:
        study = run_outlier(epsilons, n_seeds, learning_rate=rate, seed=seed)
        means = study.wrong_confidence.mean(1)
        names = [f"epsilon = {e:g}" for e in epsilons]
        private = study.wrong_confidence[np.isfinite(epsilons)]
        rows.append(
            {
                "learning rate": rate,
                **dict(zip(names, means, strict=True)),
                "aligned": int((private >= 0.5).all(0).sum()),
                "z, aligned": growth_of_wrong_confidence(study),
                "z, all": overall_growth(study),
            }
        )
    return pd.DataFrame(rows)


def _draw(rng: np.random.Generator, n: int, distance: float) -> np.ndarray:
    points = rng.standard_normal((n + 1, 2))
    points[-1, 0] += distance
    return points


def _difference(module) -> np.ndarray:
    """(w1, w2, b) of the logit of the outlier's class against the majority's."""
    layer = module[-1]
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return np.r_[weight[OUTLIER] - weight[MAJORITY], bias[OUTLIER] - bias[MAJORITY]].astype(float)
