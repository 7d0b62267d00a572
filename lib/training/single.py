"""One model at a time: DP-SGD by Opacus, with Poisson samples and noise of our streams.

Opacus computes per-example gradients and clips them; the samples and the standard normal numbers
come from :mod:`lib.training.randomness`, so that :func:`lib.training.train_many` can be given the
same and be compared step by step.
"""

import gc
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import special
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from lib.check import require_int
from lib.data.splits import as_classes
from lib.data.transforms import augment
from lib.privacy.accounting import PrivacyLedger
from lib.runs.checkpoint import Checkpoint
from lib.training import taps
from lib.training.checks import as_points, check_match
from lib.training.config import Plan, TrainingConfig, TrainingData, plan
from lib.training.memory import examples_at_once
from lib.training.models import build_model, check_private, parameter_count
from lib.training.objectives import DeepGamblers, SelectiveNet, SelfAdaptiveTraining
from lib.training.randomness import PoissonSampler, Streams
from lib.training.state import identity, load_state, save_state, spent, took_long
from lib.training.stem import forward
from lib.training.torch_settings import _seeded, _threads, autocast, place, settings

if TYPE_CHECKING:  # a training without canaries does not depend on their code
    from lib.audit.white_box.scores import CanaryScores
    from lib.training.canaries import CanarySession

EVALUATION_BATCH = 1024
_LARGE = 5e6  # parameters of a network that is not left to the garbage collector
_SMOOTH = 1e-3  # of an adversarial direction's mean size: below it a sign fades to 0


class TrainingDiverged(RuntimeError):
    """Parameters became infinite or NaN."""


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What a training leaves behind.

    Attributes
    ----------
    config : TrainingConfig
        What was trained.
    plan : Plan
        Sampling rate, noise multiplier and delta.
    ledger : PrivacyLedger
        Privacy spent by this training alone.
    logits : ndarray of float32, shape (n_evaluation, classes)
        Of the final model.
    checkpoints : ndarray, shape (t, n_evaluation), (t, n_evaluation, classes) or (t, p)
        Of the intermediate models, the final one last: predicted labels, class probabilities or
        parameters, as ``config.keep`` says.
    parameters : ndarray of float32, shape (p,)
        The final model's, flat, in PyTorch's order.
    seconds : float
        Duration, that before a kill included; of the whole group divided by its size where many
        were trained together.
    engine : str
        ``"opacus"``, ``"taps"``, ``"autograd"`` (no privacy, hence no per-example gradients),
        ``"kernel"`` or ``"batched"``.
    canaries : lib.audit.white_box.CanaryScores, optional
        What the canaries of :func:`lib.training.train_audited` leave to the auditor: not to be
        released.
    """

    config: TrainingConfig
    plan: Plan
    ledger: PrivacyLedger
    logits: npt.NDArray[np.float32]
    checkpoints: npt.NDArray
    parameters: npt.NDArray[np.float32]
    seconds: float
    engine: str
    canaries: "CanaryScores | None" = None

    @property
    def probabilities(self) -> npt.NDArray[np.float32]:
        """Softmax of the logits."""
        return special.softmax(self.logits, axis=-1)

    @property
    def epsilon(self) -> float:
        """What this training alone spent at ``plan.delta``, by ``config.accountant``."""
        return self.ledger.epsilon(self.plan.delta, self.config.accountant)

    def accuracy(self, labels: npt.ArrayLike) -> float:
        """Fraction of the evaluation points that the final model classifies correctly."""
        labels = as_classes("labels", labels, *self.logits.shape)
        return float(np.mean(self.logits.argmax(1) == labels))


def train(
    config: TrainingConfig,
    data: TrainingData,
    evaluation: npt.ArrayLike,
    *,
    checkpoint: Checkpoint | None = None,
    save_every: int | None = None,
) -> TrainingResult:
    """Train one model.

    Parameters
    ----------
    config : TrainingConfig
        The training.
    data : TrainingData
        What it reads, and what the privacy guarantee is about.
    evaluation : array_like of float, shape (n_evaluation, ...)
        Points that the final and the intermediate models are evaluated on.
    checkpoint : lib.runs.Checkpoint, optional
        Where the state is saved, and resumed from if there is one: an interrupted training goes on
        with the same random numbers to the same result and the same privacy spent.  It is not
        private (:class:`lib.runs.Checkpoint`), and removed when the training is done.
    save_every : int, optional
        Steps between two saves; by default half a minute passes between them.

    Raises
    ------
    ValueError
        On bad input or the checkpoint of another training, before any work.
    TrainingDiverged
        If parameters are not finite at a checkpoint.

    Examples
    --------
    >>> result = train(config, data, inputs[200:])
    >>> result.logits.shape, result.epsilon <= 8.0, result.accuracy(labels[200:]) > 0.5
    ((100, 3), True, True)
    """
    if save_every is not None:
        require_int("save_every", save_every, at_least=1)
    evaluation = as_points("evaluation", evaluation, data.inputs.shape[1:])
    check_match(config, data)
    checkpoint = Checkpoint() if checkpoint is None else checkpoint
    result = trained(config, data, evaluation, plan(config, len(data)), checkpoint, save_every)
    checkpoint.done()
    return result


def trained(
    config: TrainingConfig,
    data: TrainingData,
    evaluation: np.ndarray,
    mechanism: Plan,
    checkpoint: Checkpoint,
    save_every: int | None = None,
    canaries: "CanarySession | None" = None,
) -> TrainingResult:
    """As :func:`train`, of what was checked; what was saved stays."""
    with settings(config), _threads(config):
        trainer = Trainer(config, data, evaluation, mechanism, canaries=canaries)
        trainer.run(checkpoint, save_every)
        result = trainer.result()
    del trainer
    if parameter_count(config.model) > _LARGE:
        gc.collect()  # Opacus' hooks and their network hold each other, with all its gradients
    return result


class Trainer:
    """The state of one training and how to advance it by a step."""

    def __init__(self, config, data, evaluation, mechanism, mode=None, *, canaries=None):
        mode = config.grad_sample_mode if mode is None else mode
        self.engine = "autograd"
        if config.private:
            self.engine = "taps" if mode == "taps" else "opacus"
        self.started = time.perf_counter()  # moved back by what a resumed training took before
        self.config, self.data, self.mechanism = config, data, mechanism
        self.canaries = canaries
        label = self.engine if canaries is None else f"{self.engine} {canaries.label}"
        own = label, [(config, data, mechanism)], evaluation
        self.identity = cache(lambda: identity(*own))
        self.streams = Streams(config.seed)
        records = len(data) + (0 if canaries is None else len(canaries.inside))
        self.sampler = PoissonSampler(self.streams, records, mechanism.sample_rate)
        self.device = place(config.device)
        self.inputs = as_tensor(data.inputs).to(self.device)
        self.targets = as_tensor(data.targets).to(self.device)
        self.evaluation = torch.from_numpy(evaluation).to(self.device)
        model = initial_network(config).to(self.device)
        optimizer = torch.optim.SGD(
            model.parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        )
        if config.private:
            check_private(model)
        if self.engine == "taps" and not taps.supports(model):
            raise ValueError(
                f"grad_sample_mode 'taps' does not know all layers of {config.model.name!r}"
            )
        if self.engine == "opacus":
            from opacus.grad_sample.utils import wrap_model

            from lib.training.by_opacus import _GivenNoise

            self.model = wrap_model(model, grad_sample_mode=mode, loss_reduction="sum")
            self.optimizer = _GivenNoise(
                optimizer,
                noise_multiplier=mechanism.noise_multiplier,
                max_grad_norm=config.clipping_norm,
                expected_batch_size=config.batch_size,
                loss_reduction="sum",
            )
            if self.canaries is not None:
                self.canaries.attach(self.optimizer, divided_by=config.batch_size)
        else:
            self.model, self.optimizer = model, optimizer
        self.network = model
        self.size = sum(p.numel() for p in model.parameters())
        self.rates = config.learning_rates()
        self.fitting = examples_at_once(config, self.device)
        self.step = 0
        self.kept: list[np.ndarray] = []
        self.made: dict[str, tuple[int, np.ndarray]] = {}
        self.memory = None  # SAT's moving averages, one row per training example: never released
        if isinstance(config.objective, SelfAdaptiveTraining):
            self.memory = config.objective.initial_state(
                self.targets[as_tensor(data.rows)], config.model.classes
            )

    def advance(self) -> None:
        """Take a step."""
        config, step = self.config, self.step
        positions, _ = self.sampler.draw(1)
        if self.canaries is not None:  # the last of the records
            at = np.searchsorted(positions, len(self.data))
            self.canaries.take(positions[at:] - len(self.data))
            positions = positions[:at]
        self.model.train()
        self.optimizer.zero_grad()
        for group in self.optimizer.param_groups:
            group["lr"] = float(self.rates[step])
        with _seeded(self.streams.step(step), self.device, config):
            self._gradients(positions)
        if self.engine == "opacus":
            self.optimizer.normals = self._noise()
        self.optimizer.step()
        self.step += 1
        if self.step in self.config.checkpoint_steps:
            self._keep()

    def _noise(self) -> torch.Tensor:
        return noise_of(self.config, self.streams, self.step, self.size, self.device)

    def _gradients(self, positions: np.ndarray) -> None:
        config = self.config
        chunks = self._chunks(positions)
        constants = self._statistics(chunks) if isinstance(config.objective, SelectiveNet) else None
        # An empty sample is a step, too: its gradient is the noise alone.
        if not len(positions) and self.engine != "taps":
            for p in self.network.parameters():
                p.grad = torch.zeros_like(p)
                if config.private:
                    p.grad_sample = p.new_zeros((0, *p.shape))
            return
        total = torch.zeros(self.size, device=self.device)
        copies = config.copies
        for number, chunk in enumerate(chunks):
            inputs, targets = self._examples(chunk)
            if config.adversarial:
                inputs = self._with_twins(inputs, targets)
            if copies > 1:
                targets = targets.repeat_interleave(copies, dim=0)
            state = constants
            if isinstance(config.objective, DeepGamblers):
                state = config.objective.state(self.step)
            if self.memory is not None:
                state = config.objective.state(self.memory, chunk, self.step)
                if copies > 1 and state is not None:
                    state = state.repeat_interleave(copies, dim=0)
            if self.engine == "taps":
                loss = partial(config.objective.per_example, targets=targets, state=state)
                with autocast(config, self.device):
                    gradient, outputs = taps.clipped_sum(
                        self.network, inputs, loss, config.clipping_norm, copies
                    )
                total += gradient
            else:
                outputs = self._outputs(inputs)
                losses = config.objective.per_example(outputs, targets, state)
            if self.engine == "opacus":
                # A mean would make every example's rounding depend on the size of the batch.
                losses.sum().backward()
                if copies > 1:
                    for p in self.network.parameters():
                        g = p.grad_sample
                        p.grad_sample = g.view(len(chunk), copies, *p.shape).mean(dim=1)
                if number < len(chunks) - 1:
                    self.optimizer.signal_skip_step(do_skip=True)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
            elif self.engine == "autograd":
                (losses.sum() / (copies * config.batch_size)).backward()
            if self.memory is not None:
                # An example's average moves by the mean over its augmented copies.
                rows = outputs.detach().view(len(chunk), copies, -1).mean(dim=1)
                config.objective.update(self.memory, chunk, rows, self.step)
        if self.engine == "taps":
            self._release(total)

    def _release(self, total: torch.Tensor) -> None:
        """DP-SGD in a line: the sum of clipped gradients, noise in proportion to the clipping norm.

        Divided by the expected size of the sample.
        """
        if self.canaries is not None:
            total = self.canaries.join(total)
        scale = self.mechanism.noise_multiplier * self.config.clipping_norm
        noisy = total + scale * self._noise()
        if self.canaries is not None:
            self.canaries.read(noisy)
        vector, start = noisy / self.config.batch_size, 0
        for p in self.network.parameters():
            p.grad = vector[start : start + p.numel()].view_as(p)
            start += p.numel()

    def _outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        with autocast(self.config, self.device):
            if self.engine == "opacus":  # which must see the passes of all layers
                return self.model(inputs).float()
            return forward(self.network, inputs).float()

    def _chunks(self, positions: np.ndarray) -> list[torch.Tensor]:
        largest = max(1, len(positions))
        largest = self.config.physical_batch or int(min(self.fitting, largest))
        if self.engine == "autograd" and self.device.type == "cpu":
            largest = min(largest, taps.ROWS)
        pieces = [positions[i : i + largest] for i in range(0, len(positions), largest)]
        return [torch.from_numpy(piece).to(self.device) for piece in pieces]

    def _examples(self, chunk: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.as_tensor(self.data.rows[chunk.cpu().numpy()], device=self.device)
        inputs, extra = self.inputs[rows], self.config.augmentation
        if extra is not None:
            if extra.multiplicity > 1:
                inputs = inputs.repeat_interleave(extra.multiplicity, dim=0)
            generator = torch.Generator(device=self.device)
            # Of the step and of the piece: pieces of one sample are shifted by different numbers.
            generator.manual_seed(self.streams.step(self.step) ^ int(chunk[0]))
            inputs = augment(inputs, generator, flip=extra.flip, crop_padding=extra.crop_padding)
        return inputs, self.targets[rows]

    def _with_twins(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Inputs, each followed by itself moved to where its loss grows."""
        if self.engine == "opacus":
            self.model.disable_hooks()  # these gradients are of the inputs
        inputs = inputs.detach().requires_grad_()
        labels = targets.repeat_interleave(len(inputs) // len(targets), dim=0)
        with autocast(self.config, self.device):
            outputs = self.network(inputs).float()
        losses = self.config.objective.per_example(outputs, labels)
        (slope,) = torch.autograd.grad(losses.sum(), inputs)
        if self.engine == "opacus":
            self.model.enable_hooks()
        size = slope.abs()
        level = size.mean(dim=tuple(range(1, size.ndim)), keepdim=True)
        # The sign, made smooth: where a component's slope is far below the mean one, its sign would
        # be decided by rounding.
        sign = slope / (size + _SMOOTH * level + torch.finfo(size.dtype).tiny)
        pairs = torch.stack([inputs, inputs + self.config.adversarial * sign], dim=1)
        return pairs.detach().flatten(0, 1)

    def _statistics(self, chunks: list[torch.Tensor]) -> Any:
        """SelectiveNet's batch statistics, released with noise where training is private."""
        config = self.config
        sums = torch.zeros(2, device=self.device)
        copies = config.copies
        with torch.no_grad(), autocast(config, self.device):
            for chunk in chunks:
                inputs, targets = self._examples(chunk)
                if copies > 1:  # the mean over an example's copies: the sensitivity stays
                    targets = targets.repeat_interleave(copies, dim=0)
                outputs = forward(self.network, inputs).float()
                sums += config.objective.statistics(outputs, targets) / copies
        noise = config.objective.statistic_noise if config.private else 0.0
        count = config.batch_size if config.private else max(1, sum(len(c) for c in chunks))
        normals = torch.from_numpy(self.streams.statistics.standard_normal(2, dtype=np.float32))
        return config.objective.noisy_constants(sums, count, noise, normals.to(self.device))

    def _keep(self) -> None:
        parameters = self.parameters()
        _check_finite(parameters, self.config, self.step)
        if self.config.keep == "weights":
            self.kept.append(parameters)
        else:
            self.kept.append(summarise(self.evaluate(), self.config.keep))

    def result(self) -> TrainingResult:
        """What the finished training leaves behind."""
        return TrainingResult(
            config=self.config,
            plan=self.mechanism,
            ledger=spent(self.config, self.mechanism, self.step),
            logits=self.evaluate(),
            checkpoints=np.stack(self.kept),
            parameters=self.parameters(),
            seconds=time.perf_counter() - self.started,
            engine=self.engine,
            canaries=None if self.canaries is None else self.canaries.recorder.scores(),
        )

    def _once(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """What is made once a step: the last model is a checkpoint, a save and the result."""
        if self.made.get(name, (-1,))[0] != self.step:
            self.made[name] = self.step, make()
        return self.made[name][1]

    def evaluate(self) -> np.ndarray:
        """Logits of the present model at the evaluation points."""
        return self._once("outputs", lambda: evaluate(self.network, self.config, self.evaluation))

    @torch.no_grad()
    def parameters(self) -> np.ndarray:
        """The present model's, flat."""
        every = self.network.parameters()
        return self._once("vector", lambda: parameters_to_vector(every).cpu().numpy())

    def save(self, checkpoint: Checkpoint) -> None:
        """Save the state."""
        arrays = {"parameters": self.parameters(), "velocity": self._velocity()}
        if self.memory is not None and self.step < self.config.steps:
            arrays["memory"] = self.memory.cpu().numpy()
        if self.canaries is not None:
            seen = self.canaries.recorder.state()
            arrays |= {f"canaries_{name}": array for name, array in seen.items()}
        seconds = time.perf_counter() - self.started
        save_state(checkpoint, self.identity, [self.streams], self.step, arrays, self.kept, seconds)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a saved state, if there is one."""
        found = load_state(checkpoint, self.identity, [self.streams])
        if found is None:
            return
        self.step, arrays, self.kept, seconds = found
        self.started -= seconds
        with torch.no_grad():
            vector = torch.from_numpy(arrays["parameters"]).to(self.device)
            vector_to_parameters(vector, self.network.parameters())
        self._restore_velocity(arrays["velocity"])
        if "memory" in arrays:
            self.memory = torch.from_numpy(arrays["memory"]).to(self.device)
        if self.canaries is not None:
            seen = {name.removeprefix("canaries_"): array for name, array in arrays.items()}
            self.canaries.recorder.restore(seen)

    def run(self, checkpoint: Checkpoint, save_every: int | None = None) -> None:
        """Take all steps that are left, saving every so many of them or when it is due."""
        self.resume(checkpoint)
        started = time.perf_counter()
        while self.step < self.config.steps:
            self.advance()
            wanted = checkpoint.due if save_every is None else self.step % save_every == 0
            if wanted and self.step < self.config.steps:
                self.save(checkpoint)
        if took_long(started):
            self.save(checkpoint)

    def _torch_optimizer(self) -> torch.optim.Optimizer:
        return self.optimizer.original_optimizer if self.engine == "opacus" else self.optimizer

    def _velocity(self) -> np.ndarray:
        state = self._torch_optimizer().state
        parts = [
            state[p].get("momentum_buffer") if p in state else None
            for p in self.network.parameters()
        ]
        if any(part is None for part in parts):
            return np.zeros(0, np.float32)
        return torch.cat([part.reshape(-1) for part in parts]).cpu().numpy()

    def _restore_velocity(self, velocity: np.ndarray) -> None:
        if not len(velocity):
            return
        start, state = 0, self._torch_optimizer().state
        for p in self.network.parameters():
            part = torch.from_numpy(velocity[start : start + p.numel()].copy())
            state[p]["momentum_buffer"] = part.view_as(p).to(self.device)
            start += p.numel()


def noise_of(
    config: TrainingConfig, streams: Streams, step: int, size: int, device: torch.device
) -> torch.Tensor:
    """Standard normal numbers of one step; none without privacy."""
    if not config.private:
        return torch.zeros(size, device=device)
    if config.noise_source == "device":
        return device_noise(streams, step, size, device)
    return torch.from_numpy(streams.noise.standard_normal(size, dtype=np.float32)).to(device)


def device_noise(streams: Streams, step: int, size: int, device: torch.device) -> torch.Tensor:
    """Standard normal numbers of one step, drawn on the device (for large models)."""
    if device.type == "cpu":  # PyTorch's generator uses 32 bits of a seed there: steps would repeat
        stream = np.random.Generator(np.random.SFC64(streams.step_noise(step)))
        return torch.from_numpy(stream.standard_normal(size, dtype=np.float32))
    generator = torch.Generator(device=device)
    generator.manual_seed(streams.step_noise(step))
    return torch.randn(size, generator=generator, device=device)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor on the same memory, which nobody writes to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def evaluate(
    network: torch.nn.Module, config: TrainingConfig, points: torch.Tensor
) -> npt.NDArray[np.float32]:
    """Logits of the underlying classifier, dropout off."""
    network.eval()
    with torch.no_grad(), autocast(config, points.device):
        parts = [
            config.objective.logits(forward(network, part).float())
            for part in points.split(EVALUATION_BATCH)
        ]
    return torch.cat(parts).cpu().numpy()


def initial_network(config: TrainingConfig) -> torch.nn.Module:
    """The network that a training starts from, on the CPU, in training mode."""
    network = build_model(config.model, Streams(config.seed).model)
    if isinstance(config.objective, SelectiveNet):
        with torch.no_grad():
            network[-1].bias[-1] = config.objective.first_logit
    return network


def module_of(result: TrainingResult) -> torch.nn.Module:
    """The trained network, on the CPU, in evaluation mode."""
    network = build_model(result.config.model, 0)
    with torch.no_grad():
        vector_to_parameters(torch.from_numpy(result.parameters.copy()), network.parameters())
    return network.eval()


def summarise(logits: np.ndarray, keep: str) -> np.ndarray:
    """What is kept of an intermediate model's logits."""
    if keep == "probabilities":
        return special.softmax(logits, axis=-1)
    small = np.uint8 if logits.shape[-1] <= 256 else np.int32
    return logits.argmax(axis=-1).astype(small)


def _check_finite(params: np.ndarray, config: TrainingConfig, step: int) -> None:
    if not np.isfinite(params).all():
        raise TrainingDiverged(
            f"parameters are not finite after step {step} with learning_rate ="
            f" {config.learning_rate!r} (seed {config.seed})"
        )
