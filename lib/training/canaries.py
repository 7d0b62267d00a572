"""Gradient canaries in a training: what they add to a step's sum, and what is read from it.

Kept apart from :mod:`lib.audit.white_box`, whose formulas load no PyTorch.  Directions are a few
coordinates each, so that a step costs a gather and a scatter, not a product with a matrix.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from lib.audit.white_box.directions import GradientCanaries
from lib.audit.white_box.scores import CanaryRecorder, CanaryScores
from lib.check import require_finite, require_int
from lib.runs.checkpoint import Checkpoint
from lib.training import clipping
from lib.training.checks import as_points, check_match
from lib.training.config import TrainingConfig, TrainingData, plan
from lib.training.models import parameter_count
from lib.training.objectives import SelectiveNet
from lib.training.single import TrainingResult, trained
from lib.training.torch_settings import place

if TYPE_CHECKING:
    from opacus.optimizers import DPOptimizer

# Numbers of canaries' gradients that are written out together: in a CPU's cache, or not too many.
_IN_CACHE, _AT_ONCE = 1 << 20, 1 << 26


class CanarySession:
    """The canaries of one training run, step by step.

    A step calls, in this order, :meth:`take` (who takes part), :meth:`join` or :meth:`note` and
    :meth:`rows` (the sum of the others, and what comes on top), and :meth:`read`.
    """

    def __init__(
        self,
        canaries: GradientCanaries,
        size: int,
        *,
        clipping_norm: float,
        noise_multiplier: float,
        sample_rate: float,
        device: torch.device | str = "cpu",
    ):
        if not isinstance(canaries, GradientCanaries):
            raise ValueError(f"canaries must be GradientCanaries, got {canaries!r}")
        self.label = repr(canaries)
        directions = canaries.directions(size)
        self.inside = np.flatnonzero(canaries.coins())
        self.recorder = CanaryRecorder(canaries.coins(), noise_multiplier, sample_rate)
        self.clipping_norm, self.size = clipping_norm, size
        self._places = torch.from_numpy(directions.places).to(device)
        unit = directions.signs / np.sqrt(canaries.width)
        self._unit = torch.from_numpy(unit.astype(np.float32)).to(device)
        self._given = canaries.times * clipping_norm * self._unit  # their gradients
        self._took = np.zeros(canaries.number, bool)
        self._others: torch.Tensor | None = None

    def take(self, which: np.ndarray) -> None:
        """Those that take part in the step, as places among those that are in."""
        self._took[:] = False
        self._took[self.inside[which]] = True

    def note(self, total: torch.Tensor) -> None:
        """Keep what the sum (p,) of all other records reaches along the directions."""
        self._others = self._along(total)

    def join(self, total: torch.Tensor) -> torch.Tensor:
        """The sum (p,) of clipped gradients with the canaries', clipped by the same rule."""
        self.note(total)
        rows = self._rows()
        given = self._given[rows]
        factor, _ = clipping.of_norms(torch.linalg.vector_norm(given, dim=1), self.clipping_norm)
        added = (factor[:, None] * given).flatten().to(total.dtype)  # which may be of another type
        return total.index_add(0, self._places[rows].flatten(), added)

    def rows(self) -> Iterator[torch.Tensor]:
        """The gradients (n, p) of those that take part, not clipped, some at a time."""
        rows, numbers = self._rows(), _IN_CACHE if self._unit.device.type == "cpu" else _AT_ONCE
        for start in range(0, len(rows), at_once := max(1, numbers // self.size)):
            some = rows[start : start + at_once]
            dense = self._unit.new_zeros(len(some), self.size)
            yield dense.scatter_(1, self._places[some], self._given[some])

    def read(self, noisy: torch.Tensor) -> None:
        """Take in the noisy sum (p,) that the step releases."""
        released, others = self._along(noisy), self._others
        self.recorder.add(
            (released / self.clipping_norm).cpu().numpy(),
            ((released - others) / self.clipping_norm).cpu().numpy(),
            self._took,
        )

    def attach(
        self, optimizer: Any, *, before: Callable[[], None] = lambda: None, divided_by: float = 1.0
    ) -> Callable[[], None]:
        """Take part in the steps of an optimizer of Opacus; returns how to undo it.

        `before` is called in each step before canaries join; `divided_by` is what the optimizer
        divides the noisy sum by when it adds the noise.
        """
        ghost = _is_ghost(optimizer)
        gather = "accumulate" if ghost else "clip_and_accumulate"
        own, scale = getattr(optimizer, gather), optimizer.scale_grad
        claimed = optimizer.noise_multiplier, optimizer.max_grad_norm

        def flat(name: str) -> torch.Tensor:
            return torch.cat([getattr(p, name).detach().flatten() for p in optimizer.params])

        def gathered() -> None:
            own()
            if optimizer._check_skip_next_step(pop_next=False):
                return  # more of this step's sample comes
            if (optimizer.noise_multiplier, optimizer.max_grad_norm) != claimed:
                raise ValueError(
                    "noise_multiplier and max_grad_norm must stay what they were when canaries were"
                    f" added, {claimed[0]:g} and {claimed[1]:g}, got"
                    f" {optimizer.noise_multiplier:g} and {optimizer.max_grad_norm:g}"
                )
            before()
            if ghost:
                _put(optimizer.params, "summed_grad", self.join(flat("summed_grad")))
                return
            self.note(flat("summed_grad"))
            kept = [p.grad_sample for p in optimizer.params]
            for rows in self.rows():
                _put(optimizer.params, "grad_sample", rows)
                own()
            for p, each in zip(optimizer.params, kept, strict=True):
                p.grad_sample = each

        def scaled() -> None:
            self.read(divided_by * flat("grad"))
            scale()

        setattr(optimizer, gather, gathered)
        optimizer.scale_grad = scaled

        def undo() -> None:
            for name in (gather, "scale_grad"):
                vars(optimizer).pop(name, None)

        return undo

    def _rows(self) -> torch.Tensor:
        return torch.from_numpy(np.flatnonzero(self._took)).to(self._places.device)

    def _along(self, vector: torch.Tensor) -> torch.Tensor:
        return (vector[self._places] * self._unit).sum(dim=1)


def train_audited(
    config: TrainingConfig,
    data: TrainingData,
    evaluation: npt.ArrayLike,
    canaries: GradientCanaries,
    *,
    checkpoint: Checkpoint | None = None,
    save_every: int | None = None,
) -> TrainingResult:
    """Train one model with gradient canaries among its records.

    Parameters
    ----------
    config : TrainingConfig
        Of a private training.  Not with :class:`SelectiveNet`, whose batch statistics canaries have
        no part in.
    data, evaluation, checkpoint, save_every
        As for :func:`train`.
    canaries : lib.audit.white_box.GradientCanaries
        Those that are in take part in the Poisson samples as all other records do.  The noise stays
        the same, and so does what is accounted.  By :mod:`lib.training.taps` a canary is clipped by
        the rule of :mod:`lib.training.clipping`; by Opacus, as a piece of the sample, by the
        optimizer itself.

    Returns
    -------
    TrainingResult
        With `canaries`: coins and scores.

    Raises
    ------
    ValueError
        On bad input, such as more canaries than parameters, before any work.
    TrainingDiverged
        If parameters are not finite at a checkpoint.

    Notes
    -----
    *Cost.*  5,000 canaries take 0.5 to 0.8 ms of a processor in each step, whatever its sample: of
    the small CNN by taps 7 to 10% with 128 records a step, and 15 to 20% with 36.  A likelihood
    ratio for each canary and adversary is half of it.  Single precision would be faster, but its
    rounding differs between machines in digits that a ranking sees.  ``benchmarks/test_speed.py``
    measures.

    *The compiled engine* has no canaries: it takes many steps in one call that hands out no sum,
    and to change that code would make every stored training anew.

    Examples
    --------
    >>> from lib.audit.white_box import GradientCanaries, statements
    >>> result = train_audited(config, data, inputs[200:], GradientCanaries(12, seed=7))
    >>> result.canaries.coins.shape, result.epsilon <= 8.0
    ((12,), True)
    >>> statements(result.canaries, delta=1e-5).one_run  # twelve canaries show nothing
    0.0
    """
    if save_every is not None:
        require_int("save_every", save_every, at_least=1)
    if not isinstance(canaries, GradientCanaries):
        raise ValueError(f"canaries must be GradientCanaries, got {canaries!r}")
    if not config.private or isinstance(config.objective, SelectiveNet):
        kind = "SelectiveNet" if config.private else "training without privacy"
        raise ValueError(f"config must be of a private training, for canaries, got {kind}")
    evaluation = as_points("evaluation", evaluation, data.inputs.shape[1:])
    check_match(config, data)
    mechanism = plan(config, len(data))
    session = CanarySession(
        canaries,
        parameter_count(config.model),
        clipping_norm=config.clipping_norm,
        noise_multiplier=mechanism.noise_multiplier,
        sample_rate=mechanism.sample_rate,
        device=place(config.device),
    )
    checkpoint = Checkpoint() if checkpoint is None else checkpoint
    result = trained(config, data, evaluation, mechanism, checkpoint, save_every, session)
    checkpoint.done()
    return result


class OpacusCanaries:
    """Gradient canaries in a training by Opacus: one line after ``make_private``.

    The optimizer stays what it is.  When the last piece of a step's sample has been clipped, the
    canaries that take part are clipped after it, as a piece of their own, by the optimizer's own
    code; before the noisy sum is scaled it is read.

    Parameters
    ----------
    optimizer : opacus.optimizers.DPOptimizer
        As ``PrivacyEngine.make_private`` returns it: with flat clipping, or with fast gradient or
        ghost clipping.  The latter clips in the loss, which canaries do not pass: they come in
        clipped, and test its noise alone.
    canaries : GradientCanaries
        How many, and their seed: not a seed of the training.
    sample_rate : float
        Probability of a record in a step, in (0, 1], as the accountant has it:
        ``1 / len(data_loader)`` of the loader that ``make_private`` returns.  Canaries draw their
        own samples at this rate, since the data loader does not know them: that the loader keeps
        it is not tested, and the rate and `p_sampling` of
        :func:`lib.audit.white_box.step_audit` are those of the canaries alone.

    Raises
    ------
    ValueError
        If canaries overlap or are too many, if the optimizer is of another kind, or in a step
        before which its noise or clipping norm was changed.

    Notes
    -----
    Canaries are records: what the accountant says of the training covers them, too, and what it
    says of the others does not change.  They do change the model a little.  Where a step takes
    several batches of the loader, its records come at a multiple of the rate, and canaries do not:
    the audit then shows less, never more.
    """

    def __init__(self, optimizer: "DPOptimizer", canaries: GradientCanaries, sample_rate: float):
        require_finite("sample_rate", sample_rate, above=0, at_most=1)
        if not isinstance(canaries, GradientCanaries):
            raise ValueError(f"canaries must be GradientCanaries, got {canaries!r}")
        _check_optimizer(optimizer)
        rng = canaries.sampler()
        parameters = list(optimizer.params)
        session = CanarySession(
            canaries,
            sum(p.numel() for p in parameters),
            clipping_norm=float(optimizer.max_grad_norm),
            noise_multiplier=float(optimizer.noise_multiplier),
            sample_rate=sample_rate,
            device=parameters[0].device,
        )
        count = len(session.inside)
        self._session = session
        self._detach = session.attach(
            optimizer, before=lambda: session.take(np.flatnonzero(rng.random(count) < sample_rate))
        )

    def scores(self) -> CanaryScores:
        """Coins and scores so far, for :func:`lib.audit.white_box.statements`."""
        return self._session.recorder.scores()

    def remove(self) -> None:
        """Give the optimizer its own methods back."""
        self._detach()


def _put(parameters: list, name: str, values: torch.Tensor) -> None:
    """Give each parameter its columns of flat rows (..., p)."""
    parts = values.split([p.numel() for p in parameters], dim=-1)
    for p, part in zip(parameters, parts, strict=True):
        setattr(p, name, part.reshape(*values.shape[:-1], *p.shape))


def _is_ghost(optimizer: Any) -> bool:
    from opacus.optimizers import DPOptimizerFastGradientClipping

    return isinstance(optimizer, DPOptimizerFastGradientClipping)


def _check_optimizer(optimizer: Any) -> None:
    from opacus import optimizers

    known = type(optimizer) in (optimizers.DPOptimizer, optimizers.DPOptimizerFastGradientClipping)
    if not known:
        raise ValueError(
            "optimizer must be a DPOptimizer or DPOptimizerFastGradientClipping of Opacus, as"
            " make_private returns it for flat or ghost clipping on one device, got"
            f" {type(optimizer).__name__}"
        )
    if "scale_grad" in vars(optimizer):
        raise ValueError("optimizer must have no canaries yet, got one that has some")
