"""The compiled engine with abstention, selection and dropout: the mechanism of lib.training.train.

The slower engines compute the same by automatic differentiation; all get the same random numbers.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.training import (
    CrossEntropy,
    DeepGamblers,
    ModelSpec,
    PosteriorTargets,
    SelectiveNet,
    SelfAdaptiveTraining,
    TrainingConfig,
    TrainingData,
    engine_for,
    train,
    train_many,
)

LINEAR = ModelSpec("linear", inputs=(64,), classes=10)
MLP = ModelSpec("mlp", inputs=(64,), classes=10, hidden=(24,))
DEEP = ModelSpec("mlp", inputs=(64,), classes=10, hidden=(17, 9), activation="relu")

OBJECTIVES = {
    "SAT": SelfAdaptiveTraining(burn_in_steps=7, momentum=0.6),
    "SAT, entropy": SelfAdaptiveTraining(momentum=0.9, entropy=0.3),
    "DG": DeepGamblers(9.0, burn_in_steps=7),
    "DG, entropy": DeepGamblers(2.0, entropy=0.3),
    "SN": SelectiveNet(0.7, statistic_noise=20.0),
    "SN, entropy": SelectiveNet(
        0.4, alpha=0.8, penalty=5.0, entropy=0.3, statistic_noise=8.0, loss_bound=1.5
    ),
}


PLAIN = CrossEntropy(0.02)


def config(model, objective=PLAIN, **changes):
    options = {"epsilon": 3.0, "steps": 25, "learning_rate": 0.3, "checkpoint_every": 9}
    head = replace(model, head=objective.model_head)
    return TrainingConfig(head, objective=objective, **(options | changes))


def check_equal(each, data, points):
    """Kernel against per-example gradients by taps, or plain autograd without privacy."""
    one = train(replace(each, grad_sample_mode="taps", keep="probabilities"), data, points)
    (many_,) = train_many([replace(each, keep="probabilities")], data, points, engine="kernel")
    assert one.engine == ("taps" if each.private else "autograd")
    assert many_.engine == engine_for(each) == "kernel"
    np.testing.assert_allclose(many_.parameters, one.parameters, atol=1e-5)
    np.testing.assert_allclose(many_.logits, one.logits, atol=1e-4)
    np.testing.assert_allclose(many_.checkpoints, one.checkpoints, atol=1e-5)
    assert many_.logits.shape == one.logits.shape
    assert many_.plan == one.plan
    assert many_.ledger == one.ledger
    return many_


@pytest.mark.parametrize("epsilon", [3.0, math.inf])
@pytest.mark.parametrize("model", [LINEAR, DEEP], ids=["linear", "deep"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_by_the_kernel(digits, name, model, epsilon):
    data, points, _ = digits
    check_equal(config(model, OBJECTIVES[name], epsilon=epsilon), data, points)


@pytest.mark.parametrize("name", ["SAT, entropy", "DG", "SN, entropy"])
@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0.7, "weight_decay": 1e-3, "schedule": "cosine"},
        {"noise_multiplier": 0.7, "epsilon": math.inf, "clipping_norm": 0.1},
        {"batch_size": 2, "learning_rate": 0.05},  # many samples are empty
        {"batch_size": 1100, "steps": 4},  # many tiles
    ],
)
def test_settings_of_the_mechanism(digits, name, changes):
    data, points, _ = digits
    for epsilon in {changes.get("epsilon", 3.0), math.inf}:
        check_equal(config(MLP, OBJECTIVES[name], **(changes | {"epsilon": epsilon})), data, points)


DROPOUT = {name: each for name, each in OBJECTIVES.items() if "SN" not in name}


@pytest.mark.parametrize("epsilon", [3.0, math.inf])
@pytest.mark.parametrize("name", ["CE", *DROPOUT])
def test_dropout_by_the_kernel(digits, name, epsilon):
    data, points, _ = digits
    objective = ({"CE": PLAIN} | DROPOUT)[name]
    for model in (LINEAR, DEEP) if name == "CE" else (DEEP,):  # layers drop, not objectives
        dropped = check_equal(
            config(replace(model, dropout=0.3), objective, epsilon=epsilon), *digits[:2]
        )
        (other,) = train_many([config(model, objective, epsilon=epsilon)], data, points)
        assert np.abs(dropped.parameters - other.parameters).max() > 1e-2


@pytest.mark.parametrize("epsilon", [3.0, math.inf])
def test_soft_targets(digits, epsilon):
    data, points, _ = digits
    soft = data.with_targets(np.random.default_rng(0).dirichlet(np.ones(10), len(data.inputs)))
    for objective in (OBJECTIVES["SN"], OBJECTIVES["SN, entropy"]):
        check_equal(config(MLP, objective, epsilon=epsilon), soft, points)
    for objective in (CrossEntropy(0.1), PosteriorTargets()):
        dropping = replace(MLP, dropout=0.2)
        check_equal(config(dropping, objective, epsilon=epsilon), soft, points)


def company(digits):
    data, points, _ = digits
    configs = [config(MLP, objective) for objective in OBJECTIVES.values()]
    configs += [config(replace(MLP, dropout=0.2)), config(replace(DEEP, dropout=0.2))]
    return [replace(each, seed=seed) for seed, each in enumerate(configs)], data, points


def test_a_model_does_not_depend_on_its_company_or_threads(digits):
    configs, data, points = company(digits)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    together = train_many(configs, data, points, threads=4)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    for each, result in zip(configs, together, strict=True):
        (alone,) = train_many([each], data, points, threads=1)
        assert np.array_equal(alone.parameters, result.parameters)


@pytest.mark.parametrize(("size", "label"), [(1e4, 0), (1e12, 1), (1e20, 2), (1e20, 0)])
def test_an_extreme_example_is_bounded_in_the_statistics(size, label):
    """Unbounded, its loss would drown those of all others in the released mean."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 8)).astype(np.float32), rng.integers(0, 3, 60)
    x[7], y[7] = x[7] * size, label
    spec = ModelSpec("linear", inputs=(8,), classes=3)
    each = config(
        spec,
        SelectiveNet(0.7, statistic_noise=0.5),
        epsilon=math.inf,
        noise_multiplier=0.1,
        delta=1e-3,
        batch_size=60,
        steps=3,
    )
    result = check_equal(each, TrainingData(x, y, 3), x[:2])
    assert np.isfinite(result.parameters).all()
