"""Training objectives as losses of single examples, which is what DP-SGD needs.

DP-SGD clips the gradient of one example's loss.  That bounds the influence of an example only if
no other example's loss depends on it.  Each objective here says how it keeps to that.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional

from lib.check import require_finite, require_int


def _cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, targets, reduction="none")


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    log_p = torch.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy with entropy regularization: l_i = -log p_i(y_i) + entropy * H(p_i).

    Targets are classes, or distributions over classes (label-DP targets).  Each loss depends on
    its own example alone.

    Attributes
    ----------
    entropy : float
        Weight of the entropy of the prediction, which is *minimized*, after Feng et al. (2023);
        P1, appendix B.1, has 0.01.
    """

    entropy: float = 0.0
    model_head: ClassVar[str] = "plain"

    def __post_init__(self):
        require_finite("entropy", self.entropy, at_least=0)

    def per_example(
        self, outputs: torch.Tensor, targets: torch.Tensor, state: None = None
    ) -> torch.Tensor:
        """Losses, shape (b,), of outputs (b, classes) and targets (b,) or (b, classes)."""
        losses = _cross_entropy(outputs, targets)
        return losses + self.entropy * _entropy(outputs) if self.entropy else losses

    def logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of the underlying classifier: the outputs themselves."""
        return outputs


@dataclass(frozen=True)
class PosteriorTargets:
    """Cross-entropy with the posterior of the true label as target (ALIBI's and AGIBI's loss).

    Targets are likelihoods of the classes given a noisy observation of the label, normalized:
    L_i(c) = p(o_i | y = c) / sum_k p(o_i | y = k).  The model's own prediction p_i is the prior:

        t_i(c) = L_i(c) p_i(c) / sum_k L_i(k) p_i(k),        l_i = -sum_c t_i(c) log p_i(c),

    with no gradient through t_i.  The observation was made once and is private by itself: this is
    post-processing, and costs nothing.  Each loss depends on its own example alone.

    References
    ----------
    P5, Algorithm 3, Eq. 1 and 5.
    """

    model_head: ClassVar[str] = "plain"
    entropy: ClassVar[float] = 0.0

    def per_example(
        self, outputs: torch.Tensor, targets: torch.Tensor, state: None = None
    ) -> torch.Tensor:
        """Losses, shape (b,), of outputs and likelihoods (b, classes)."""
        log_p = torch.log_softmax(outputs, dim=-1)
        # Bayes' rule in logarithms: likelihood times prior, normalized.
        log_t = torch.log_softmax(log_p.detach() + torch.log(targets), dim=-1)
        return -(log_t.exp() * log_p).sum(dim=-1)

    def logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of the underlying classifier: the outputs themselves."""
        return outputs


@dataclass(frozen=True)
class SelfAdaptiveTraining:
    """Self-Adaptive Training for selective classification (Huang et al. 2020; P1, Eq. 12).

    The network has one more output, for abstention.  Every training example carries a moving
    average t_i of the predictions made for it, begun at its label.  After a burn-in of plain
    cross-entropy on the C classes,

        t_i <- momentum t_i + (1 - momentum) softmax(first C outputs),
        l_i = -t_i[y_i] log p_i[y_i] - (1 - t_i[y_i]) log p_i[C + 1],

    with p_i the softmax over all C + 1 outputs.

    Attributes
    ----------
    burn_in_steps : int
        Steps of plain cross-entropy; P1 has 100 of 200 epochs.
    momentum : float
        In [0, 1); P1 has 0.9.
    entropy : float
        As in :class:`CrossEntropy`, on the C classes.

    Notes
    -----
    *Privacy.*  The loss of example i uses, beside the example itself, the released iterates and its
    own moving average, which is a function of example i, of the iterates and of the steps in which
    i happened to be sampled.  Given the iterates and everybody else's sampling, the contribution of
    example i to a step is thus a mixture, over i's own earlier sampling, of vectors clipped to the
    same norm; hockey-stick divergences are jointly convex, so no mixture is easier to detect than
    its worst component, which the accountant assumes.  Nobody else's contribution depends on i.
    The guarantee of DP-SGD therefore holds for the *iterates*.  The moving averages are not private
    and never leave the trainer, except in a checkpoint file that must be kept as safe as the data.
    """

    burn_in_steps: int = 0
    momentum: float = 0.9
    entropy: float = 0.0
    model_head: ClassVar[str] = "abstain"

    def __post_init__(self):
        require_int("burn_in_steps", self.burn_in_steps, at_least=0)
        require_finite("momentum", self.momentum, at_least=0, below=1)
        require_finite("entropy", self.entropy, at_least=0)

    def per_example(
        self, outputs: torch.Tensor, targets: torch.Tensor, state: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Losses, shape (b,); `state` holds the moving averages (b, classes), None in burn-in."""
        logits = self.logits(outputs)
        if state is None:
            losses = _cross_entropy(logits, targets)
        else:
            confidence = self._moved(state, outputs).gather(1, targets[:, None])[:, 0]
            log_p = torch.log_softmax(outputs, dim=1)
            right = log_p.gather(1, targets[:, None])[:, 0]
            losses = -(confidence * right + (1 - confidence) * log_p[:, -1])
        return losses + self.entropy * _entropy(logits) if self.entropy else losses

    def logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of the underlying classifier, without abstention (P1 ranks by their softmax)."""
        return outputs[..., :-1]

    def initial_state(self, targets: torch.Tensor, classes: int) -> torch.Tensor:
        """Moving averages before the first step: the labels, shape (n, classes)."""
        return functional.one_hot(targets, classes).float()

    def state(self, memory: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor | None:
        """What :meth:`per_example` wants for some training examples in a step."""
        return None if step < self.burn_in_steps else memory[rows]

    def update(
        self, memory: torch.Tensor, rows: torch.Tensor, outputs: torch.Tensor, step: int
    ) -> None:
        """Move the averages of the sampled examples, in place."""
        if step >= self.burn_in_steps:
            memory[rows] = self._moved(memory[rows], outputs)

    def _moved(self, state: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        prediction = torch.softmax(self.logits(outputs).detach(), dim=1)
        # No gradient passes: `prediction` is detached, and the average is a target.
        return self.momentum * state + (1 - self.momentum) * prediction


@dataclass(frozen=True)
class DeepGamblers:
    """Deep gamblers (Liu et al. 2019): bet on classes, or keep the money.

    The network has one more output, for abstention.  After a burn-in of plain cross-entropy on the
    C classes, and with p_i the softmax over all C + 1 outputs, the loss is
    -log(p_i[y_i] + p_i[C + 1] / reward).  Each loss depends on its own example alone.

    Attributes
    ----------
    reward : float
        What a bet on the right class pays, in (1, C]; the paper tries 2 to 10 for ten classes.
    entropy : float
        As in :class:`CrossEntropy`, on the C classes.
    burn_in_steps : int
        Steps of plain cross-entropy.  Without them small rewards end in never betting, as the
        paper reports, too.
    """

    reward: float = 4.0
    entropy: float = 0.0
    burn_in_steps: int = 0
    model_head: ClassVar[str] = "abstain"

    def __post_init__(self):
        require_finite("reward", self.reward, above=1)
        require_finite("entropy", self.entropy, at_least=0)
        require_int("burn_in_steps", self.burn_in_steps, at_least=0)

    def per_example(
        self, outputs: torch.Tensor, targets: torch.Tensor, state: bool | None = True
    ) -> torch.Tensor:
        """Losses, shape (b,); `state` says whether the burn-in is over, see :meth:`state`."""
        if not state:
            losses = _cross_entropy(self.logits(outputs), targets)
        else:
            log_p = torch.log_softmax(outputs, dim=1)
            right = log_p.gather(1, targets[:, None])[:, 0]
            # log(p_y + p_abstain / reward), without leaving logarithms.
            losses = -torch.logaddexp(right, log_p[:, -1] - math.log(self.reward))
        return losses + self.entropy * _entropy(self.logits(outputs)) if self.entropy else losses

    def logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of the underlying classifier, without abstention."""
        return outputs[..., :-1]

    def state(self, step: int) -> bool:
        """What :meth:`per_example` wants in a step: whether the burn-in is over."""
        return step >= self.burn_in_steps


@dataclass(frozen=True)
class SelectiveNet:
    """SelectiveNet at a target coverage (Geifman and El-Yaniv 2019; P1, Eq. 8 to 10).

    The network gives class logits f, auxiliary class logits h and a selection logit; g is the
    sigmoid of the latter (Eq. 11 prints it without the minus sign).  With r and c the batch means
    of l(f_i, y_i) g_i and of g_i, the loss is

        alpha (r / c + penalty max(0, coverage - c)^2) + (1 - alpha) mean l(h_i, y_i).

    Attributes
    ----------
    coverage : float
        Target coverage, in (0, 1].
    alpha : float
        In [0, 1]; the paper's 0.5.
    penalty : float
        Lambda of Eq. 9; the paper's 32.
    entropy : float
        As in :class:`CrossEntropy`, on f.
    statistic_noise : float
        Noise multiplier of the released batch statistics, see below.
    loss_bound : float
        Largest loss that enters the released mean of l g.

    Notes
    -----
    *Start.*  The selection logit's bias starts at :attr:`first_logit`, so that g starts near one
    half or a larger target.  From one half, the penalty of a large target moves all layers far in
    the first steps: a small CNN ended there at chance on CIFAR-10.

    *Privacy.*  The batch coverage c couples the examples: the loss above is no sum over examples,
    so clipping per-example gradients of it would prove nothing.  What is done instead: the sums of
    g_i and of min(l_i, loss_bound) g_i / loss_bound, together of L2 sensitivity sqrt(2), are
    released with Gaussian noise of standard deviation ``statistic_noise`` times sqrt(2), from the
    same Poisson sample as the gradient; with the noisy c and r / c as constants, the loss

        alpha ((l_i g_i - (r / c) g_i) / c - 2 penalty max(0, coverage - c) g_i)
        + (1 - alpha) l(h_i, y_i)

    of one example is clipped as usual.  Without noise the mean of its gradients *is* the gradient
    of the batch loss.  Sums released with noise multipliers s and t from one Poisson sample cost as
    much as one with (s^-2 + t^-2)^(-1/2) (Andrew et al. 2021, Theorem 1), for which
    :func:`lib.training.plan` makes room in the budget.  Training without privacy uses the
    statistics of the realized batch without noise, bounded in the same way: losses above
    `loss_bound` enter them as that.
    """

    coverage: float
    alpha: float = 0.5
    penalty: float = 32.0
    entropy: float = 0.0
    statistic_noise: float = 20.0
    loss_bound: float = 5.0
    model_head: ClassVar[str] = "selective"

    #: The released coverage is not taken to be smaller than this, which the loss divides by.
    smallest_coverage: ClassVar[float] = 0.05

    def __post_init__(self):
        require_finite("coverage", self.coverage, above=0, at_most=1)
        require_finite("alpha", self.alpha, at_least=0, at_most=1)
        require_finite("penalty", self.penalty, at_least=0)
        require_finite("entropy", self.entropy, at_least=0)
        require_finite("statistic_noise", self.statistic_noise, above=0)
        require_finite("loss_bound", self.loss_bound, above=0)

    @property
    def first_logit(self) -> float:
        """The selection logit's first bias: logit of the target, between 0.5 and 0.98."""
        c = min(max(self.coverage, 0.5), 0.98)
        return math.log(c / (1 - c))

    def per_example(
        self, outputs: torch.Tensor, targets: torch.Tensor, state: torch.Tensor
    ) -> torch.Tensor:
        """Losses, shape (b,); `state` holds c and r / c, see :meth:`noisy_constants`."""
        f, h, g = self._split(outputs)
        c, ratio = state[0], state[1]
        loss = self._prediction_loss(f, targets)
        missing = torch.clamp(self.coverage - c, min=0)
        selective = (loss - ratio) * g / c - 2 * self.penalty * missing * g
        return self.alpha * selective + (1 - self.alpha) * _cross_entropy(h, targets)

    def statistics(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Sums over the batch of g_i and min(l_i, bound) g_i / bound; L2 sensitivity sqrt(2)."""
        f, _, g = self._split(outputs)
        losses = self._prediction_loss(f, targets).clamp(0, self.loss_bound) / self.loss_bound
        # Whatever an example does, NaN included, each of its two terms lies in [0, 1].
        terms = torch.stack([g, losses * g], dim=1)
        return torch.nan_to_num(terms, nan=0.0, posinf=1.0, neginf=0.0).clamp(0, 1).sum(dim=0)

    def noisy_constants(
        self, sums: torch.Tensor, batch_size: float, noise: float, normals: torch.Tensor
    ) -> torch.Tensor:
        """The noisy c and r / c that :meth:`per_example` takes, from :meth:`statistics`.

        `batch_size` is the expected one where training is private; `noise` is a multiplier or 0.
        """
        released = (sums + noise * math.sqrt(2) * normals) / batch_size
        c = released[0].clamp(self.smallest_coverage, 1)
        r = self.loss_bound * released[1].clamp(0, 1)
        return torch.stack([c, r / c])

    def logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits f of the underlying classifier (P1 ranks by their softmax)."""
        return self._split(outputs)[0]

    def _prediction_loss(self, f: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        losses = _cross_entropy(f, targets)
        return losses + self.entropy * _entropy(f) if self.entropy else losses

    def _split(self, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        classes = (outputs.shape[-1] - 1) // 2
        return (
            outputs[..., :classes],
            outputs[..., classes : 2 * classes],
            torch.sigmoid(outputs[..., -1]),
        )


Objective = CrossEntropy | PosteriorTargets | SelfAdaptiveTraining | DeepGamblers | SelectiveNet
