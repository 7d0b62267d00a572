"""Many private trainings at once against Opacus, one model after another.

Accounting is no part of the comparison: Renyi and privacy-loss accountants are Opacus' own and
dp-accounting's, which the book calls.  That both sides spend the same is checked all the same.
"""

import time
import warnings

import numpy as np
import pytest
import torch
from comparing import compare, sizes
from opacus.accountants.analysis import rdp
from opacus.grad_sample.utils import wrap_model
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from scipy import stats

from lib.data import digits_splits, load_digits
from lib.training import ModelSpec, TrainingConfig, TrainingData, build_model, train, train_many
from lib.training.randomness import Streams

BATCH, CLASSES, NOISE, DELTA = 128, 10, 1.0, 1e-3
SPECS = {
    "linear": ModelSpec("linear", inputs=(64,), classes=CLASSES),
    "MLP": ModelSpec("mlp", inputs=(64,), classes=CLASSES, hidden=(32,)),
    "small CNN": ModelSpec("small_cnn", inputs=(1, 28, 28), classes=CLASSES),
}
MODES = ("hooks", "functorch", "ew", "ghost")


@pytest.fixture(scope="module")
def digits():
    source = load_digits()
    rows = digits_splits(0, {"train": 1200, "test": 597})
    x = source.images.reshape(-1, 64).astype(np.float32)
    data = TrainingData(x, source.labels, CLASSES, rows["train"])
    return data, x[rows["test"]], source.labels[rows["test"]]


@pytest.fixture(scope="module")
def images():
    """Random ones: a step costs the same whatever they show."""
    rng = np.random.default_rng(0)
    x = rng.random((1200, 1, 28, 28), dtype=np.float32)
    labels = rng.integers(0, CLASSES, len(x))
    return TrainingData(x, labels, CLASSES), x[:50], labels[:50]


def by_opacus(spec, data, points, seed, steps, mode):
    """DP-SGD by Opacus at its leanest: no data loader, a Poisson sample is one comparison."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.from_numpy(np.array(data.inputs[data.rows]))
    labels = torch.from_numpy(np.array(data.targets[data.rows]))
    options = {
        "noise_multiplier": NOISE,
        "max_grad_norm": 1.0,
        "expected_batch_size": BATCH,
        "generator": generator,
    }
    network = build_model(spec, seed)
    wrapped = wrap_model(
        network, grad_sample_mode=mode, **({"max_grad_norm": 1.0} if mode == "ghost" else {})
    )
    sgd = torch.optim.SGD(wrapped.parameters(), lr=0.5)
    criterion = torch.nn.CrossEntropyLoss()
    if mode == "ghost":
        optimizer = DPOptimizerFastGradientClipping(sgd, **options)
        criterion = DPLossFastGradientClipping(wrapped, optimizer, criterion)
    else:
        optimizer = DPOptimizer(sgd, **options)
    for _ in range(steps):
        drawn = torch.rand(len(inputs), generator=generator) < BATCH / len(inputs)
        rows = drawn.nonzero().squeeze(1)
        optimizer.zero_grad()
        criterion(wrapped(inputs[rows]), labels[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        return network(torch.from_numpy(points)).numpy()


def fastest_mode(spec, data, points):
    """Of Opacus' ways to per-example gradients, the one that takes least for this model."""

    def seconds(mode):
        by_opacus(spec, data, points, 0, 1, mode)
        started = time.process_time()
        by_opacus(spec, data, points, 0, 5, mode)
        return time.process_time() - started

    return min(MODES, key=seconds)


def configs(spec, models, steps):
    return [
        TrainingConfig(
            spec,
            noise_multiplier=NOISE,
            delta=DELTA,
            batch_size=BATCH,
            steps=steps,
            learning_rate=0.5,
            seed=seed,
        )
        for seed in range(models)
    ]


def spent(ours, steps, rate):
    """Epsilon by the book's ledger and by Opacus' accountant at the ledger's orders."""
    from lib.privacy.renyi import ORDERS

    curve = rdp.compute_rdp(q=rate, noise_multiplier=NOISE, steps=steps, orders=ORDERS)
    theirs, _ = rdp.get_privacy_spent(orders=ORDERS, rdp=curve, delta=DELTA)
    return max(abs(each.epsilon - theirs) for each in ours), 1e-9 * theirs


def same_model(spec, data, points, steps):
    """Parameters with the same random numbers, from the engine and through Opacus' optimizer."""
    (each,) = configs(spec, 1, steps)
    (many,) = train_many([each], data, points, threads=1)
    one = train(each, data, points)
    assert one.engine == "opacus"
    return float(np.abs(many.parameters - one.parameters).max()), 1e-5


def same_accuracy(ours, theirs, labels):
    """Means over models by Welch's test at a level of 1e-4: the seeds are independent."""
    a = np.array([result.accuracy(labels) for result in ours])
    b = np.array([(logits.argmax(1) == labels).mean() for logits in theirs])
    test = stats.ttest_ind(a, b, equal_var=False)
    error = abs(a.mean() - b.mean()) / max(abs(test.statistic), 1e-300)
    return abs(a.mean() - b.mean()), float(stats.t.isf(5e-5, test.df)) * error


def run(benchmark, name, source, models, steps, accuracy=True):
    spec, (data, points, labels) = SPECS[name], source
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Full backward hook is firing")
        mode = fastest_mode(spec, data, points) if benchmark.enabled else "hooks"
        agreements = [
            (
                "epsilon by the ledger and by Opacus' accountant",
                lambda ours, theirs: spent(ours, steps, BATCH / len(data)),
            ),
            (
                "parameters of one model with the same random numbers, trained through Opacus'"
                " optimizer",
                lambda ours, theirs: same_model(spec, data, points, min(steps, 10)),
            ),
        ]
        if accuracy:
            agreements.append(
                (
                    "mean test accuracy of the models, by Welch's test at level 1e-4",
                    lambda ours, theirs: same_accuracy(ours, theirs, labels),
                )
            )
        compare(
            benchmark,
            comparison=name,
            peer_name="Opacus",
            size=models,
            unit="models",
            ours=lambda: train_many(configs(spec, models, steps), data, points, threads=1),
            # Seeds that the book's models do not have.
            peer=lambda: [
                by_opacus(spec, data, points, 1000 + seed, steps, mode) for seed in range(models)
            ],
            agreements=agreements,
            warm_peer=False,
            remark=f"{steps} steps a model; Opacus by its mode {mode!r}, the fastest here of"
            f" {', '.join(MODES)}",
        )


@pytest.mark.parametrize("models", sizes(2, 4, 12, 36))
def test_perceptrons(benchmark, digits, models):
    run(benchmark, "MLP", digits, models, 60 if models > 2 else 20)


@pytest.mark.bench
def test_linear_models(benchmark, digits):
    run(benchmark, "linear", digits, 12, 60)


@pytest.mark.parametrize("models", [pytest.param(2, marks=pytest.mark.bench)])
def test_small_networks(benchmark, images, models):
    run(benchmark, "small CNN", images, models, 4, accuracy=False)


def test_streams_of_both_sides_differ():
    """The seeds 1000 on share nothing with the book's, or accuracies would not be independent."""
    ours = Streams(0).noise.standard_normal(4)
    theirs = torch.randn(4, generator=torch.Generator().manual_seed(1000)).numpy()
    assert not np.allclose(ours, theirs)
