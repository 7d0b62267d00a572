"""Privacy accounting of DP-SGD: what a training costs, and the noise a budget asks for.

Neighbouring data sets differ by the addition or removal of one example.  Every step takes a Poisson
sample (each example independently with probability q), adds Gaussian noise of standard deviation
sigma times the clipping norm to the sum of clipped gradients, and releases the result; all
intermediate models may be published.  Three accountants bound the (epsilon, delta) of the composed
steps:

``"rdp"``
    Renyi differential privacy (Mironov 2017; Mironov, Talwar and Zhang 2019), by Opacus' formulas.
    It is the one that P1 uses (P3 has "prv").
``"prv"``
    Privacy loss random variables (Gopi, Lee and Wutschitz 2021), by Opacus.
``"pld"``
    Privacy loss distributions with connect-the-dots (Doroshenko et al. 2022), by dp-accounting:
    a second library, against which the two others are checked.

All three give upper bounds; the last two are nearly tight.  Fourier transforms round in double
precision: the last two charge 2^-52 a step to a delta below a million times that, and give way to
the first where nothing is left, or where their numerics fail.

Where the sampling rate, delta or the noise is computed from the number of examples, as in P1, that
number counts as public; :class:`lib.training.TrainingConfig` takes a rate of its own instead.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lib.check import check_delta, require_choice, require_finite, require_int, require_number

ACCOUNTANTS = ("rdp", "prv", "pld")

# Opacus' default orders end at 63, which costs tightness for small epsilon.
_ORDERS = (
    [1 + x / 10 for x in range(1, 100)]
    + list(range(11, 64))
    + [72, 84, 100, 128, 160, 200, 256, 320, 400, 512, 700, 1024]
)
_LARGEST_NOISE = 1e5
_SMALLEST_NOISE = 0.05


@dataclass(frozen=True)
class SampledGaussian:
    """Some steps of the Poisson-subsampled Gaussian mechanism.

    Attributes
    ----------
    sample_rate : float
        Probability q, in (0, 1], with which an example takes part in a step.
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm, sigma >= 0; 0 is no privacy at all.
    steps : int
        Number of steps, at least 0.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self):
        require_finite("sample_rate", self.sample_rate, above=0, at_most=1)
        require_finite("noise_multiplier", self.noise_multiplier, at_least=0)
        require_int("steps", self.steps, at_least=0)


@dataclass(frozen=True)
class PrivacyLedger:
    """All mechanisms that have read the training data, in order.

    Attributes
    ----------
    entries : tuple of SampledGaussian
        Empty: nothing was spent.
    """

    entries: tuple[SampledGaussian, ...] = ()

    def compose(self, *others: "PrivacyLedger") -> "PrivacyLedger":
        """The ledger of releasing the results of this and the other ledgers' mechanisms.

        Composition is exact for the accountant that is asked afterwards: Renyi divergences or
        privacy loss distributions add up, nothing is rounded to an (epsilon, delta) in between.
        """
        return PrivacyLedger(sum((other.entries for other in others), self.entries))

    def epsilon(
        self, delta: float, accountant: str = "rdp", *, neighbours: str = "add or remove"
    ) -> float:
        """Upper bound on epsilon at `delta`.

        Parameters
        ----------
        delta : float
            In [0, 1).  With 0, no subsampled Gaussian mechanism has a finite epsilon.
        accountant : {"rdp", "prv", "pld"}
            See the module's documentation.
        neighbours : {"add or remove", "replace"}
            ``"replace"``: one example has another content, such as another label, and the same
            chance to be sampled: its clipped gradient moves by up to twice the norm.  By ``"pld"``
            alone.

        Returns
        -------
        float
            0 for an empty ledger, infinity where a step had no noise.
        """
        check_delta(delta)
        require_choice("accountant", accountant, ACCOUNTANTS)
        require_choice("neighbours", neighbours, ("add or remove", "replace"))
        if neighbours == "replace" and accountant != "pld":
            raise ValueError(
                f"accountant must be 'pld' for neighbours='replace', got {accountant!r}"
            )
        history = self._history()
        if not history:
            return 0.0
        if delta == 0 or any(sigma == 0 for _, sigma, _ in history):
            return math.inf
        if neighbours == "replace":
            return _pld_epsilon(history, _kept(history, float(delta)), True)
        if accountant == "rdp":
            return _rdp_epsilon(history, float(delta))
        kept = _kept(history, float(delta))
        found = math.inf
        if kept > 0:
            with suppress(ValueError, RuntimeError):  # Opacus: its domain, or rounding
                found = {"prv": _prv_epsilon, "pld": _pld_epsilon}[accountant](history, kept)
        return found if math.isfinite(found) else _rdp_epsilon(history, float(delta))

    def _history(self) -> tuple[tuple[float, float, int], ...]:
        """Sampling rate, noise and steps of what took steps, like ones together."""
        merged: dict[tuple[float, float], int] = {}
        for entry in self.entries:
            if entry.steps:
                key = (float(entry.sample_rate), float(entry.noise_multiplier))
                merged[key] = merged.get(key, 0) + int(entry.steps)
        return tuple(sorted((q, sigma, steps) for (q, sigma), steps in merged.items()))

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON holds; the inverse of :meth:`from_dict`."""
        return {"entries": [asdict(entry) for entry in self.entries]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "PrivacyLedger":
        """The ledger that :meth:`to_dict` described."""
        return cls(tuple(SampledGaussian(**entry) for entry in content["entries"]))


def group_guarantee(
    ledger: PrivacyLedger, delta: float, records: int, accountant: str = "rdp"
) -> float:
    """Epsilon, at delta, for adding or removing all the records of one person.

    Parameters
    ----------
    ledger : PrivacyLedger
        What was spent, for adding or removing one record.
    delta : float
        Of the answer, in (0, 1).
    records : int
        How many k one person has at most, at least 1.
    accountant : str
        As for :meth:`PrivacyLedger.epsilon`.

    Returns
    -------
    float
        At least k times the epsilon for a record; infinity where no delta is small enough.

    Notes
    -----
    A mechanism that is (e, d)-private for one step is (k e, d (exp(k e) - 1) / (exp(e) - 1))
    -private for k of them: here with the largest d for which that is no more than `delta`.

    References
    ----------
    Vadhan, The complexity of differential privacy, 2017, Lemma 2.2.

    Examples
    --------
    >>> ledger = PrivacyLedger((SampledGaussian(0.1, 4.0, 100),))
    >>> group_guarantee(ledger, 1e-5, 1) == ledger.epsilon(1e-5)
    True
    >>> group_guarantee(ledger, 1e-5, 3) > 3 * ledger.epsilon(1e-5)
    True
    """
    require_finite("delta", delta, above=0, below=1)
    require_int("records", records, at_least=1)
    if records == 1:
        return ledger.epsilon(delta, accountant)

    def spent(log_d: float) -> float:
        return ledger.epsilon(math.exp(log_d), accountant)

    def fits(log_d: float) -> bool:
        steps = spent(log_d) * np.arange(records)  # 1 + e^e + ... + e^((k - 1) e)
        return np.logaddexp.reduce(steps) + log_d <= math.log(delta)

    high, low = math.log(delta), math.log(delta) - 1.0
    while not fits(low):
        high, low = low, low - 2 * (high - low)
        if low < -600:
            return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return records * spent(low)


def joint_epsilon(ledger: PrivacyLedger, delta: float, pure: Iterable[float]) -> float:
    """Epsilon, at delta, of a ledger's mechanisms and of purely private ones, on the same records.

    Where no person has records in both, nobody pays for more than the dearer of the two, and
    nothing is to be added up.

    Parameters
    ----------
    ledger : PrivacyLedger
        What was spent, for adding or removing one record.
    delta : float
        Of the answer, in (0, 1).
    pure : iterable of float
        Epsilons, at delta = 0, of the other mechanisms, at least 0: of
        :func:`lib.selective.private_threshold`, for example.

    Returns
    -------
    float
        By PLD, each pure mechanism being no worse than a randomized response; at most the sum.

    References
    ----------
    Kairouz, Oh and Viswanath, The composition theorem for differential privacy, 2015: randomized
    response is the worst of all mechanisms with its epsilon.

    Examples
    --------
    >>> ledger = PrivacyLedger((SampledGaussian(0.01, 1.0, 1000),))
    >>> round(ledger.epsilon(1e-5, "pld"), 2), round(joint_epsilon(ledger, 1e-5, [0.5]), 2)
    (1.83, 2.27)
    """
    require_finite("delta", delta, above=0, below=1)
    if not isinstance(pure, Iterable) or isinstance(pure, str):
        raise ValueError(f"pure must be a sequence of numbers, got {pure!r}")
    pure = tuple(pure)
    for epsilon in pure:
        require_number("pure", epsilon, at_least=0)
    pure = tuple(sorted(float(epsilon) for epsilon in pure if epsilon))
    alone = ledger.epsilon(delta, "pld")
    apart = alone + sum(pure)
    if not pure or math.isinf(apart) or not any(entry.steps for entry in ledger.entries):
        return apart
    history = ledger._history()
    return min(apart, _pld_epsilon(history, _kept(history, float(delta)), pure=pure))


def effective_noise_multiplier(*multipliers: float) -> float:
    """The noise multiplier of one Gaussian mechanism that equals several on the same sample.

    Releasing sums with noise multipliers s_1, s_2, ... from one and the same Poisson sample costs
    as much as one subsampled Gaussian mechanism with (s_1^-2 + s_2^-2 + ...)^(-1/2)
    (Andrew et al. 2021, Theorem 1, for adaptive clipping).

    Parameters
    ----------
    *multipliers : float
        Each positive; infinity stands for a sum that is not released.

    Examples
    --------
    >>> round(effective_noise_multiplier(1.0, 1.0), 4)
    0.7071
    """
    if not multipliers:
        raise ValueError("multipliers must hold at least one noise multiplier, got none")
    for value in multipliers:
        require_number("multipliers", value, above=0)
    precision = sum(value**-2 for value in multipliers)
    return precision**-0.5 if precision else math.inf


def find_noise_multiplier(
    epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    *,
    releases: int = 1,
    accountant: str = "rdp",
    tolerance: float = 1e-4,
) -> float:
    """The smallest noise multiplier that keeps planned trainings within a budget.

    Parameters
    ----------
    epsilon : float
        The budget, positive.  Infinity gives 0.
    delta : float
        In [0, 1); 0 only with an infinite epsilon.
    sample_rate : float
        Probability q of each example in each step, in (0, 1].
    steps : int
        Steps of one training, at least 1.
    releases : int
        Number of such trainings whose results are all released and which share the budget: 5 for
        P1's deep ensemble of five members and for its five SelectiveNets.  Their steps are
        composed.
    accountant : {"rdp", "prv", "pld"}
        What certifies the budget.
    tolerance : float
        Relative precision of the answer, which errs on the private side.

    Returns
    -------
    float
        A noise multiplier whose accounted epsilon is at most `epsilon`.  It is an error if none up
        to 1e5 reaches the budget.

    Examples
    --------
    >>> round(find_noise_multiplier(3.0, 1e-5, sample_rate=0.01, steps=1000), 2)
    0.86
    """
    require_number("epsilon", epsilon, above=0)
    check_delta(delta)
    require_finite("sample_rate", sample_rate, above=0, at_most=1)
    require_int("steps", steps, at_least=1)
    require_int("releases", releases, at_least=1)
    require_finite("tolerance", tolerance, above=0, at_most=0.1)
    require_choice("accountant", accountant, ACCOUNTANTS)
    if math.isinf(epsilon):
        return 0.0
    if delta == 0:
        raise ValueError(
            f"delta must be positive for a finite epsilon ({epsilon!r}): Gaussian noise gives no"
            " privacy at delta = 0"
        )
    return _search(
        float(epsilon), float(delta), float(sample_rate), steps * releases, accountant, tolerance
    )


@lru_cache(maxsize=4096)
def _search(epsilon, delta, sample_rate, steps, accountant, tolerance) -> float:
    def spent(sigma: float) -> float:
        ledger = PrivacyLedger((SampledGaussian(sample_rate, sigma, steps),))
        return ledger.epsilon(delta, accountant)

    if accountant == "rdp":
        low = high = _SMALLEST_NOISE
        if spent(low) <= epsilon:
            return low  # less noise than this is never worth the numerics
        factor = 2.0
    else:  # slower, and numerically hopeless far from the answer: start from Renyi's, just above it
        try:
            high = _search(epsilon, delta, sample_rate, steps, "rdp", tolerance)
        except ValueError:  # Renyi's has a floor at tiny epsilon that the others do not have
            high = 1.0
            while spent(high) > epsilon and high < _LARGEST_NOISE:
                high *= 2
        low, factor = 0.9 * high, 1.1
        while spent(low) <= epsilon and low > _SMALLEST_NOISE:
            low, high = 0.9 * low, low
    while spent(high) > epsilon:
        low, high = high, factor * high
        if high > _LARGEST_NOISE:
            reached = spent(_LARGEST_NOISE)
            raise ValueError(
                f"epsilon = {epsilon!r} cannot be reached with delta = {delta!r}, sample_rate ="
                f" {sample_rate!r} and {steps} steps: a noise multiplier of {_LARGEST_NOISE:g} is"
                f" accounted as {reached:.3g} by {accountant!r}"
            )
    while high / low > 1 + tolerance:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) > epsilon else (low, middle)
    return high


@lru_cache(maxsize=2**18)
def _renyi(sample_rate: float, noise_multiplier: float, order: float) -> float:
    from opacus.accountants.analysis import rdp  # here: it loads torch

    return rdp.compute_rdp(q=sample_rate, noise_multiplier=noise_multiplier, steps=1, orders=order)


@lru_cache(maxsize=4096)
def _rdp_epsilon(history: tuple[tuple[float, float, int], ...], delta: float) -> float:
    def bound(place: int) -> float:  # Balle et al. 2020, Theorem 21
        order = float(_ORDERS[place])
        renyi = sum(steps * _renyi(q, sigma, order) for q, sigma, steps in history)
        return renyi - (math.log(delta) + math.log(order)) / (order - 1) + math.log1p(-1 / order)

    # Times (order - 1) it is convex in the order: it falls to its minimum, and then it rises.
    low, high = 0, len(_ORDERS) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= bound(middle + 1) else (middle + 1, high)
    return max(0.0, float(bound(low)))


def _kept(history: tuple[tuple[float, float, int], ...], delta: float) -> float:
    """What rounding leaves of a delta: all of it where that is too little to matter."""
    lost = 2.0**-52 * sum(steps for *_, steps in history)
    return delta if delta > 1e6 * lost else delta - lost


@lru_cache(maxsize=256)
def _prv_epsilon(history: tuple[tuple[float, float, int], ...], delta: float) -> float:
    from opacus.accountants import PRVAccountant, analysis  # here, as it is rarely needed

    accountant = PRVAccountant()
    accountant.history = [(sigma, q, steps) for q, sigma, steps in history]
    rough, total = _rdp_epsilon(history, delta), sum(steps for *_, steps in history)
    error = min(0.01, 0.01 * rough) if rough else 0.001  # an absolute error of 0.01 is too coarse
    # Opacus' own domain, whose Renyi bounds take nearly all of its time (Gopi et al., Remark 5.6).
    single = [_rdp_epsilon(((q, sigma, 1),), delta / (8000 * total)) for q, sigma, _ in history]
    reach = 3 + max(_rdp_epsilon(history, delta / 4000), *single, error)
    mesh = error / math.sqrt(total * math.log(12_000 / delta) / 2)
    accountant._get_domain = lambda **_: analysis.prv.Domain.create_aligned(-reach, reach, mesh)
    with np.errstate(divide="ignore"):  # it takes log(1 - q) at q = 1
        return max(0.0, float(accountant.get_epsilon(delta, eps_error=error)))


@lru_cache(maxsize=256)
def _pld_epsilon(
    history: tuple[tuple[float, float, int], ...],
    delta: float,
    replace: bool = False,
    pure: tuple[float, ...] = (),
) -> float:
    if delta <= 0:
        return math.inf
    grid = 1e-4 * min(1.0, max(0.1, _rdp_epsilon(history, delta)))  # finer where epsilon is small
    return float(loss_distribution(history, grid, replace, pure).get_epsilon_for_delta(delta))


def loss_distribution(
    history: tuple[tuple[float, float, int], ...],
    grid: float,
    replace: bool = False,
    pure: tuple[float, ...] = (),
) -> Any:
    """dp-accounting's privacy loss distribution, no better than the true one at any epsilon."""
    from dp_accounting import NeighboringRelation, pld  # here: it loads much of SciPy
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    total = None
    which = NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE
    for q, sigma, steps in history:
        one = pld.privacy_loss_distribution.from_gaussian_mechanism(
            sigma,
            sampling_prob=q,
            value_discretization_interval=grid,
            use_connect_dots=True,
            neighboring_relation=which,
        ).self_compose(steps)
        total = one if total is None else total.compose(one)
    for epsilon in pure:
        one = pld.privacy_loss_distribution.from_privacy_parameters(
            DifferentialPrivacyParameters(epsilon), value_discretization_interval=grid
        )
        total = total.compose(one)
    return total


def budget_table(
    epsilons: Iterable[float], delta: float, sample_rate: float, steps: int, members: int
) -> list[dict[str, float]]:
    """What each of several models may spend when all of them share one budget.

    Four ways to divide (epsilon, delta) among `members` trainings of `steps` steps each: one model
    takes it all; the composed accountant (P1's way: RDP over `members` times as many steps); the
    rule epsilon / sqrt(members) at delta / members; and basic composition, epsilon / members at
    delta / members.

    Parameters
    ----------
    epsilons : iterable of float
        Budgets, finite and positive.
    delta : float
        In (0, 1).
    sample_rate, steps
        As for :func:`find_noise_multiplier`.
    members : int
        Number of models, at least 1.

    Returns
    -------
    list of dict
        A row per budget and rule: ``epsilon``, ``rule``, ``noise_multiplier`` (by RDP), ``member``
        (a single member's own epsilon at `delta`, by RDP), and the epsilon at `delta` that all
        models together really spend, by two accountants: ``rdp`` and ``pld``.  A rule whose
        ``pld`` exceeds the budget does not keep its promise.
    """
    require_int("members", members, at_least=1)
    check_delta(delta)
    if not isinstance(epsilons, Iterable) or isinstance(epsilons, str):
        raise ValueError(f"epsilons must be a sequence of numbers, got {epsilons!r}")
    rows = []
    for epsilon in epsilons:
        require_finite("epsilons", epsilon, above=0)
        rules = {
            "one model": (epsilon, delta, 1, 1),
            "composed": (epsilon, delta, members, members),
            "epsilon/sqrt(M)": (epsilon / math.sqrt(members), delta / members, 1, members),
            "epsilon/M": (epsilon / members, delta / members, 1, members),
        }
        for rule, (target, share, releases, trained) in rules.items():
            sigma = find_noise_multiplier(target, share, sample_rate, steps, releases=releases)
            single = PrivacyLedger((SampledGaussian(sample_rate, sigma, steps),))
            together = PrivacyLedger((SampledGaussian(sample_rate, sigma, steps * trained),))
            row = {"epsilon": epsilon, "rule": rule, "noise_multiplier": sigma}
            row["member"] = single.epsilon(delta)
            row |= {name: together.epsilon(delta, name) for name in ("rdp", "pld")}
            rows.append(row)
    return rows


def label_guarantee(ledger: PrivacyLedger, delta: float, accountant: str = "rdp") -> float:
    """Epsilon, at delta, for changing one label of a training that is private for records.

    Parameters
    ----------
    ledger : PrivacyLedger
        What was spent, for adding or removing one record.
    delta : float
        Of the answer, in (0, 1).
    accountant : str
        As for :meth:`lib.privacy.PrivacyLedger.epsilon`.

    Returns
    -------
    float
        The smaller of two proofs; the label's true epsilon may be smaller still.

    Notes
    -----
    Another label is another gradient of a record that is sampled as before, at most twice the
    clipping norm away: the privacy loss distribution of that mechanism is the first proof
    (``neighbours="replace"`` of :meth:`lib.privacy.PrivacyLedger.epsilon`).  The second is group
    privacy, from what the accountant proves for a record: to change a label is to remove a record
    and to add another. A mechanism that is (e, d)-private for one step is (2 e, (1 + exp(e)) d)
    -private for two: here with the largest d for which that is no more than `delta`.

    References
    ----------
    Vadhan, The complexity of differential privacy, 2017, Lemma 2.2.

    Examples
    --------
    >>> ledger = PrivacyLedger((SampledGaussian(0.01, 2.0, 100),))
    >>> round(ledger.epsilon(1e-5), 2), round(label_guarantee(ledger, 1e-5), 2)
    (0.26, 0.34)
    """
    require_finite("delta", delta, above=0, below=1)
    return min(
        group_guarantee(ledger, delta, 2, accountant),
        ledger.epsilon(delta, "pld", neighbours="replace"),
    )
