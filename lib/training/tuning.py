"""Choosing a learning rate on a validation split."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lib.check import require_finite, require_int
from lib.ties import first_largest
from lib.training.checks import check_evaluation, check_labels
from lib.training.config import TrainingConfig, TrainingData
from lib.training.many import train_many
from lib.training.single import TrainingDiverged

__all__ = ["LearningRateChoice", "choose_learning_rate"]


@dataclass(frozen=True)
class LearningRateChoice:
    """The learning rates that were tried and the one that was best.

    Attributes
    ----------
    best : float
        Of the highest mean validation accuracy; the smaller one on a tie, up to rounding.
    rates : tuple of float
        All that were tried, ascending.
    accuracies : tuple of float
        Mean validation accuracy of each; 0 where a training diverged.
    """

    best: float
    rates: tuple[float, ...]
    accuracies: tuple[float, ...]


def choose_learning_rate(
    config: TrainingConfig,
    data: TrainingData,
    validation: npt.ArrayLike,
    labels: npt.ArrayLike,
    rates: Sequence[float],
    *,
    repetitions: int = 3,
    seed: int = 10_000,
) -> LearningRateChoice:
    """Try learning rates and take the one with the best mean accuracy on a validation split.

    The validation split must be disjoint from training and test data.  The choice reads the
    training data once per rate and repetition, which the ledger of the final model does *not*
    account for: neither do P1 and P3, and the book says so where it is used.

    Parameters
    ----------
    config : TrainingConfig
        The training; its learning rate and seed are replaced.
    data : TrainingData
        To train on.
    validation : array_like of float, shape (n, ...)
        To evaluate on.
    labels : array_like of int, shape (n,)
        Of the validation points.
    rates : sequence of float
        Learning rates to try, positive.
    repetitions : int
        Trainings per rate.
    seed : int
        The first of consecutive seeds, one per rate and repetition; take others than the final
        trainings use.

    Returns
    -------
    LearningRateChoice

    Raises
    ------
    ValueError
        On input that is not as above, before any work.

    Examples
    --------
    >>> plain = TrainingConfig(model, steps=20)
    >>> choice = choose_learning_rate(
    ...     plain, data, inputs[200:], labels[200:], [0.001, 0.5], repetitions=1
    ... )
    >>> choice.best
    0.5
    """
    rates = sorted(set(rates))
    if not rates:
        raise ValueError("rates must hold at least one learning rate, got none")
    for rate in rates:
        require_finite("rates", rate, above=0)
    require_int("repetitions", repetitions, at_least=1)
    require_int("seed", seed, at_least=0)
    labels = check_labels(labels, len(check_evaluation(validation, data)), data.classes)
    accuracies = []
    for number, rate in enumerate(rates):
        seeds = range(seed + number * repetitions, seed + (number + 1) * repetitions)
        configs = [
            replace(config, learning_rate=rate, seed=each, checkpoint_every=None) for each in seeds
        ]
        try:
            results = train_many(configs, data, validation)
        except TrainingDiverged:
            accuracies.append(0.0)
            continue
        accuracies.append(float(np.mean([result.accuracy(labels) for result in results])))
    best = rates[first_largest(accuracies)]
    return LearningRateChoice(best, tuple(rates), tuple(accuracies))
