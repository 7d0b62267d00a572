"""SelectiveNet's gate, trained otherwise: whether what fails at small targets is ours.

Without privacy. In the code of its authors (geifmany/selectivenet, commit a00ccbb4,
models/cifar10_vgg_selectivenet.py) the gate has a hidden layer of 512 units with batch
normalization, whose outputs are divided by ten; the loss does not divide by the coverage.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from lib.selective.curves import accuracy_coverage
from lib.training import CrossEntropy, DataSpec, ModelSpec, SelectiveNet, build_model

TARGET = 0.1  # coverage, P1's smallest
UNITS = 512  # of the authors' hidden layer
#: Gates: hidden units, none of a linear one, and whether their batch normalizes them.
GATES = {
    "linear": (0, False),
    "hidden layer": (UNITS, False),
    "hidden layer, batch normalization": (UNITS, True),
}
#: Whether the loss divides by the coverage, as P1 prints it.
LOSSES = {"divided": True, "not divided": False}
#: Gates and losses, step by step from this book's to the authors'.
STEPS = {
    "ours": ("linear", "divided"),
    "loss": ("linear", "not divided"),
    "layer": ("hidden layer", "not divided"),
    "theirs": ("hidden layer, batch normalization", "not divided"),
}


class Gated(nn.Module):
    """The last layer of a selective network whose gate has a hidden layer."""

    def __init__(self, features: int, classes: int, units: int, *, normalized: bool):
        super().__init__()
        self.classes = nn.Linear(features, 2 * classes)
        self.hidden = nn.Sequential(nn.Linear(features, units), nn.ReLU())
        if normalized:
            self.hidden.append(nn.BatchNorm1d(units))
            nn.init.constant_(self.hidden[-1].weight, 0.1)  # the authors' division by ten
        self.gate = nn.Linear(units, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class logits, auxiliary class logits and a selection logit."""
        return torch.cat([self.classes(x), self.gate(self.hidden(x))], dim=1)


def network(spec: ModelSpec, gate: str, seed: int) -> nn.Sequential:
    """A network with one of :data:`GATES`, which starts near one half."""
    model = build_model(replace(spec, head="selective"), seed)
    units, normalized = GATES[gate]
    if units:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            features = model[-1].in_features
            model[-1] = Gated(features, spec.classes, units, normalized=normalized)
        nn.init.zeros_(model[-1].gate.bias)
    else:
        nn.init.zeros_(model[-1].bias[-1:])
    return model


def batch_loss(
    objective: SelectiveNet, outputs: torch.Tensor, targets: torch.Tensor, *, divided: bool
) -> torch.Tensor:
    """The loss of a batch that this book trains with, or the authors', not divided by coverage."""
    if divided:  # as without privacy: no noise
        with torch.no_grad():
            sums = objective.statistics(outputs, targets)
            state = objective.noisy_constants(sums, len(targets), 0.0, torch.zeros(2))
        return objective.per_example(outputs, targets, state).mean()
    f, h, logit = _split(outputs)
    g = torch.sigmoid(logit)
    coverage = g.mean()
    risk = (CrossEntropy(objective.entropy).per_example(f, targets) * g).mean()
    missing = torch.clamp(objective.coverage - coverage, min=0)
    selective = risk + objective.penalty * missing**2
    auxiliary = functional.cross_entropy(h, targets)
    return objective.alpha * selective + (1 - objective.alpha) * auxiliary


def trial(
    data: DataSpec, spec: ModelSpec, *, steps: int, batch_size: int, rate: float, seeds: int
) -> pd.DataFrame:
    """Train the gates and losses of :data:`STEPS` at a target of a tenth, and test them.

    Parameters
    ----------
    data, spec : DataSpec, ModelSpec
        What to train on, and the network, but for its head.
    steps, batch_size, rate : int, int, float
        Of SGD with a momentum of 0.9, on batches that are drawn with replacement.
    seeds : int
        Training runs of each.

    Returns
    -------
    pandas.DataFrame
        A row for each gate and loss, with means over seeds: the classifier's ``accuracy`` on all
        test points, its standard deviation over seeds (``sd``), and that on the tenth that its
        softmax response puts first; the ``auxiliary`` classifier's; what the gate ``accepts``.
    """
    loaded = data.load()
    inputs, targets = torch.tensor(loaded.training.inputs), torch.tensor(loaded.training.targets)
    objective = SelectiveNet(TARGET, entropy=0.01)
    rows = []
    for gate, loss in STEPS.values():
        found = []
        for seed in range(seeds):
            model, rng = network(spec, gate, seed), np.random.default_rng(seed)
            optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
            for _ in range(steps):
                drawn = torch.from_numpy(rng.integers(0, len(targets), batch_size))
                outputs = model(inputs[drawn])
                optimizer.zero_grad()
                batch_loss(objective, outputs, targets[drawn], divided=LOSSES[loss]).backward()
                optimizer.step()
            found.append(_seen(model.eval(), loaded.evaluation, loaded.labels))
        seen = pd.DataFrame(found)
        spread = {"sd": seen["accuracy"].std(ddof=1)}
        rows.append({"gate": gate, "loss": loss} | seen.mean().to_dict() | spread)
    return pd.DataFrame(rows)


def accuracies(table: pd.DataFrame) -> dict[str, float]:
    """The accuracy on all points by the names of :data:`STEPS`, from :func:`trial`."""
    found = table.set_index(["gate", "loss"])["accuracy"]
    return {name: float(found[step]) for name, step in STEPS.items()}


def _seen(model: nn.Module, inputs: npt.NDArray, labels: npt.NDArray) -> dict[str, float]:
    """What the classifiers and the gate of a trained network make of the test points."""
    with torch.no_grad():
        f, h, logit = _split(torch.cat([model(part) for part in torch.tensor(inputs).split(1000)]))
    p = torch.softmax(f, dim=1).numpy()
    curve = accuracy_coverage(p.argmax(1) == labels, p.max(1))
    return {
        "accuracy": curve.full_accuracy,
        "of the first tenth": float(curve.accuracy[max(1, round(TARGET * len(labels))) - 1]),
        "auxiliary": float((h.numpy().argmax(1) == labels).mean()),
        "accepts": float((logit >= 0).float().mean()),
    }


def _split(outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Class logits, auxiliary class logits and the selection logit."""
    classes = (outputs.shape[1] - 1) // 2
    return outputs[:, :classes], outputs[:, classes:-1], outputs[:, -1]
