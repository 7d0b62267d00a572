"""What defines a training: the configuration and the data."""

import hashlib
import math
import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lib.check import as_array, as_real, require_choice, require_finite, require_int, require_number
from lib.data.splits import as_classes, as_rows
from lib.privacy.accounting import ACCOUNTANTS, find_noise_multiplier
from lib.training.models import ModelSpec
from lib.training.objectives import CrossEntropy, Objective, SelectiveNet

_DEVICES = r"cpu|cuda(:\d+)?"
_NORMS = (1e-30, 1e30)  # to clip to: numbers and noise of that size keep their digits in float32
PRECISIONS = ("float32", "tf32", "bf16")
GRAD_SAMPLE_MODES = ("hooks", "taps")
KEEP = ("labels", "probabilities", "weights")


@dataclass(frozen=True)
class Augmentation:
    """Random flips and crops of training images.

    Attributes
    ----------
    flip : bool
        Mirror each image with probability 1/2.
    crop_padding : int
        Shift each image by up to this many pixels in both directions.
    multiplicity : int
        Augmented copies of each sampled example; their gradients are averaged into the example's
        one gradient before clipping, so that privacy costs the same (De et al. 2022).
    """

    flip: bool = True
    crop_padding: int = 4
    multiplicity: int = 1

    def __post_init__(self):
        require_int("crop_padding", self.crop_padding, at_least=0)
        require_int("multiplicity", self.multiplicity, at_least=1)


@dataclass(frozen=True)
class TrainingConfig:
    """One training, completely: with the data, it determines the result.

    Attributes
    ----------
    model : ModelSpec
        The architecture.
    objective : CrossEntropy, SelfAdaptiveTraining, DeepGamblers or SelectiveNet
        The loss.
    epsilon : float
        Privacy budget at `delta` of all `releases` together; infinity is plain SGD on Poisson
        samples, without clipping or noise.
    delta : float, optional
        In [0, 1); 1 / (number of training examples) if not given, as in P1.  To be given for a
        private training on one example.
    noise_multiplier : float, optional
        Use this one instead of the smallest that keeps `epsilon`, which must then be infinite (the
        default): what was spent stands in the result's ledger.
    clipping_norm : float
        Largest L2 norm of an example's gradient, from 1e-30 to 1e30.  Ignored where nothing is
        private.
    releases : int
        Number of training runs that share the budget, see
        :func:`lib.privacy.find_noise_multiplier`.
    accountant : {"rdp", "pld"}
        What finds the noise multiplier.
    batch_size : int
        *Expected* batch size; the sampling probability is this over the number of examples.
        Gradients are divided by it, not by the realized size, which is private.
    sample_rate : float, optional
        Probability of each example in each step, in (0, 1]; `batch_size` over the number of
        examples if not given.  Where neighboring data sets differ in size, as in an audit, give it
        (and `delta`): the mechanism must not depend on that number.
    steps : int
        Number of updates.
    learning_rate : float
        Positive.
    schedule : {"constant", "cosine"}
        Of the learning rate; ``"cosine"`` ends at 0.
    momentum : float
        In [0, 1).
    weight_decay : float
        L2 penalty on the parameters, added after the noise (it reads no data).
    augmentation : Augmentation, optional
        For images.
    adversarial : float
        If positive, each example is also shown moved by so much in every component, to where its
        own loss grows (fast gradient sign, which passes smoothly through zero, so that rounding
        decides nothing; deep ensembles of Lakshminarayanan et al. 2017 have a hundredth of the
        range).  The two gradients are averaged into the example's one before clipping, and the twin
        depends on that example and the released iterate alone: privacy costs the same.  For
        :class:`CrossEntropy` alone.
    checkpoint_every : int, optional
        Evaluate the intermediate model every so many steps (P1 uses 50).  The last step is always
        the last checkpoint.
    keep : {"labels", "probabilities", "weights"}
        What of an intermediate model is kept: predicted classes of the evaluation points, class
        probabilities, or its parameters.
    seed : int
        Of the initial parameters, samples, noise, dropout and augmentation, all independent.
        Private models that are released together need different seeds: the noise of the same seed
        is the same, and cancels in their difference.
    device : str
        ``"cpu"``, ``"cuda"`` or one of several, as ``"cuda:1"``.
    precision : {"float32", "tf32", "bf16"}
        Of the forward and backward pass.  Clipping, noise and update are always in float32.
    noise_source : {"host", "device"}
        Where the noise is drawn.  ``"host"`` gives every engine the same numbers; ``"device"`` is
        for large models on an accelerator.
    grad_sample_mode : {"hooks", "taps"}
        How per-example gradients come about: by Opacus, or by :mod:`lib.training.taps`.
    physical_batch : int, optional
        Largest number of examples whose gradients are in memory at once; by default what the
        device's memory allows (:mod:`lib.training.memory`).
    deterministic : bool
        Ask PyTorch for deterministic algorithms.  On a CPU with a fixed number of threads results
        repeat bit by bit; on a GPU some layers are slower for it.
    """

    model: ModelSpec
    objective: Objective = field(default_factory=CrossEntropy)
    epsilon: float = math.inf
    delta: float | None = None
    noise_multiplier: float | None = None
    clipping_norm: float = 1.0
    releases: int = 1
    accountant: str = "rdp"
    batch_size: int = 128
    sample_rate: float | None = None
    steps: int = 400
    learning_rate: float = 0.5
    schedule: str = "constant"
    momentum: float = 0.0
    weight_decay: float = 0.0
    augmentation: Augmentation | None = None
    adversarial: float = 0.0
    checkpoint_every: int | None = None
    keep: str = "labels"
    seed: int = 0
    device: str = "cpu"
    precision: str = "float32"
    noise_source: str = "host"
    grad_sample_mode: str = "hooks"
    physical_batch: int | None = None
    deterministic: bool = True

    def __post_init__(self):
        require_number("epsilon", self.epsilon, above=0)
        if self.delta is not None:
            require_finite("delta", self.delta, at_least=0, below=1)
        if self.noise_multiplier is not None:
            require_finite("noise_multiplier", self.noise_multiplier, at_least=0)
            if math.isfinite(self.epsilon):
                raise ValueError(
                    "epsilon must be left infinite where noise_multiplier is given, got"
                    f" {self.epsilon!r}"
                )
        require_number("clipping_norm", self.clipping_norm, above=0)
        if self.private and not _NORMS[0] <= self.clipping_norm <= _NORMS[1]:
            raise ValueError(
                f"clipping_norm must be between {_NORMS[0]:g} and {_NORMS[1]:g} for private"
                f" training, which is in float32, got {self.clipping_norm!r}"
            )
        require_int("releases", self.releases, at_least=1)
        require_choice("accountant", self.accountant, ACCOUNTANTS)
        require_int("batch_size", self.batch_size, at_least=1)
        if self.sample_rate is not None:
            require_finite("sample_rate", self.sample_rate, above=0, at_most=1)
        require_int("steps", self.steps, at_least=1)
        require_finite("learning_rate", self.learning_rate, above=0)
        require_choice("schedule", self.schedule, ("constant", "cosine"))
        require_finite("momentum", self.momentum, at_least=0, below=1)
        require_finite("weight_decay", self.weight_decay, at_least=0)
        require_finite("adversarial", self.adversarial, at_least=0)
        if self.adversarial and not isinstance(self.objective, CrossEntropy):
            raise ValueError(
                f"adversarial must be 0 for {type(self.objective).__name__}, got {self.adversarial}"
            )
        if self.checkpoint_every is not None:
            require_int("checkpoint_every", self.checkpoint_every, at_least=1)
        require_choice("keep", self.keep, KEEP)
        require_int("seed", self.seed, at_least=0)
        if not (isinstance(self.device, str) and re.fullmatch(_DEVICES, self.device)):
            raise ValueError(
                f"device must be 'cpu', 'cuda' or such as 'cuda:1', got {self.device!r}"
            )
        require_choice("precision", self.precision, PRECISIONS)
        require_choice("noise_source", self.noise_source, ("host", "device"))
        require_choice("grad_sample_mode", self.grad_sample_mode, GRAD_SAMPLE_MODES)
        if self.physical_batch is not None:
            require_int("physical_batch", self.physical_batch, at_least=1)
        if self.model.head != self.objective.model_head:
            raise ValueError(
                f"model must have the head {self.objective.model_head!r} for"
                f" {type(self.objective).__name__}, got {self.model.head!r}"
            )

    @property
    def private(self) -> bool:
        """Whether gradients are clipped and noised."""
        return math.isfinite(self.epsilon) or bool(self.noise_multiplier)

    @property
    def copies(self) -> int:
        """How many gradients are averaged into the one of an example."""
        augmented = self.augmentation.multiplicity if self.augmentation else 1
        return augmented * (2 if self.adversarial else 1)

    @property
    def checkpoint_steps(self) -> tuple[int, ...]:
        """After which steps the model is evaluated, the last one included."""
        every = self.checkpoint_every or self.steps
        return (*range(every, self.steps, every), self.steps)

    def learning_rates(self) -> npt.NDArray[np.float64]:
        """The learning rate of every step, shape (steps,)."""
        if self.schedule == "constant":
            return np.full(self.steps, self.learning_rate)
        t = np.arange(self.steps) / self.steps
        return self.learning_rate * 0.5 * (1 + np.cos(np.pi * t))


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Labeled examples, of which some rows are trained on.

    Several training runs on different subsets, or with some labels changed, share one array of
    inputs.

    Attributes
    ----------
    inputs : ndarray of float32, shape (n, ...)
        One example a row.
    targets : ndarray, shape (n,) of int64 or (n, classes) of float32
        Classes, or distributions over classes (label-DP targets).
    classes : int
        Number of classes.
    rows : ndarray of int64, shape (m,)
        The training rows, without repetition; all of them by default.
    """

    inputs: npt.NDArray[np.float32]
    targets: npt.NDArray
    classes: int
    rows: npt.NDArray[np.int64] | None = None

    def __post_init__(self):
        require_int("classes", self.classes, at_least=2)
        inputs = np.ascontiguousarray(as_real("inputs", self.inputs), dtype=np.float32)
        if inputs.ndim < 2 or not len(inputs):
            raise ValueError(
                f"inputs must be of shape (n, ...) with n of at least 1, got {inputs.shape}"
            )
        if not np.isfinite(inputs).all():
            bad = int(np.count_nonzero(~np.isfinite(inputs)))
            raise ValueError(f"inputs must be finite, got {bad} NaN or infinite values")
        object.__setattr__(self, "inputs", _frozen(inputs))
        object.__setattr__(self, "targets", _frozen(_targets(self.targets, self.classes, inputs)))
        object.__setattr__(self, "rows", _frozen(_rows(self.rows, len(inputs))))
        object.__setattr__(self, "_digests", {})  # of the inputs, for all that share them

    def __len__(self) -> int:
        """Return the number of training rows."""
        return len(self.rows)

    @property
    def soft(self) -> bool:
        """Whether targets are distributions."""
        return self.targets.ndim == 2

    def subset(self, rows: npt.ArrayLike) -> "TrainingData":
        """The same arrays with other training rows; nothing is copied or checked again."""
        return self._derived(rows=_frozen(_rows(rows, len(self.inputs))))

    def with_targets(self, targets: npt.ArrayLike) -> "TrainingData":
        """The same inputs and rows with other targets."""
        return self._derived(targets=_frozen(_targets(targets, self.classes, self.inputs)))

    def _derived(self, **changed) -> "TrainingData":
        new = object.__new__(TrainingData)
        for name in ("inputs", "targets", "classes", "rows", "_digests"):
            object.__setattr__(new, name, changed.get(name, getattr(self, name)))
        return new

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over shapes and bytes of inputs, targets and rows."""
        if "inputs" not in self._digests:
            inputs = hashlib.sha256(f"{self.inputs.shape}".encode())
            inputs.update(self.inputs.data)
            self._digests["inputs"] = inputs.hexdigest()
        digest = hashlib.sha256(f"{self.classes} {self._digests['inputs']}".encode())
        for array in (self.targets, self.rows):
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Plan:
    """The privacy mechanism of a training on data of a known size.

    Attributes
    ----------
    delta : float
        What epsilon is stated at.
    sample_rate : float
        Probability of each example in each step.
    noise_multiplier : float
        Of the gradients; 0 without privacy.
    effective_noise_multiplier : float
        Of the gradients and, for SelectiveNet, the released batch statistics together: what the
        ledger holds.
    """

    delta: float
    sample_rate: float
    noise_multiplier: float
    effective_noise_multiplier: float


def plan(config: TrainingConfig, n_train: int) -> Plan:
    """Find sampling rate and noise for a training, or say why there is none.

    Parameters
    ----------
    config : TrainingConfig
        The training.
    n_train : int
        Number of training examples.

    Raises
    ------
    ValueError
        If the batch is larger than the data, or no noise keeps the budget.

    Examples
    --------
    >>> found = plan(config, n_train=200)
    >>> found.sample_rate, found.delta, round(found.noise_multiplier, 2)
    (0.25, 0.005, 0.81)
    """
    if config.sample_rate is None and config.batch_size > n_train:
        raise ValueError(
            f"batch_size must be at most the number of training examples ({n_train}), got"
            f" {config.batch_size}"
        )
    delta = 1 / n_train if config.delta is None else float(config.delta)
    if delta == 1:  # of one example
        if config.private:
            raise ValueError("delta must be given for one training example, as 1 / 1 is too large")
        delta = 0.0  # nothing is spent at any delta but infinity
    rate = config.batch_size / n_train
    if config.sample_rate is not None:
        rate = float(config.sample_rate)
    if not config.private:
        return Plan(delta, rate, 0.0, 0.0)
    if config.noise_multiplier is not None:
        gradient = effective = float(config.noise_multiplier)
        if isinstance(config.objective, SelectiveNet):
            effective = (gradient**-2 + config.objective.statistic_noise**-2) ** -0.5
        return Plan(delta, rate, gradient, effective)
    effective = find_noise_multiplier(
        config.epsilon,
        delta,
        rate,
        config.steps,
        releases=config.releases,
        accountant=config.accountant,
    )
    gradient = effective
    if isinstance(config.objective, SelectiveNet):
        statistic = config.objective.statistic_noise
        if statistic <= effective:
            raise ValueError(
                f"objective.statistic_noise must be above {effective:.3g}, the noise multiplier"
                f" that epsilon = {config.epsilon!r} asks for in all, got {statistic!r}"
            )
        gradient = (effective**-2 - statistic**-2) ** -0.5
    return Plan(delta, rate, gradient, effective)


def _frozen(array: np.ndarray) -> np.ndarray:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _rows(rows, n: int) -> np.ndarray:
    if rows is None:
        return np.arange(n)
    if np.asarray(rows).dtype == bool:
        if np.shape(rows) != (n,):
            raise ValueError(f"rows must be a mask of shape ({n},), got shape {np.shape(rows)}")
        rows = np.flatnonzero(rows)
    rows = as_rows("rows", rows, n, least=1)
    if len(np.unique(rows)) != len(rows):
        raise ValueError("rows must not repeat: an example would count twice for privacy")
    return rows


def _targets(targets, classes: int, inputs: np.ndarray) -> np.ndarray:
    targets = as_array("targets", targets)
    if targets.ndim == 1:
        return as_classes("targets", targets, len(inputs), classes).astype(np.int64)
    if targets.shape != (len(inputs), classes):
        raise ValueError(
            f"targets must be of shape ({len(inputs)},) or ({len(inputs)}, {classes}), got shape"
            f" {targets.shape}"
        )
    targets = targets.astype(np.float32)
    if not (targets >= 0).all() or np.abs(targets.sum(1) - 1).max() > 1e-4:
        raise ValueError("targets of shape (n, classes) must be distributions: rows that sum to 1")
    return targets
