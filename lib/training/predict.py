"""What a trained model says beyond its class logits."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from lib.check import require_choice, require_finite, require_int
from lib.training.checks import as_points
from lib.training.config import TrainingConfig, TrainingData
from lib.training.models import ModelSpec, build_model
from lib.training.single import (
    TrainingResult,
    evaluate,
    initial_network,
    module_of,
    summarise,
    train,
)
from lib.training.stem import forward

_BATCH = 1024


def trained_plainly(
    training: TrainingData,
    points: npt.ArrayLike,
    *,
    epochs: float,
    seed: int,
    model: str = "small_cnn",
) -> TrainingResult:
    """Train a network without privacy, by settings that suit images and features of them.

    Batches of 64, or all examples where there are fewer; `epochs` is how often each is seen.
    """
    batch = min(64, len(training))
    config = TrainingConfig(
        ModelSpec(model, training.inputs.shape[1:], training.classes, hidden=(64,)),
        steps=max(1, round(epochs * len(training) / batch)),
        batch_size=batch,
        learning_rate=0.02,  # at 0.05 the network's units saturate
        schedule="cosine",
        momentum=0.9,
        seed=seed,
    )
    return train(config, training, points)


def outputs_of(result: TrainingResult, points: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """All outputs of the final model: class logits and those of its head, (n, outputs)."""
    return _passed(module_of(result), result, points)


def features_of(result: TrainingResult, points: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """What enters the last layer of the final model (dropout aside), (n, features)."""
    return _passed(module_of(result)[:-1], result, points)


def _passed(
    network: torch.nn.Module, result: TrainingResult, points: npt.ArrayLike
) -> npt.NDArray[np.float32]:
    points = torch.from_numpy(as_points("points", points, result.config.model.inputs))
    with torch.no_grad():
        return torch.cat([forward(network, part) for part in points.split(_BATCH)]).numpy()


def averages(
    result: TrainingResult, points: npt.ArrayLike, parts: Sequence[float]
) -> dict[str, npt.NDArray]:
    """What the intermediate models of a training say, and averages of the last of them.

    All of it is post-processing: the guarantee of DP-SGD covers every intermediate model
    (De et al. 2022 average parameters; P1's SCTD compares predicted classes).  The training kept
    its ``"weights"``; `parts` in (0, 1] say which part of the checkpoints, the last ones, is
    averaged.  Returns ``checkpoints`` (t, n), predicted classes; ``of_parameters`` (parts, n,
    classes), logits of the models with the mean parameters; ``of_probabilities``, of that shape.
    """
    require_choice("keep of result", result.config.keep, ("weights",))
    points = torch.from_numpy(as_points("points", points, result.config.model.inputs))
    for part in parts:
        require_finite("parts", part, above=0, at_most=1)
    weights = result.checkpoints
    counts = [math.ceil(part * len(weights) - 1e-9) for part in parts]
    network = build_model(result.config.model, 0)
    labels = []
    totals = np.zeros((len(parts), *result.logits.shape))
    for place, row in enumerate(weights):
        logits = _logits(network, row, points, result.config)
        labels.append(summarise(logits, "labels"))
        totals[[len(weights) - place <= count for count in counts]] += summarise(
            logits, "probabilities"
        )
    means = [weights[-count:].mean(0, dtype=np.float64).astype(np.float32) for count in counts]
    return {
        "checkpoints": np.stack(labels),
        "of_parameters": np.stack([_logits(network, m, points, result.config) for m in means]),
        "of_probabilities": (totals / np.array(counts)[:, None, None]).astype(np.float32),
    }


def _logits(
    network: torch.nn.Module, parameters: np.ndarray, points: torch.Tensor, config: TrainingConfig
) -> npt.NDArray[np.float32]:
    vector_to_parameters(torch.from_numpy(parameters.copy()), network.parameters())
    return evaluate(network, config, points)


def dropout_probabilities(
    result: TrainingResult, points: npt.ArrayLike, passes: int, seed: int
) -> npt.NDArray[np.float32]:
    """Mean class probabilities over random sub-networks (Monte-Carlo dropout; P1, Eq. 15).

    Each of the `passes` is drawn for every point by itself, from `seed`.
    """
    if not result.config.model.dropout:
        raise ValueError("result must be of a model with dropout, got dropout = 0.0")
    points = torch.from_numpy(as_points("points", points, result.config.model.inputs))
    body, end = _at_dropout(module_of(result).train())
    found = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in points.split(_BATCH):
            total = torch.zeros(len(part), result.config.model.classes, dtype=torch.float64)
            part = forward(body, part)
            for _ in range(passes):
                total += torch.softmax(result.config.objective.logits(end(part)), dim=1)
            found.append(total / passes)
    return torch.cat(found).float().numpy()


def _at_dropout(network: torch.nn.Sequential) -> tuple[torch.nn.Sequential, torch.nn.Sequential]:
    """What is before the first layer with dropout, the same in every pass, and the rest."""
    first = next(
        number
        for number, layer in enumerate(network)
        if any(isinstance(part, torch.nn.Dropout) for part in layer.modules())
    )
    return network[:first], network[first:]


def initial_parameters(config: TrainingConfig) -> npt.NDArray[np.float32]:
    """The parameters that a training starts from; they depend on model, objective and seed alone.

    Parameters
    ----------
    config : TrainingConfig
        The training.

    Returns
    -------
    ndarray of float32, shape (p,)
    """
    with torch.no_grad():
        return parameters_to_vector(initial_network(config).parameters()).numpy().copy()


def example_gradients(
    spec: ModelSpec, parameters: npt.ArrayLike, point: npt.ArrayLike, label: int
) -> npt.NDArray[np.float32]:
    """Gradients of the cross-entropy at one example, for many models.

    Parameters
    ----------
    spec : ModelSpec
        The architecture of all.
    parameters : array_like of float, shape (models, p)
        Their parameters.
    point : array_like of float, shape (...)
        The example's input.
    label : int
        Its label.

    Returns
    -------
    ndarray of float32, shape (models, p)
    """
    x = torch.from_numpy(as_points("point", [point], spec.inputs))
    require_int("label", label, at_least=0, at_most=spec.outputs - 1)
    network = build_model(spec, 0).eval()
    parameters = np.asarray(parameters)
    size = sum(p.numel() for p in network.parameters())
    if parameters.dtype.kind not in "fiu" or parameters.shape[1:] != (size,) or not len(parameters):
        raise ValueError(
            f"parameters must be real numbers of shape (models, {size}), got {parameters.dtype} of"
            f" shape {parameters.shape}"
        )
    target = torch.tensor([int(label)])
    found = []
    for row in parameters.astype(np.float32):
        vector_to_parameters(torch.from_numpy(row.copy()), network.parameters())
        loss = torch.nn.functional.cross_entropy(network(x), target)
        gradient = torch.autograd.grad(loss, tuple(network.parameters()))
        found.append(torch.cat([g.reshape(-1) for g in gradient]).numpy())
    return np.stack(found)
