"""Where canaries are inserted, apart from what is made of them: stored with training runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lib.audit.insert import Canaries, insert_canaries


@dataclass(frozen=True)
class CanaryDraw:
    """Canaries of one training, drawn by a rule: a :class:`lib.training.LabelChange`."""

    count: int  # How many
    n_classes: int  # C
    seed: int  # Of the draw

    def draw(self, labels: npt.ArrayLike) -> Canaries:
        """The canaries among these labels."""
        return insert_canaries(labels, self.count, self.n_classes, self.seed)

    def apply(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The labels with the canaries' wrong ones."""
        return self.draw(labels).apply(labels)

    def watched(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The canaries' rows."""
        return self.draw(labels).positions


@dataclass(frozen=True)
class CanaryGroup:
    """One of several groups of a training's canaries, inserted alone: every so many-th."""

    whole: CanaryDraw  # All groups
    group: int  # Which, from 0
    groups: int  # How many there are

    def apply(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The labels with the wrong ones of this group's canaries."""
        drawn, part = self.whole.draw(labels), slice(self.group, None, self.groups)
        names = ("positions", "true_labels", "canary_labels")
        return replace(drawn, **{name: getattr(drawn, name)[part] for name in names}).apply(labels)

    def watched(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The rows of all groups' canaries."""
        return self.whole.watched(labels)


def canary_labels(draws: Sequence[CanaryDraw], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wrong and true labels of the canaries of all training runs, one after the other."""
    drawn = [draw.draw(truth) for draw in draws]
    return (
        np.concatenate([each.canary_labels for each in drawn]),
        np.concatenate([each.true_labels for each in drawn]),
    )
