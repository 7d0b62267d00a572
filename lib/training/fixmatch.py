"""FixMatch for many small models at once: each has a few labeled rows, all share the images.

PATE-FM (P5) trains its teachers and its student so.  A model labels weakly augmented images
itself; where it is confident, it must answer the same for a strongly augmented copy (Sohn et al.
2020).  Nothing here is private: privacy comes from the noisy vote of the teachers.

Linear models and MLPs advance in lockstep, by batched matrix products in groups that fit the
processor's cache; other architectures are trained one model per thread.  Every model has random
streams of its own, so that its result does not depend on its company (up to rounding).
"""

import hashlib
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.utils import parameters_to_vector

from lib.check import require_choice, require_finite, require_int
from lib.data.splits import as_classes, as_rows
from lib.runs.checkpoint import Checkpoint
from lib.runs.provenance import own_cores
from lib.training.augmentation import _STRONG_NUMBERS, _WEAK_NUMBERS, POLICIES, _pad, _strong, _weak
from lib.training.fixmatch_gradients import _Lockstep, _Network
from lib.training.models import ModelSpec, build_model
from lib.training.randomness import Streams
from lib.training.single import TrainingDiverged, as_tensor
from lib.training.state import load_state, save_state, took_long
from lib.training.torch_settings import place

_PURPOSE = 0xF1  # keeps these streams apart from those of lib.training.randomness
_STEPS_AT_ONCE = 16  # random numbers are drawn for so many steps
_GROUP_BYTES = 3 << 20  # working set of the models that advance together: the cache of a core
_EVALUATION_BATCH = 1024
_LOCKSTEP = ("linear", "mlp")


@dataclass(frozen=True)
class FixMatch:
    """One semi-supervised training: with images, labels and rows, it determines the result.

    Attributes
    ----------
    model : ModelSpec
        The architecture, with a plain head and no dropout.  ``"linear"`` and ``"mlp"`` flatten the
        images.
    steps : int
        Number of updates.
    labelled_batch : int
        Labeled examples in a step.
    unlabelled_ratio : int
        Unlabeled examples in a step for each labeled one (mu).
    threshold : float
        A weakly augmented example gets a pseudo-label if its largest probability is at least this.
    unlabelled_weight : float
        Of the loss on pseudo-labels (lambda_u); 0 is supervised training.
    learning_rate : float
        Of the first step, positive; times FixMatch's cos(7 pi k / (16 K)) in step k of K, which
        ends near 0.2.
    momentum : float
        Nesterov's, in [0, 1).
    weight_decay : float
        L2 penalty on all parameters.
    ema : float
        In [0, 1): decay of the moving average of the parameters, the model that is evaluated.  In
        step k = 0, 1, ... it is at most (1 + k) / (10 + k), so that the initial parameters are soon
        forgotten.
    weak, strong : {"digits", "photo"}
        Policies of :mod:`lib.training.augmentation`: how far images are shifted and distorted.
    seed : int
        Of initial parameters, batches and augmentation.
    device : str
        As PyTorch names it.
    """

    model: ModelSpec
    steps: int = 300
    labelled_batch: int = 32
    unlabelled_ratio: int = 3
    threshold: float = 0.95
    unlabelled_weight: float = 1.0
    learning_rate: float = 0.03
    momentum: float = 0.9
    weight_decay: float = 5e-4
    ema: float = 0.999
    weak: str = "digits"
    strong: str = "digits"
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self):
        model = self.model
        if not isinstance(model, ModelSpec):
            raise ValueError(f"model must be a ModelSpec, got {model!r}")
        if model.name == "roberta" or model.head != "plain" or model.dropout:
            raise ValueError(
                "model must be for images, with a plain head and no dropout, got"
                f" {model.name!r} with head {model.head!r} and dropout {model.dropout!r}"
            )
        require_int("steps", self.steps, at_least=1)
        require_int("labelled_batch", self.labelled_batch, at_least=1)
        require_int("unlabelled_ratio", self.unlabelled_ratio, at_least=1)
        require_finite("threshold", self.threshold, at_least=0, at_most=1)
        require_finite("unlabelled_weight", self.unlabelled_weight, at_least=0)
        require_finite("learning_rate", self.learning_rate, above=0)
        require_finite("momentum", self.momentum, at_least=0, below=1)
        require_finite("weight_decay", self.weight_decay, at_least=0)
        require_finite("ema", self.ema, at_least=0, below=1)
        require_choice("weak", self.weak, tuple(POLICIES))
        require_choice("strong", self.strong, tuple(POLICIES))
        require_int("seed", self.seed, at_least=0)
        try:
            torch.device(self.device)
        except (RuntimeError, TypeError):
            raise ValueError(
                f"device must be a device of PyTorch such as 'cpu', got {self.device!r}"
            ) from None

    @property
    def unlabelled_batch(self) -> int:
        """Unlabeled examples in a step."""
        return self.labelled_batch * self.unlabelled_ratio

    def learning_rates(self) -> npt.NDArray[np.float64]:
        """The learning rate of every step, shape (steps,)."""
        return self.learning_rate * np.cos(7 * np.pi / 16 * np.arange(self.steps) / self.steps)

    def ema_decays(self) -> npt.NDArray[np.float64]:
        """The decay of the moving average in every step, shape (steps,)."""
        k = np.arange(self.steps)
        return np.minimum(self.ema, (1 + k) / (10 + k))


@dataclass(frozen=True, eq=False)
class FixMatchResult:
    """What a training leaves behind.

    Attributes
    ----------
    config : FixMatch
        What was trained.
    logits : ndarray of float32, shape (m, classes)
        Of the averaged model, at the evaluation points.
    parameters : ndarray of float32, shape (p,)
        The averaged model's, flat, in PyTorch's order.
    seconds : float
        Duration; of the whole group divided by its size where many were trained together.
    pseudo_share : float
        Fraction of the unlabeled examples that got a pseudo-label in the last tenth of the steps.
    """

    config: FixMatch
    logits: npt.NDArray[np.float32]
    parameters: npt.NDArray[np.float32]
    seconds: float
    pseudo_share: float


def train_fixmatch(
    configs: Sequence[FixMatch],
    images: npt.ArrayLike,
    labels: npt.ArrayLike,
    rows: Sequence[npt.ArrayLike],
    unlabelled: npt.ArrayLike,
    evaluation: npt.ArrayLike,
    *,
    checkpoint: Checkpoint | None = None,
) -> list[FixMatchResult]:
    """Train many models by FixMatch, each with its own labeled rows.

    Parameters
    ----------
    configs : sequence of FixMatch
        One a model, equal but for the seeds, which must differ.
    images : array_like of float32, shape (n, channels, height, width)
        Values in [0, 1], shared by all models.
    labels : array_like of int, shape (n,)
        Classes.  A model reads those of its own rows alone.
    rows : sequence of array_like of int
        For each model its labeled rows, at least one.
    unlabelled : array_like of int
        Rows whose images are used without labels, by all models.
    evaluation : array_like of float32, shape (m, channels, height, width)
        Where the models are evaluated.
    checkpoint : lib.runs.Checkpoint, optional
        As for :func:`lib.training.train_many`.

    Returns
    -------
    list of FixMatchResult
        In the order of `configs`.

    Raises
    ------
    ValueError
        On bad input, before any work, or where other models were saved.
    TrainingDiverged
        If a model's parameters are not finite in the end.

    Notes
    -----
    Rows come in random order, shuffled anew when all were used; if there are fewer than a batch
    takes, each is drawn by itself, with replacement.  Pseudo-labels are those of the current model,
    not of the average.
    """
    configs = list(configs)
    _check_configs(configs)
    images = _images("images", images, configs[0].model)
    evaluation = _images("evaluation", evaluation, configs[0].model)
    if images.shape[1:] != evaluation.shape[1:]:
        raise ValueError(
            f"evaluation must hold images of shape {images.shape[1:]}, got {evaluation.shape[1:]}"
        )
    labels = as_classes("labels", labels, len(images))
    rows = list(rows)
    if len(rows) != len(configs):
        raise ValueError(
            f"rows must have one array per configuration ({len(configs)}), got {len(rows)}"
        )
    rows = [as_rows(f"rows[{i}]", each, len(images), least=1) for i, each in enumerate(rows)]
    unlabelled = as_rows("unlabelled", unlabelled, len(images), least=1)
    known = np.zeros(len(images), dtype=np.int64)  # what nobody may read stays 0
    for each in rows:
        mine = labels[each]
        known[each] = as_classes("labels", mine, len(mine), configs[0].model.classes)
    shared = _Shared(configs[0], images, known, unlabelled, evaluation)
    groups = _groups(configs[0], len(configs), images[0].size)
    checkpoint = Checkpoint() if checkpoint is None else checkpoint
    lock = threading.Lock()

    def one(group: range) -> list[FixMatchResult]:
        own = [rows[i] for i in group]
        saved = checkpoint.part(group[0])
        return _train_group([configs[i] for i in group], shared, own, lock, saved)

    before = torch.get_num_threads()
    threads = min(own_cores(), len(groups)) if shared.device.type == "cpu" else 1
    with ThreadPoolExecutor(threads) as pool:
        try:
            # Small products are not worth two threads, and their sums would depend on the number.
            lockstep = configs[0].model.name in _LOCKSTEP
            torch.set_num_threads(1 if lockstep else max(1, before // threads))
            found = [result for results in pool.map(one, groups) for result in results]
        finally:
            torch.set_num_threads(before)
    checkpoint.done()
    return found


def _check_configs(configs: list[FixMatch]) -> None:
    if not configs:
        raise ValueError("configs must hold at least one FixMatch, got none")
    seeds: set[int] = set()
    for config in configs:
        if not isinstance(config, FixMatch) or replace(config, seed=0) != replace(
            configs[0], seed=0
        ):
            raise ValueError(
                f"configs must be FixMatch configurations that are equal but for the seeds, got"
                f" {config!r} beside {configs[0]!r}"
            )
        if config.seed in seeds:
            raise ValueError(
                f"configs must have different seeds, but seed {config.seed} comes twice"
            )
        seeds.add(config.seed)


def _images(name: str, images: npt.ArrayLike, spec: ModelSpec) -> npt.NDArray[np.float32]:
    images = np.ascontiguousarray(images, dtype=np.float32)
    if images.ndim != 4 or not len(images) or min(images.shape[2:]) < 2 or not images.shape[1]:
        raise ValueError(
            f"{name} must be of shape (n, channels, height, width), with n of at least 1 and at"
            f" least 2 x 2 pixels, got {images.shape}"
        )
    fits = (
        math.prod(spec.inputs) == images[0].size
        if spec.name in _LOCKSTEP
        else tuple(spec.inputs) == images.shape[1:]
    )
    if not fits:
        raise ValueError(
            f"{name} must be images that fit model.inputs = {spec.inputs}, got {images.shape[1:]}"
        )
    if not (images.min() >= 0 and images.max() <= 1):  # NaN compares false
        raise ValueError(
            f"{name} must be in [0, 1], got values from {images.min()} to {images.max()}"
        )
    return images


def _groups(config: FixMatch, count: int, pixels: int) -> list[range]:
    """Which models advance together; it does not depend on the threads, nor does any rounding."""
    largest = 1
    if config.model.name in _LOCKSTEP:
        hidden = config.model.hidden if config.model.name == "mlp" else ()
        batch = config.labelled_batch + 2 * config.unlabelled_batch
        numbers = batch * (3 * pixels + 2 * sum(hidden) + 4 * config.model.classes)
        largest = max(1, _GROUP_BYTES // (4 * numbers))
        if torch.device(config.device).type != "cpu":
            largest = count
    parts = np.array_split(np.arange(count), math.ceil(count / largest))
    return [range(part[0], part[-1] + 1) for part in parts]


class _Shared:
    """What all models read, on the device."""

    def __init__(self, config: FixMatch, images, labels, unlabelled, evaluation):
        self.device = place(config.device)
        self.images = as_tensor(images).to(self.device)
        self.padded = _pad(self.images, POLICIES[config.weak])
        self.labels = torch.from_numpy(labels).to(self.device)
        self.unlabelled = unlabelled
        self.evaluation = as_tensor(evaluation).to(self.device)

    @cached_property
    def digest(self) -> str:
        """Of all that models read."""
        found = hashlib.sha256()
        for tensor in (self.images, self.labels, self.evaluation):
            found.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        found.update(np.ascontiguousarray(self.unlabelled).data)
        return found.hexdigest()

    def batch(
        self, config: FixMatch, rows: torch.Tensor, draws: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One step's images (models, labeled + 2 unlabeled, c, h, w), labels of the first ones.

        From rows (models, labeled + unlabeled) and uniform numbers (models, numbers): labeled
        images, strongly augmented ones and, in the same order, weakly augmented ones.
        """
        models, total = rows.shape
        labelled = config.labelled_batch
        split = total * _WEAK_NUMBERS
        # Of each model's images, in a row:
        #
        #     rows     | labeled | unlabeled |           all of them weakly augmented
        #     inputs   | labeled, weak | unlabeled, strong | unlabeled, weak |
        #
        # The strong and the weak version of an image stand at the same place of their parts: the
        # prediction on the weak one is the pseudo-label of the strong one.
        weak = _weak(
            self.padded,
            self.images.shape,
            rows.reshape(-1),
            POLICIES[config.weak],
            draws[:, :split].reshape(-1, _WEAK_NUMBERS),
        ).view(models, total, *self.images.shape[1:])
        strong = _strong(
            self.images[rows[:, labelled:].reshape(-1)],
            POLICIES[config.strong],
            draws[:, split:].reshape(-1, _STRONG_NUMBERS),
        ).view(models, total - labelled, *self.images.shape[1:])
        inputs = torch.cat([weak[:, :labelled], strong, weak[:, labelled:]], dim=1)
        return inputs, self.labels[rows[:, :labelled]]


class _Draws:
    """The random numbers of one model."""

    names = ("labelled", "unlabelled", "images")

    def __init__(self, config: FixMatch, rows: np.ndarray, unlabelled: np.ndarray):
        for k, name in enumerate(self.names):
            sequence = np.random.SeedSequence([config.seed, _PURPOSE, k])
            setattr(self, name, np.random.Generator(np.random.SFC64(sequence)))
        self.sources = {
            "labelled": _Rows(rows, config.labelled_batch),
            "unlabelled": _Rows(unlabelled, config.unlabelled_batch),
        }
        batch = config.labelled_batch + config.unlabelled_batch
        self._numbers = _WEAK_NUMBERS * batch + _STRONG_NUMBERS * config.unlabelled_batch

    def next(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows, shape (steps, batch), and uniform numbers of the next steps."""
        rows = [each.next(steps, getattr(self, name)) for name, each in self.sources.items()]
        numbers = self.images.random((steps, self._numbers), dtype=np.float32)
        return np.concatenate(rows, axis=1), numbers


class _Rows:
    """Rows in random order, shuffled anew when all were used."""

    def __init__(self, rows: np.ndarray, batch: int):
        self._rows, self._batch = rows, batch
        self.left = rows[:0]  # What was shuffled and not used yet

    def next(self, steps: int, stream: np.random.Generator) -> np.ndarray:
        count = steps * self._batch
        if len(self._rows) < self._batch:
            found = self._rows[stream.integers(0, len(self._rows), count)]
        else:
            # What is left of a shuffle comes first: every row is used once before any is used
            # again.
            parts = [self.left]
            missing = count - len(self.left)
            while missing > 0:
                parts.append(stream.permutation(self._rows))
                missing -= len(self._rows)
            found = np.concatenate(parts)
            found, self.left = found[:count], found[count:]
        return found.reshape(steps, self._batch)


def _train_group(
    configs: list[FixMatch],
    shared: _Shared,
    rows: list[np.ndarray],
    lock: threading.Lock,
    checkpoint: Checkpoint,
) -> list[FixMatchResult]:
    config, device = configs[0], shared.device
    with lock:  # making a model uses PyTorch's global generator, which is not for threads
        networks = [build_model(each.model, Streams(each.seed).model) for each in configs]
    with torch.no_grad():
        parameters = torch.stack([parameters_to_vector(n.parameters()) for n in networks])
    parameters = parameters.to(device)
    kind = _Lockstep if config.model.name in _LOCKSTEP else _Network
    engine = kind(config, networks[0].to(device), parameters)
    del networks
    average, velocity = parameters.clone(), torch.zeros_like(parameters)
    draws = [_Draws(c, r, shared.unlabelled) for c, r in zip(configs, rows, strict=True)]
    rates, decays = config.learning_rates(), config.ema_decays()
    last_tenth = config.steps - max(1, config.steps // 10)
    confident = torch.zeros(len(configs), device=device)
    state = (parameters, average, velocity, confident)
    saved = checkpoint, cache(lambda: _identity(configs, shared, rows)), draws, state
    begin, before = _resume(*saved)
    started = time.perf_counter() - before
    for start in range(begin, config.steps, _STEPS_AT_ONCE):
        if checkpoint.due:
            _save(*saved, start, started)
        count = min(_STEPS_AT_ONCE, config.steps - start)
        block = [each.next(count) for each in draws]
        block_rows, block_draws = (
            torch.from_numpy(np.stack(each, axis=1)).to(device) for each in zip(*block, strict=True)
        )
        for i in range(count):
            step = start + i
            inputs, targets = shared.batch(config, block_rows[i], block_draws[i])
            gradient, mask = engine.gradient(inputs, targets)
            _update(parameters, gradient, velocity, rates[step], config)
            # The moving average is the model that is evaluated, as in FixMatch.
            average.lerp_(parameters, 1 - decays[step])
            # How often a pseudo-label is sure enough, at the end of the training.
            if step >= last_tenth:
                confident += mask.mean(dim=1)
    if took_long(started):
        _save(*saved, config.steps, started)
    engine.load(average)
    logits = torch.cat(
        [engine.logits(part) for part in shared.evaluation.split(_EVALUATION_BATCH)], dim=1
    )
    average, logits = average.cpu().numpy(), logits.cpu().numpy()
    shares = (confident / (config.steps - last_tenth)).tolist()
    for each, row in zip(configs, average, strict=True):
        if not np.isfinite(row).all():
            raise TrainingDiverged(
                f"parameters are not finite with learning_rate = {each.learning_rate!r} (seed"
                f" {each.seed})"
            )
    seconds = (time.perf_counter() - started) / len(configs)
    return [
        FixMatchResult(each, logits[i].copy(), average[i].copy(), seconds, min(1.0, shares[i]))
        for i, each in enumerate(configs)
    ]


def _save(checkpoint, trainings, draws, state, step, started) -> None:
    arrays = {str(i): each.cpu().numpy() for i, each in enumerate(state)}
    for i, each in enumerate(draws):
        arrays |= {f"{name} {i}": source.left for name, source in each.sources.items()}
    save_state(checkpoint, trainings, draws, step, arrays, (), time.perf_counter() - started)


def _resume(checkpoint, trainings, draws, state) -> tuple[int, float]:
    """Set everything to what was saved and return how many steps and seconds that was."""
    found = load_state(checkpoint, trainings, draws)
    if found is None:
        return 0, 0.0
    step, arrays, _, seconds = found
    for i, each in enumerate(state):
        each.copy_(torch.from_numpy(arrays[str(i)]))
    for i, each in enumerate(draws):
        for name, source in each.sources.items():
            source.left = arrays[f"{name} {i}"]
    return step, seconds


def _identity(configs: list[FixMatch], shared: _Shared, rows: list[np.ndarray]) -> list[str]:
    digest = hashlib.sha256(shared.digest.encode())
    for each in rows:
        digest.update(each.data)
    return [*map(repr, configs), digest.hexdigest()]


def _update(
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    velocity: torch.Tensor,
    rate: float,
    config: FixMatch,
) -> None:
    """SGD with Nesterov's momentum as in torch.optim.SGD; all tensors but the gradient change."""
    gradient = gradient.add(parameters, alpha=config.weight_decay)
    # Nesterov's: the step is the gradient and, times the momentum, the new velocity.
    velocity.mul_(config.momentum).add_(gradient)
    parameters.add_(gradient.add_(velocity, alpha=config.momentum), alpha=-float(rate))
