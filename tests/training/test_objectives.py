"""Objectives against hand calculation, autograd of the batch loss, and each other."""

import math

import numpy as np
import pytest
import torch

from lib.training.objectives import (
    CrossEntropy,
    DeepGamblers,
    PosteriorTargets,
    SelectiveNet,
    SelfAdaptiveTraining,
)


def draw(b, k, classes, seed=0):
    g = torch.Generator().manual_seed(seed)
    outputs = torch.randn(b, k, generator=g, dtype=torch.float64)
    return outputs, torch.randint(0, classes, (b,), generator=g)


def test_cross_entropy_by_hand():
    outputs = torch.tensor([[math.log(0.7), math.log(0.2), math.log(0.1)]], dtype=torch.float64)
    targets = torch.tensor([1])
    entropy = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    for weight in (0.0, 0.01, 2.0):
        loss = CrossEntropy(weight).per_example(outputs, targets)
        assert loss.item() == pytest.approx(-math.log(0.2) + weight * entropy)
    soft = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    expected = -(0.5 * math.log(0.7) + 0.25 * math.log(0.2) + 0.25 * math.log(0.1))
    assert CrossEntropy().per_example(outputs, soft).item() == pytest.approx(expected)


def test_posterior_targets_by_hand():
    """Bayes' rule with the prediction as prior; no gradient through the target."""
    outputs = torch.tensor([[math.log(0.7), math.log(0.2), math.log(0.1)]], dtype=torch.float64)
    outputs.requires_grad_()
    likelihood = torch.tensor([[0.1, 0.6, 0.3]], dtype=torch.float64)
    joint = np.array([0.7 * 0.1, 0.2 * 0.6, 0.1 * 0.3])
    target = joint / joint.sum()
    loss = PosteriorTargets().per_example(outputs, likelihood)
    assert loss.item() == pytest.approx(-(target * np.log([0.7, 0.2, 0.1])).sum())
    (gradient,) = torch.autograd.grad(loss.sum(), outputs)
    np.testing.assert_allclose(gradient[0], np.array([0.7, 0.2, 0.1]) - target, atol=1e-12)


def test_posterior_targets_at_the_extremes():
    certain = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    flat = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    outputs = torch.tensor([[2000.0, -2000.0, 0.0]], dtype=torch.float64, requires_grad=True)
    # A certain observation is a hard label; one that says nothing leaves the model where it is.
    hard = PosteriorTargets().per_example(outputs, certain)
    assert hard.item() == pytest.approx(4000.0)
    (gradient,) = torch.autograd.grad(PosteriorTargets().per_example(outputs, flat).sum(), outputs)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_self_adaptive_training_by_hand():
    """Eq. 12 for two classes and abstention."""
    p = [0.5, 0.2, 0.3]
    outputs = torch.log(torch.tensor([p], dtype=torch.float64))
    targets = torch.tensor([1])
    objective = SelfAdaptiveTraining(momentum=0.9)
    memory = objective.initial_state(torch.tensor([1, 0]), 2).double()
    assert memory.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    predicted = 0.2 / 0.7  # softmax over the first two outputs
    t = 0.9 * 1.0 + 0.1 * predicted
    state = objective.state(memory, torch.tensor([0]), step=0)
    loss = objective.per_example(outputs, targets, state)
    assert loss.item() == pytest.approx(-t * math.log(0.2) - (1 - t) * math.log(0.3))
    objective.update(memory, torch.tensor([0]), outputs, step=0)
    assert memory[0].tolist() == pytest.approx([1 - t, t])
    assert memory[1].tolist() == [1.0, 0.0]  # what is not sampled stays
    # Until then: cross-entropy without abstention, and no memory.
    late = SelfAdaptiveTraining(burn_in_steps=10)
    assert late.state(memory, torch.tensor([0]), step=9) is None
    assert late.state(memory, torch.tensor([0]), step=10) is not None
    plain = CrossEntropy().per_example(outputs[:, :2], targets)
    assert torch.allclose(late.per_example(outputs, targets, None), plain)
    late.update(memory, torch.tensor([0]), outputs, step=9)
    assert memory[0].tolist() == pytest.approx([1 - t, t])


def test_deep_gamblers_by_hand():
    p = [0.5, 0.2, 0.3]
    outputs = torch.log(torch.tensor([p], dtype=torch.float64)) + 3.0
    objective = DeepGamblers(reward=1.5, entropy=0.1)
    loss = objective.per_example(outputs, torch.tensor([1])).item()
    a, b = 0.5 / 0.7, 0.2 / 0.7
    entropy = -(a * math.log(a) + b * math.log(b))
    assert loss == pytest.approx(-math.log(0.2 + 0.3 / 1.5) + 0.1 * entropy)
    assert objective.logits(outputs).shape == (1, 2)
    late = DeepGamblers(burn_in_steps=3)
    assert (late.state(2), late.state(3)) == (False, True)
    burning = late.per_example(outputs, torch.tensor([1]), late.state(2))
    assert burning.item() == pytest.approx(-math.log(0.2 / 0.7))


def batch_loss(objective, outputs, targets):
    """P1, Eq. 8 to 10, for a whole batch."""
    classes = (outputs.shape[1] - 1) // 2
    f, h, g = outputs[:, :classes], outputs[:, classes:-1], torch.sigmoid(outputs[:, -1])
    c = g.mean()
    risk = (CrossEntropy(objective.entropy).per_example(f, targets) * g).mean() / c
    missing = torch.clamp(objective.coverage - c, min=0)
    auxiliary = torch.nn.functional.cross_entropy(h, targets)
    selective = risk + objective.penalty * missing**2
    return objective.alpha * selective + (1 - objective.alpha) * auxiliary


@pytest.mark.parametrize("coverage", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_selectivenet_surrogate_has_the_gradient_of_the_batch_loss(coverage, alpha):
    outputs, targets = draw(7, 9, 4)
    objective = SelectiveNet(coverage, alpha=alpha, loss_bound=100.0, entropy=0.1)
    outputs.requires_grad_()
    (true,) = torch.autograd.grad(batch_loss(objective, outputs, targets), outputs)
    sums = objective.statistics(outputs.detach(), targets)
    constants = objective.noisy_constants(sums, 7, 0.0, torch.zeros(2))
    surrogate = objective.per_example(outputs, targets, constants).mean()
    (ours,) = torch.autograd.grad(surrogate, outputs)
    assert torch.allclose(ours, true, atol=1e-12)


def test_statistics_stay_bounded_whatever_an_example_does():
    """Adding one example, however extreme, moves the pair by at most sqrt(2)."""
    objective = SelectiveNet(0.7, loss_bound=5.0)
    outputs, targets = draw(20, 9, 4)
    rest = objective.statistics(outputs[1:], targets[1:])
    for scale in (1.0, 10.0, 1e4):
        extreme = objective.statistics(outputs * scale, targets)
        for row in range(10):
            keep = torch.arange(20) != row
            without = objective.statistics(outputs[keep] * scale, targets[keep])
            assert (extreme - without).norm() <= math.sqrt(2) + 1e-9
    for value in (math.nan, math.inf, -math.inf, 1e300):
        for column in range(9):
            odd = outputs.clone()
            odd[0, column] = value
            change = objective.statistics(odd, targets) - rest
            assert torch.isfinite(change).all()
            assert change.norm() <= math.sqrt(2) + 1e-9


def test_statistics_by_hand():
    outputs, targets = draw(20, 9, 4)
    gate = torch.sigmoid(outputs[:, -1])
    losses = torch.nn.functional.cross_entropy(outputs[:, :4], targets, reduction="none")
    wanted = torch.stack([gate.sum(), (losses.clamp(max=1.5) / 1.5 * gate).sum()])
    found = SelectiveNet(0.7, loss_bound=1.5).statistics(outputs, targets)
    torch.testing.assert_close(found, wanted, check_dtype=False)


def test_noise_of_the_statistics():
    objective = SelectiveNet(0.7)
    sums = torch.tensor([40.0, 10.0])
    exact = objective.noisy_constants(sums, 100, 0.0, torch.zeros(2))
    assert exact.tolist() == pytest.approx([0.4, 5.0 * 0.1 / 0.4])
    moved = objective.noisy_constants(sums, 100, 2.0, torch.tensor([1.0, 0.0]))
    assert moved[0].item() == pytest.approx(0.4 + 2 * math.sqrt(2) / 100)
    tiny = objective.noisy_constants(sums, 100, 1e6, torch.tensor([-1.0, -1.0]))
    assert tiny.tolist() == pytest.approx([0.05, 0.0])


CASES = [
    (CrossEntropy(0.01), 3, None),
    (SelfAdaptiveTraining(entropy=0.01), 4, "memory"),
    (DeepGamblers(entropy=0.01), 4, "gambling"),
    (SelectiveNet(0.5, entropy=0.01), 7, "constants"),
    (PosteriorTargets(), 3, "likelihoods"),
]


@pytest.mark.parametrize(("objective", "k", "kind"), CASES)
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("b", [0, 1, 5])
def test_no_example_depends_on_another_and_nothing_is_nan(objective, k, kind, scale, b):
    outputs, targets = draw(b, k, 3)
    outputs = (outputs * scale).requires_grad_()
    state = True if kind == "gambling" else None
    if kind == "memory":
        state = objective.initial_state(targets, 3).double()
    elif kind == "likelihoods":
        targets = torch.softmax(draw(b, 3, 3, seed=1)[0], dim=1)
    elif kind == "constants":
        state = torch.tensor([0.4, 1.0], dtype=torch.float64)
    losses = objective.per_example(outputs, targets, state)
    assert losses.shape == (b,)
    assert torch.isfinite(losses).all()
    for row in range(b):
        (gradient,) = torch.autograd.grad(losses[row], outputs, retain_graph=True)
        assert torch.isfinite(gradient).all()
        others = torch.arange(b) != row
        assert torch.equal(gradient[others], torch.zeros(b - 1, k, dtype=torch.float64))
    assert objective.logits(outputs).shape == (b, 3)
