"""Data and models that suit each other, for the studies of the book."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lib import data
from lib.data.images import image_files, load_images
from lib.data.text import TEXT_FILES
from lib.training.jobs import DataSpec
from lib.training.models import SMALL_CNN_FEATURES, ModelSpec
from lib.training.torch_settings import accelerated

#: Images declared public for models on features, to which the features are fitted.
PUBLIC_IMAGES = 2000
_PATCH_FEATURES = 2048
_HASHED_WORDS = 4096
_SENTENCES = 872  # all that SST-2 has for tests
_TITLES = {
    "digits": "scikit-learn's digits, 8 x 8",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "gtsrb": "GTSRB",
    "gtsrb32": "GTSRB (a third of the training frames)",
    "sst2": "SST-2",
}


def title(dataset: str) -> str:
    """What pages call the data."""
    return _TITLES.get(dataset, dataset)


def at_hand(dataset: str) -> str:
    """The data set itself where its files can be had, the digits otherwise."""
    texts = TEXT_FILES.get(dataset)
    files = texts.values() if texts else image_files(dataset)
    return dataset if all(data.available(file) for file in files) else "digits"


def test_points(dataset: str) -> int:
    """How many test points studies take: 2,000, or all where there are fewer.

    Of texts a rehearsal takes as many as ``COMPANION_REHEARSAL_TEXTS`` says.
    """
    if dataset in TEXT_FILES:
        return int(os.environ.get("COMPANION_REHEARSAL_TEXTS", _SENTENCES))
    return 597 if dataset == "digits" else min(2000, len(load_images(dataset, "test")))


def data_note(dataset: str, used: str, more: str = "") -> str:
    """What a page says of the data of its training runs, and of those that are not here."""
    if used == dataset:
        return f"Data: {title(used)}{more}."
    return (
        f"Data: {title(used)}{more}. {title(dataset)} cannot be had on this machine, so the "
        "digits stand in, with the same parameters. The README says how to get the data."
    )


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
    """A data set and a model for it."""
    convolutional = model not in ("linear", "mlp")
    options = {"hidden": (hidden,), "activation": activation} if model == "mlp" else {}
    sizes = {"train": train, "validation": validation, "test": test, "seed": seed}
    if dataset in TEXT_FILES:
        spec = DataSpec(dataset, "tokens" if model == "roberta" else "words", **sizes)
        shape = (spec.tokens if model == "roberta" else _HASHED_WORDS,)
        return spec, ModelSpec(model, shape, 2, **options)
    source = load_images(dataset, "all" if dataset == "digits" else "train")
    height, width, channels = source.images.shape[1:]
    shape, features = (channels, height, width), "images"
    if not convolutional:
        features = "pixels" if channels == 1 else "patches"
        shape = (math.prod(shape) if channels == 1 else _PATCH_FEATURES,)
    public = PUBLIC_IMAGES if features == "patches" else 0
    return (
        DataSpec(dataset, features, public=public, **sizes),
        ModelSpec(model, shape, len(source.names), **options),
    )


def on_public_network(data: DataSpec, model: ModelSpec, public: int) -> tuple[DataSpec, ModelSpec]:
    """The same on the last hidden layer of a CNN that so many public images train."""
    if model.name not in ("linear", "mlp") or data.name in TEXT_FILES:
        raise ValueError(f"public must be 0 for {model.name!r} on {data.name!r}, got {public}")
    return (
        replace(data, features="network", public=public),
        replace(model, inputs=(SMALL_CNN_FEATURES,)),
    )


def rows_of(**columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What a chapter's lists say together: the first entry of each, the second of each, ..."""
    if len({len(column) for column in columns.values()}) > 1:
        lengths = [len(column) for column in columns.values()]
        raise ValueError(f"{', '.join(columns)} must be of one length, got {lengths} entries")
    return list(zip(*columns.values(), strict=True))


def updates(epochs: float, steps: int, batch_size: int, points: float) -> int:
    """Updates of a training on so many points: `epochs` passes over them, or `steps` where 0."""
    passes = epochs * points / batch_size
    return max(2, round(passes)) if passes else steps


def noise_source(device: str) -> str:
    """Where noise is drawn: on an accelerator itself, since the host would take hours."""
    return "device" if accelerated(device) else "host"
