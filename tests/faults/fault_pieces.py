"""Small computations of every subject whose result could depend on the number of threads."""

import sys
from dataclasses import replace

import numpy as np

#: Smallest relative change that every number of a type can take: a unit in its last place.
SHARE = {np.float32: 2.0**-23, np.float64: 2.0**-52}


def nudged(x: np.ndarray, share: float) -> np.ndarray:
    """Every number made larger or smaller, at random, by a share of itself."""
    if not share:
        return x
    signs = np.random.default_rng(9).choice([-1.0, 1.0], x.shape)
    return (x.astype(np.float64) * (1 + share * signs)).astype(x.dtype)


def trainings(share: float = 0.0) -> dict[str, np.ndarray]:
    """Logits of models trained by each engine; `share` changes the training inputs."""
    from lib.training import DataSpec, ModelSpec, TrainingConfig, TrainingData, train, train_many

    small = TrainingConfig(
        ModelSpec("mlp", (64,), 10, hidden=(16,)),
        noise_multiplier=1.5,  # finding it for a budget would take most of the time
        steps=30,
        batch_size=64,
        learning_rate=0.5,
    )
    # Large enough that `train` leaves it all of PyTorch's threads.
    wide = replace(
        small,
        model=ModelSpec("mlp", (64,), 10, hidden=(256, 256)),
        steps=12,
        batch_size=300,
        learning_rate=0.1,
    )
    data = DataSpec(train=600, test=100).load()
    inputs, targets = nudged(data.training.inputs, share), data.training.targets
    training = TrainingData(inputs, targets, data.training.classes, data.training.rows)
    free = replace(wide, noise_multiplier=None)
    kept = {
        "training, small": train(small, training, data.evaluation).logits,
        "training, wide": train(free, training, data.evaluation).logits,
        "training, wide and private": train(wide, training, data.evaluation).logits,
    }
    many = [replace(small, seed=seed) for seed in range(3)]
    for engine in ("kernel", "taps"):
        found = train_many(many, training, data.evaluation, engine=engine, threads=2)
        kept[f"training, {engine}"] = np.stack([each.logits for each in found])
    return kept


def suitability(share: float = 0.0) -> dict[str, np.ndarray]:
    from lib.suitability import SuitabilityFilter, signals

    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=3000)
    logits = nudged(2.0 * np.eye(10)[labels] + rng.normal(size=(3000, 10)), share)
    table, correct = signals(logits), logits.argmax(axis=1) == labels
    fitted = SuitabilityFilter(margin=0.02).fit(table[:1000], correct[:1000])
    decision = fitted.decide(table[1000:2000], table[2000:])
    numbers = np.array([decision.p_value, decision.statistic, decision.estimated_user_accuracy])
    estimates = fitted.estimate(table[2000:])
    return {"suitability, decision": numbers, "suitability, estimates": estimates}


def audit(share: float = 0.0) -> dict[str, np.ndarray]:
    from lib.audit import AttackCounts, epsilon_posterior

    posterior = epsilon_posterior(AttackCounts(tp=65, fp=25, tn=75, fn=35), 1e-5 * (1 + share))
    levels = np.array([0.025, 0.5, 0.975])
    return {"audit": np.append(posterior.ppf(levels), posterior.sf(np.array([0.5, 1.0])))}


def counterfactual(
    share: float = 0.0, learners: tuple[str, ...] = ("linear", "forest", "super")
) -> dict[str, np.ndarray]:
    from lib.counterfactual import counterfactual_score

    rng = np.random.default_rng(1)
    x = nudged(rng.normal(size=(1500, 6)), share)
    abstained = rng.random(1500) < 1 / (1 + np.exp(-x[:, 0] + 1))
    scores = (rng.random(1500) < 1 / (1 + np.exp(-x[:, 1]))).astype(float)
    kept = {}
    for learner in learners:
        found = counterfactual_score(x, scores, abstained, learner=learner, rng=3)
        numbers = [found.value, found.stderr, *found.interval]
        kept[f"counterfactual, {learner}"] = np.array(numbers)
    return kept


PARTS = {
    "trainings": (trainings, SHARE[np.float32]),
    "suitability": (suitability, SHARE[np.float64]),
    "audit": (audit, SHARE[np.float64]),
    "counterfactual": (counterfactual, SHARE[np.float64]),
}


def main() -> None:
    """``python fault_pieces.py FILE THREADS NUDGED PARTS``: the pieces, as arrays in a file."""
    target, threads, changed, names = sys.argv[1:]
    found = {}
    for name in names.split(","):
        part, share = PARTS[name]
        if name == "trainings":
            import torch

            torch.set_num_threads(int(threads))
        found |= part(share * int(changed))
    np.savez(target, **found)


if __name__ == "__main__":
    main()
