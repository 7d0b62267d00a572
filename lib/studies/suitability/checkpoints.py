"""A signal of one's own, as an example: how often earlier checkpoints disagree with the model.

Importing this module registers the signal ``training_disagreement``.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier

from lib import data
from lib.selective import sctd
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.signals import register_signal, signals

_SIZES = {"train": 300, "source": 900, "user": 597}


@register_signal(replace=True)
def training_disagreement(logits: Any, checkpoint_logits: Any) -> npt.NDArray[np.float64]:
    """Weighted disagreement of a training's checkpoints with its last model (SCTD).

    Rabanser et al., Selective Classification via Neural Network Training Dynamics, 2022.
    """
    labels = np.asarray(checkpoint_logits).argmax(axis=2)
    return -sctd(np.vstack([labels, np.asarray(logits).argmax(axis=1)]))


def checkpoint_example(seed: int) -> pd.DataFrame:
    """What the signal adds on digits: a small network, its source data, and rotated user data."""
    digits = data.load_digits()
    rows = data.digits_splits(seed, _SIZES)
    model = MLPClassifier((32,), random_state=seed, batch_size=32)
    states = []
    train, labels = digits.images[rows["train"]].reshape(300, -1), digits.labels[rows["train"]]
    user = digits.images[rows["user"]]
    sets = {
        "source": (digits.images[rows["source"]], digits.labels[rows["source"]]),
        "user data": (user, digits.labels[rows["user"]]),
        "rotated by 12 degrees": (
            data.corrupt(user, "rotation", 12, np.random.default_rng(seed)),
            digits.labels[rows["user"]],
        ),
    }
    for _ in range(15):
        model.partial_fit(train, labels, classes=np.arange(10))
        states.append(
            {
                name: np.log(np.maximum(model.predict_proba(x.reshape(len(x), -1)), 1e-300))
                for name, (x, _) in sets.items()
            }
        )
    correct = {name: states[-1][name].argmax(axis=1) == y for name, (_, y) in sets.items()}
    found = []
    for extra in ((), ("training_disagreement",)):
        tables = {}
        for name in sets:
            given = {"checkpoint_logits": np.stack([s[name] for s in states])} if extra else {}
            tables[name] = signals(states[-1][name], extra, **given).to_numpy()
        estimator = CorrectnessEstimator(seed=None).fit(tables["source"], correct["source"])
        for name in ("user data", "rotated by 12 degrees"):
            estimates = estimator.predict(tables[name])
            found.append(
                {
                    "signals": "twelve and disagreement" if extra else "twelve",
                    "data": name,
                    "roc_auc": roc_auc_score(correct[name], estimates),
                    "estimated": estimates.mean(),
                    "accuracy": correct[name].mean(),
                }
            )
    return pd.DataFrame(found)
