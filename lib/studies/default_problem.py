"""Data and models that suit each other, for the studies of the book."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from lib.data.images import load_images
from lib.training.config import TrainingConfig
from lib.training.jobs import DataSpec
from lib.training.models import ModelSpec

#: Images declared public for models on features, to which the features are fitted.
PUBLIC_IMAGES = 2000
_PATCH_FEATURES = 2048


def default_problem(
    dataset: str,
    model: str,
    *,
    train: int,
    validation: int,
    test: int,
    hidden: int = 32,
    activation: str = "tanh",
    seed: int = 0,
) -> tuple[DataSpec, ModelSpec]:
    """A data set of images and a model for it."""
    convolutional = model not in ("linear", "mlp")
    options = {"hidden": (hidden,), "activation": activation} if model == "mlp" else {}
    sizes = {"train": train, "validation": validation, "test": test, "seed": seed}
    if dataset == "digits":
        features, shape, classes = "images" if convolutional else "pixels", (1, 8, 8), 10
        data = DataSpec(dataset, features, **sizes)
    else:
        source = load_images(dataset, "train")
        height, width, channels = source.images.shape[1:]
        shape, classes = (channels, height, width), len(source.names)
        features = "images" if convolutional else "patches"
        data = DataSpec(dataset, features, public=0 if convolutional else PUBLIC_IMAGES, **sizes)
    if not convolutional:
        shape = (math.prod(shape) if dataset == "digits" else _PATCH_FEATURES,)
    return data, ModelSpec(model, shape, classes, **options)


def with_training(
    kind: Callable[..., Any], data: DataSpec, model: ModelSpec, given: dict[str, Any]
) -> Any:
    """Settings that hold a training, from a chapter's flat parameters and a study's defaults."""
    names = {field.name for field in fields(TrainingConfig)} - {"seed"}
    training = {name: value for name, value in given.items() if name in names}
    others = {name: value for name, value in given.items() if name not in names}
    return kind(data, TrainingConfig(model, **training), **others)
