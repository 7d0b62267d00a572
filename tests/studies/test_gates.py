"""SelectiveNet's gate, tried otherwise (lib.studies.interplay.gates)."""

import pytest
import torch

from lib.studies.interplay import gates
from lib.studies.interplay.experiments import all_points
from lib.training import CrossEntropy, SelectiveNet


def test_this_books_loss_has_the_gradient_of_what_p1_prints_where_coverage_is_not_small():
    objective = SelectiveNet(0.9, entropy=0.01)
    torch.manual_seed(0)
    outputs, targets = torch.randn(16, 7, requires_grad=True), torch.randint(0, 3, (16,))
    gates.batch_loss(objective, outputs, targets, divided=True).backward()
    ours, outputs.grad = outputs.grad, None
    f, h, g = outputs[:, :3], outputs[:, 3:6], torch.sigmoid(outputs[:, -1])
    risk = (CrossEntropy(0.01).per_example(f, targets) * g).mean() / g.mean()
    selective = risk + 32 * torch.clamp(0.9 - g.mean(), min=0) ** 2
    (0.5 * selective + 0.5 * torch.nn.functional.cross_entropy(h, targets)).backward()
    torch.testing.assert_close(ours, outputs.grad)


def test_the_authors_loss_by_hand():
    """Two points, gates of one half: half the mean loss, the penalty, and the auxiliary loss."""
    outputs = torch.zeros(2, 5)
    loss = gates.batch_loss(SelectiveNet(0.75), outputs, torch.tensor([0, 1]), divided=False)
    log2 = torch.tensor(2.0).log()
    assert loss.item() == pytest.approx(float(0.5 * (log2 / 2 + 32 * 0.25**2) + 0.5 * log2))


@pytest.mark.parametrize(
    ("gate", "layers"), [("linear", 0), ("hidden layer", 2), (gates.STEPS["theirs"][0], 3)]
)
def test_gates_start_near_one_half_and_have_their_layers(gate, layers):
    _, spec = all_points("digits", "small_cnn")
    model = gates.network(spec, gate, 0)
    outputs = model(torch.rand(50, *spec.inputs))
    assert outputs.shape == (50, 2 * spec.classes + 1)
    assert torch.sigmoid(outputs[:, -1]).mean().item() == pytest.approx(0.5, abs=0.15)
    assert len(getattr(model[-1], "hidden", ())) == layers


def test_a_trial_says_what_each_gate_and_loss_left():
    data, spec = all_points("digits", "small_cnn")
    given = {"steps": 4, "batch_size": 64, "rate": 0.05, "seeds": 2}
    table = gates.trial(data, spec, **given)
    assert len(table) == len(gates.STEPS)
    numbers = table[["accuracy", "of the first tenth", "auxiliary", "accepts"]]
    assert ((numbers >= 0) & (numbers <= 1)).all(axis=None)
    assert list(gates.accuracies(table).values()) == table["accuracy"].tolist()
    assert table.equals(gates.trial(data, spec, **given))
