"""Other points for a trained model: shifted images, and a record that is like no other."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from lib.data import load_digits, load_images, split_rows
from lib.data.features import PatchFilters, fit_patches, group_normalise, patch_features
from lib.data.shifts import corrupt
from lib.training import DataSpec

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Pipeline:
    """From images to what a model of :class:`lib.training.DataSpec` reads."""

    # shape (n, channels, height, width): The test images, in the order in which the data are
    # loaded; values in [0, 1]
    images: Floats
    transform: Callable[[Floats], Floats]  # From images of that shape to inputs of the model

    @classmethod
    def of(cls, data: DataSpec) -> "Pipeline":
        """The pipeline of a data set."""
        if data.features not in ("images", "pixels", "patches"):
            raise ValueError(f"data must have images, pixels or patches, got {data.features!r}")
        drawn = {"train": data.train}
        drawn |= {"validation": data.validation} if data.validation else {}
        drawn |= {"public": data.public} if data.public else {}
        if data.name == "digits":
            digits = load_digits()
            rows = split_rows(len(digits.labels), data.seed, drawn | {"test": data.test})
            images = digits.images[rows["test"], None].astype(np.float32)
        else:
            source = load_images(data.name, "test")
            groups = source.groups
            rows = split_rows(len(source), data.seed, {"test": data.test}, groups=groups)["test"]
            images = source.as_float(np.sort(rows))
        if data.features != "patches":
            return cls(images, _flat if data.features == "pixels" else np.asarray)
        source = load_images(data.name, "train")
        rows = np.sort(split_rows(len(source), data.seed, drawn, groups=source.groups)["public"])
        public = source.as_float(rows)
        filters = fit_patches(public, seed=data.seed)
        return cls(images, partial(_patches, filters=filters))

    def shifted(self, kind: str, severity: float, rows: npt.ArrayLike, seed: int) -> Floats:
        """Inputs of some test images after a shift."""
        return self.transform(corrupt(self.images[np.asarray(rows)], kind, severity, seed))

    def record(self) -> Floats:
        """The audit's inserted record: the inputs of :func:`checkerboard`, of one point."""
        return self.transform(checkerboard(self.images.shape[1:]))[0]


def checkerboard(shape: tuple[int, int, int]) -> Floats:
    """An image that no photograph and no digit looks like: alternating black and white pixels.

    A heuristic: a record whose gradient points where few others' do is hardly hidden among them.
    Differential privacy speaks of the worst record beside the worst data set; nothing says that it
    is this one, or that the data set at hand is the worst one.
    """
    board = (np.indices(shape[1:]).sum(axis=0) % 2).astype(np.float32)
    return np.broadcast_to(board, (1, *shape)).copy()


def _flat(images: Floats) -> Floats:
    return images.reshape(len(images), -1)


def _patches(images: Floats, filters: PatchFilters) -> Floats:
    return _flat(group_normalise(patch_features(images, filters), groups=1))
