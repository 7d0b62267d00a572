"""Gradient canaries in training runs: the engines', and those of Opacus."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.audit.white_box import GradientCanaries, step_audit
from lib.privacy import PrivacyLedger, SampledGaussian
from lib.runs import Checkpoint
from lib.training import ModelSpec, OpacusCanaries, TrainingConfig, train, train_audited
from lib.training.canaries import CanarySession

CONFIG = TrainingConfig(
    ModelSpec("mlp", (64,), 10, hidden=(24,)),
    noise_multiplier=0.8,
    clipping_norm=0.3,
    batch_size=120,
    steps=60,
    learning_rate=0.5,
    momentum=0.5,
    seed=4,
)
CANARIES = GradientCanaries(600, seed=11, width=2)
MODES = pytest.mark.parametrize("mode", ["hooks", "taps"])


def epsilon_of(rate, noise, steps):
    return PrivacyLedger((SampledGaussian(rate, noise, steps),)).epsilon(1e-5)


def audited(scores):
    return step_audit(scores.counts, scores.coins, epsilon_of, level=0.999)


@pytest.fixture(scope="module")
def results(digits):
    data, points, _ = digits
    modes = ("hooks", "taps")
    configs = [replace(CONFIG, grad_sample_mode=mode) for mode in modes]
    found = [train_audited(config, data, points, CANARIES) for config in configs]
    return dict(zip(modes, found, strict=True))


@MODES
def test_canaries_see_the_mechanism_that_is_claimed(results, mode):
    found = audited(results[mode].canaries)
    assert found.noise[0] < 0.8 < found.noise[1] < 0.83
    assert 0.9 < found.norm[0] < 1 < found.norm[1]
    assert found.rate[0] < 0.1 < found.rate[1]
    assert 0.8 * epsilon_of(0.1, 0.8, 60) < found.epsilon < epsilon_of(0.1, 0.8, 60)
    assert min(found.p_sampling, found.p_fresh) > 1e-3


@MODES
def test_accounting_stays(results, digits, mode):
    data, points, _ = digits
    alone = train(replace(CONFIG, grad_sample_mode=mode), data, points)
    assert alone.canaries is None
    assert (alone.plan, alone.ledger) == (results[mode].plan, results[mode].ledger)


def test_both_engines_keep_the_same_scores(results):
    one, other = (results[mode].canaries for mode in ("hooks", "taps"))
    assert (one.coins == other.coins).all()
    assert (one.counts.took_part == other.counts.took_part).all()
    # Others' gradients differ by rounding, and what follows from the model with them.
    np.testing.assert_allclose(one.known, other.known, atol=1e-2)
    np.testing.assert_allclose(one.released, other.released, atol=1e-2)
    assert (one.known != one.released).any()


@MODES
def test_one_who_is_told_less_sees_less(results, mode):
    scores = results[mode].canaries
    gaps = [
        each[scores.coins].mean() - each[~scores.coins].mean()
        for each in (scores.known, scores.released)
    ]
    assert gaps[0] > gaps[1] > 0


@MODES
def test_an_interrupted_audit_goes_on(results, digits, mode, tmp_path, monkeypatch):
    data, points, _ = digits
    config, saved = replace(CONFIG, grad_sample_mode=mode), Checkpoint.save

    def once(self, *content):
        saved(self, *content)
        raise KeyboardInterrupt

    given = {"checkpoint": Checkpoint(tmp_path / "state"), "save_every": 25}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", once)
        with pytest.raises(KeyboardInterrupt):
            train_audited(config, data, points, CANARIES, **given)
    with pytest.raises(ValueError, match="checkpoint must be of this training"):
        train(config, data, points, **given)
    again = train_audited(config, data, points, CANARIES, **given).canaries
    assert (again.known == results[mode].canaries.known).all()
    assert audited(again) == audited(results[mode].canaries)


def opacus_training(ghost=False, noise=1.0, clip=0.5):
    """Network, optimizer, loader and loss as Opacus makes them."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x = torch.randn(200, 20)
    network, loss = nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 2)), None
    made = dict(  # noqa: C408
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.5, weight_decay=1e-3),
        data_loader=DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=20),
        noise_multiplier=noise,
        max_grad_norm=clip,
    )
    loss = nn.CrossEntropyLoss()
    engine = PrivacyEngine()
    if ghost:
        made |= {"grad_sample_mode": "ghost", "criterion": loss}
        network, optimizer, loss, loader = engine.make_private(**made)
    else:
        network, optimizer, loader = engine.make_private(**made)
    return network, optimizer, loader, loss, engine


def run_steps(network, optimizer, loader, loss, epochs=4):
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss(network(x), y).backward()
            optimizer.step()


@pytest.fixture
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Secure RNG turned off")
        warnings.filterwarnings("ignore", "Full backward hook is firing")
        yield


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize("ghost", [False, True])
def test_canaries_see_what_opacus_does(ghost, monkeypatch):
    """Also where Opacus adds half of the noise that it says."""
    from opacus.optimizers import optimizer as flat
    from opacus.optimizers import optimizer_fast_gradient_clipping as fast

    network, optimizer, loader, loss, engine = opacus_training(ghost)
    before = type(optimizer)
    canaries = OpacusCanaries(optimizer, GradientCanaries(500, seed=3), 0.1)
    run_steps(network, optimizer, loader, loss)
    scores = canaries.scores()
    found = audited(scores)
    assert scores.steps == 40
    assert found.noise[0] < 1 < found.noise[1] < 1.03
    assert 0.85 < found.norm[0] < 1 < found.norm[1]
    assert type(optimizer) is before
    assert [rate for _, rate, _ in engine.accountant.history] == [1 / len(loader)]
    assert sum(steps for *_, steps in engine.accountant.history) == 40
    canaries.remove()
    run_steps(network, optimizer, loader, loss, epochs=1)
    assert canaries.scores().steps == 40

    again = OpacusCanaries(optimizer, GradientCanaries(500, seed=3), 0.1)
    real = flat._generate_noise
    for module in (flat, fast):
        monkeypatch.setattr(module, "_generate_noise", lambda **given: 0.5 * real(**given))
    run_steps(network, optimizer, loader, loss)
    found = audited(again.scores())
    assert found.noise[0] < 0.5 < found.noise[1]
    assert found.epsilon > epsilon_of(0.1, 1.0, 40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_canaries_join_a_sum_of_any_type(dtype):
    canaries = GradientCanaries(10, seed=1, width=2)
    claimed = {"clipping_norm": 0.5, "noise_multiplier": 1.0, "sample_rate": 0.5}
    session = CanarySession(canaries, 30, **claimed)
    session.take(np.arange(len(session.inside)))
    found = session.join(torch.zeros(30, dtype=dtype))
    assert found.dtype == dtype
    reach = canaries.directions(30).along(found.numpy())
    np.testing.assert_allclose(reach, 0.5 * canaries.coins(), atol=1e-5)


@pytest.mark.usefixtures("_quiet")
def test_pieces_of_a_sample_are_one_step():
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    network, optimizer, loader, loss, _ = opacus_training()
    canaries = OpacusCanaries(optimizer, GradientCanaries(500, seed=3), 0.1)
    given = {"data_loader": loader, "max_physical_batch_size": 7, "optimizer": optimizer}
    with BatchMemoryManager(**given) as pieces:
        run_steps(network, optimizer, pieces, loss)
    scores = canaries.scores()
    assert scores.steps == 40
    assert audited(scores).noise[0] < 1 < audited(scores).noise[1]


@pytest.mark.usefixtures("_quiet")
def test_clipping_by_opacus_itself_is_tested(monkeypatch):
    """A canary that is clipped to twice the norm adds two."""
    network, optimizer, loader, loss, _ = opacus_training()
    own = type(optimizer).clip_and_accumulate

    def lax(self):
        self.max_grad_norm *= 2
        own(self)
        self.max_grad_norm /= 2

    monkeypatch.setattr(type(optimizer), "clip_and_accumulate", lax)
    canaries = OpacusCanaries(optimizer, GradientCanaries(500, seed=3), 0.1)
    run_steps(network, optimizer, loader, loss)
    assert audited(canaries.scores()).norm[0] > 1.8


@pytest.mark.usefixtures("_quiet")
def test_what_changes_under_way_is_refused():
    network, optimizer, loader, loss, _ = opacus_training()
    OpacusCanaries(optimizer, GradientCanaries(100, seed=3), 0.1)
    with pytest.raises(ValueError, match="optimizer must have no canaries yet"):
        OpacusCanaries(optimizer, GradientCanaries(100, seed=4), 0.1)
    optimizer.noise_multiplier = 0.5
    with pytest.raises(ValueError, match="noise_multiplier and max_grad_norm must stay"):
        run_steps(network, optimizer, loader, loss, epochs=1)


@pytest.mark.usefixtures("_quiet")
def test_more_canaries_than_parameters_are_refused():
    _, optimizer, *_ = opacus_training()
    with pytest.raises(ValueError, match="number must be at most 1152"):
        OpacusCanaries(optimizer, GradientCanaries(1153, seed=0), 0.1)
    assert "scale_grad" not in vars(optimizer)
