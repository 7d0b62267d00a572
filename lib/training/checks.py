"""Whether labels, points, data and model fit together: one clear error each."""

import numpy as np
import numpy.typing as npt

from lib.check import as_real
from lib.training.config import TrainingConfig, TrainingData
from lib.training.objectives import DeepGamblers, PosteriorTargets, SelfAdaptiveTraining


def as_points(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Finite points of a shape, at least one, as float32 that may be written to."""
    points = np.ascontiguousarray(as_real(name, values), dtype=np.float32)
    if points.shape[1:] != shape or not len(points):
        raise ValueError(
            f"{name} must be of shape (n, {', '.join(map(str, shape))}) with n of at least 1, got"
            f" {points.shape}"
        )
    if not np.isfinite(points).all():
        raise ValueError(f"{name} must be finite, got NaN or infinite values")
    return points if points.flags.writeable else points.copy()


def check_match(config: TrainingConfig, data: TrainingData) -> None:
    """Model and data fit together, or one clear error."""
    spec = config.model
    if tuple(spec.inputs) != data.inputs.shape[1:]:
        raise ValueError(
            f"model.inputs must be {data.inputs.shape[1:]}, the shape of one example, got"
            f" {tuple(spec.inputs)}"
        )
    if spec.classes != data.classes:
        raise ValueError(
            f"model.classes must be {data.classes}, as in the data, got {spec.classes}"
        )
    if isinstance(config.objective, PosteriorTargets) and not data.soft:
        raise ValueError(
            "data must have likelihoods of shape (n, classes) as targets for PosteriorTargets, got"
            " classes"
        )
    if isinstance(config.objective, SelfAdaptiveTraining | DeepGamblers) and data.soft:
        raise ValueError(
            f"data must have classes as targets for {type(config.objective).__name__}, got"
            " distributions"
        )
    if config.augmentation is not None and data.inputs.ndim != 4:
        raise ValueError(
            f"augmentation needs images of shape (n, channels, height, width), got"
            f" {data.inputs.shape}"
        )
