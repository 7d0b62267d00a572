"""Privacy accounting of DP-SGD: what a training costs, and the noise a budget asks for.

Neighboring data sets differ by the addition or removal of one example.  Every step takes a Poisson
sample (each example independently with probability q), adds Gaussian noise of standard deviation
sigma times the clipping norm to the sum of clipped gradients, and releases the result; all
intermediate models may be published.  Two accountants bound the (epsilon, delta) of the composed
steps:

``"rdp"``
    Renyi differential privacy (Mironov 2017; Mironov, Talwar and Zhang 2019): the accountant of P1.
    With orders up to 1024 it proves no epsilon below about log(1 / delta) / 1000.
``"pld"``
    Privacy loss distributions with connect-the-dots (Doroshenko et al. 2022), nearly tight, and
    never above the former.  Where all examples take part in all steps it is exact (Balle and Wang
    2018).

Both give upper bounds, from the smallest noise multipliers to the largest: a right value, or
infinity where the true one is beyond the range of numbers.  Both rise with the rate and the steps,
and fall with the noise and delta: "pld" up to its mesh.  That is 1e-4 (1e-5 where epsilon is below
0.1, finer where a step's losses are) or, where that would take more than a million points, a
millionth of the losses; with 10^9 steps it adds a tenth to their standard deviation.  Fourier
transforms round in double precision: "pld" charges 2^-52 a step, or pure mechanism, to a delta
below a million times that, and gives way to closed forms where nothing is left.

Where the sampling rate, delta or the noise is computed from the number of examples, as in P1, that
number counts as public; :class:`lib.training.TrainingConfig` takes a rate of its own instead.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from lib.check import check_delta, require_choice, require_finite, require_int, require_number
from lib.privacy.losses import loss_distributions, mesh_for
from lib.privacy.renyi import History, epsilon_by_orders, gaussian_bound

#: Accountants of noisy gradients: Rényi divergences, privacy loss distributions.
ACCOUNTANTS = ("rdp", "pld")

_LARGEST_NOISE = 1e5
_SMALLEST_NOISE = 0.05
_MOST_STEPS = 2**53  # beyond it floats skip whole numbers
_LEAST = -744.0  # logarithm of a delta that is above 0 in floating point
_PRECISION = 1e-4  # of a noise multiplier that is searched, relative
_LARGE = 40.0  # epsilon of a pure mechanism whose other answer is lost to rounding


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
        Number of steps, at least 0 and at most 2^53.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self):
        require_finite("sample_rate", self.sample_rate, above=0, at_most=1)
        require_finite("noise_multiplier", self.noise_multiplier, at_least=0)
        require_int("steps", self.steps, at_least=0, at_most=_MOST_STEPS)
        for name, kind in (("sample_rate", float), ("noise_multiplier", float), ("steps", int)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        require_finite("sample_rate", self.sample_rate, above=0)  # a fraction may round to 0


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
        accountant : {"rdp", "pld"}
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
        delta = check_delta(delta)
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
        if accountant == "rdp":
            return epsilon_by_orders(history, delta)
        return _pld_epsilon(history, delta, neighbours == "replace")

    def _history(self) -> History:
        """Sampling rate, noise and steps of what took steps, like ones together."""
        merged: dict[tuple[float, float], int] = {}
        for entry in self.entries:
            if entry.steps:
                key = (entry.sample_rate, entry.noise_multiplier)
                merged[key] = merged.get(key, 0) + entry.steps
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
        How many k one person has at most, from 1 to 2^53.
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
    require_int("records", records, at_least=1, at_most=_MOST_STEPS)
    if records == 1:
        return ledger.epsilon(delta, accountant)

    def spent(log_d: float) -> float:
        return ledger.epsilon(math.exp(log_d), accountant)

    def fits(log_d: float) -> bool:
        e = spent(log_d)
        if math.isinf(e):
            return False
        # log of 1 + e^e + ... + e^((k - 1) e)
        # k terms, all of them 1 where epsilon is 0.
        log_sum = math.log(records)
        if e > 1e-12:
            log_sum = (records - 1) * e
            log_sum += math.log(math.expm1(-records * e) / math.expm1(-e))
        return log_sum + log_d <= math.log(delta)

    # The smaller the delta of one step, the larger its epsilon: search for the largest that fits,
    # in logarithms since it may be far below the smallest number.
    high, low = math.log(delta), math.log(delta) - 1.0
    while low > _LEAST and not fits(low):
        high, low = low, max(_LEAST, low - 2 * (high - low))
    if low <= _LEAST and not fits(low):
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
        By PLD, each pure mechanism being no worse than a randomized response; at most the sum,
        which is infinity where it is beyond the range of numbers.

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
    delta, pure = float(delta), sorted(float(epsilon) for epsilon in pure if epsilon)
    # Adding up is a proof, too, and the better one where there is hardly anything to compose.
    apart = ledger.epsilon(delta, "pld") + _total(pure)
    history, small = ledger._history(), tuple(e for e in pure if e <= _LARGE)
    if not small or math.isinf(apart) or not history:
        return apart
    rest = _total(e for e in pure if e > _LARGE)
    return min(apart, _by_losses(history, delta, pure=small) + rest)


def _total(epsilons: Iterable[float]) -> float:
    """Their sum; infinity where it is beyond the range of numbers, at which fsum raises."""
    try:
        return math.fsum(epsilons)
    except OverflowError:
        return math.inf


def find_noise_multiplier(
    epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    *,
    releases: int = 1,
    accountant: str = "rdp",
) -> float:
    """The smallest noise multiplier that keeps planned training runs within a budget.

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
        Number of such training runs whose results are all released and which share the budget: 5
        for P1's deep ensemble of five members and for its five SelectiveNets.  Their steps are
        composed.
    accountant : {"rdp", "pld"}
        What certifies the budget.

    Returns
    -------
    float
        A noise multiplier whose accounted epsilon is at most `epsilon`, larger than the smallest
        such one by at most 1 / 10,000 of it.  It is an error if none up to 1e5 reaches the budget.

    Examples
    --------
    >>> round(find_noise_multiplier(3.0, 1e-5, sample_rate=0.01, steps=1000), 2)
    0.86
    """
    require_number("epsilon", epsilon, above=0)
    check_delta(delta)
    require_finite("sample_rate", sample_rate, above=0, at_most=1)
    require_int("steps", steps, at_least=1, at_most=_MOST_STEPS)
    require_int("releases", releases, at_least=1, at_most=_MOST_STEPS // steps)
    require_choice("accountant", accountant, ACCOUNTANTS)
    if math.isinf(epsilon):
        return 0.0
    if delta == 0:
        raise ValueError(
            f"delta must be positive for a finite epsilon ({epsilon!r}): Gaussian noise gives no"
            " privacy at delta = 0"
        )
    return _search(float(epsilon), float(delta), float(sample_rate), steps * releases, accountant)


@lru_cache(maxsize=4096)
def _search(epsilon, delta, sample_rate, steps, accountant) -> float:
    def spent(sigma: float) -> float:
        ledger = PrivacyLedger((SampledGaussian(sample_rate, sigma, steps),))
        return ledger.epsilon(delta, accountant)

    if accountant == "rdp":
        # Doubled until the budget holds.
        low = high = _SMALLEST_NOISE
        if spent(low) <= epsilon:
            return low  # less noise than this is never worth the numerics
        factor = 2.0
    else:  # slower, and numerically hopeless far from the answer: start from Renyi's, just above it
        try:
            high = _search(epsilon, delta, sample_rate, steps, "rdp")
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
    # By ratios: noise multipliers span orders of magnitude. `high` always keeps the budget.
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) > epsilon else (low, middle)
    return high


@lru_cache(maxsize=1024)
def _pld_epsilon(history: History, delta: float, replace: bool) -> float:
    found = gaussian_bound(history, delta, 2 if replace else 1)
    if not replace:
        found = min(found, epsilon_by_orders(history, delta))
    if found == 0 or all(q == 1 for q, *_ in history):
        return found
    return min(found, _by_losses(history, delta, replace))


def _by_losses(
    history: History, delta: float, replace: bool = False, pure: tuple[float, ...] = ()
) -> float:
    # Every step's chances are rounded: so much of delta is set aside, unless delta is far larger.
    lost = 2.0**-52 * (sum(steps for *_, steps in history) + len(pure))  # to rounding
    kept = delta if delta > 1e6 * lost else delta - lost
    if kept <= 0:
        return math.inf
    mesh = 1e-4 * min(1.0, max(0.1, epsilon_by_orders(history, delta)))  # finer if epsilon is small
    # One distribution for each direction (a record more, a record less); the dearer one counts.
    sides = loss_distributions(history, mesh_for(history, mesh), replace, pure)
    return max((side.epsilon(kept) for side in sides), default=math.inf)


def budget_table(
    epsilons: Iterable[float], delta: float, sample_rate: float, steps: int, members: int
) -> list[dict[str, float]]:
    """What each of several models may spend when all of them share one budget.

    Four ways to divide (epsilon, delta) among `members` training runs of `steps` steps each: one
    model takes it all; the composed accountant (P1's way: RDP over `members` times as many
    steps); the rule epsilon / sqrt(members) at delta / members; and basic composition,
    epsilon / members at delta / members.

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
