"""How much more data an analysis would need, for what it could not decide."""

import math

from scipy import stats

from lib import audit
from lib.audit.one_run import FRACTIONS, fixed_guesses
from lib.audit.planning import detection_limit
from lib.report.types import FINE, POWER, SCORES, Settings
from lib.ties import ROUNDING

#: Trials beyond which :func:`trials_to_refute` does not look.
MOST_TRIALS = 200_000
#: Trials and simulations with which :func:`detectable_epsilon` is found.
_SIMULATED = (2_000, 100)


def about(n: int) -> str:
    """A number of rows in two digits, rounded up: more would be a false promise."""
    unit = 10 ** max(0, len(str(n)) - 2)
    return f"about {-(-n // unit) * unit:,}"


def rows_for_half_width(stderr: float, n: int, half_width: float, level: float) -> int | None:
    """Rows with which a normal interval has a half-width; its error falls as 1/sqrt(n).

    None if nothing varies: rows without an error say nothing of a variance (:func:`rows_by_bound`).
    """
    if stderr <= ROUNDING:
        return None
    z = stats.norm.isf((1 - level) / 2)
    return max(1, math.ceil(n * (z * stderr / half_width) ** 2 - 1e-9))


def rows_for_power(
    stderr: float, n: int, difference: float, level: float, power: float
) -> int | None:
    """Rows with which a two-sided test finds a difference with a power, if it is as estimated.

    None if there is none, or if nothing varies.
    """
    if difference == 0 or stderr <= ROUNDING:
        return None
    z = stats.norm.isf((1 - level) / 2) + stats.norm.ppf(power)
    return max(1, math.ceil(n * (z * stderr / difference) ** 2 - 1e-9))


def rows_by_bound(distance: float, n: int, wanted: float) -> int:
    """Rows with which a bound is as near as wanted, if again nothing varies.

    Distances are parts of the range.  As Clopper and Pearson's without an error: what is left of
    the range, to the n-th power, is constant.
    """
    left = math.log1p(-min(distance, 1 - 1e-9)) / math.log1p(-min(wanted, 1 - 1e-9))
    return max(1, math.ceil(n * left - 1e-9))


def steps_to_fine(
    stderr: float, interval: tuple[float, float], n: int, level: float
) -> tuple[str, ...]:
    """What would make the interval of an accuracy narrow enough, unless it is."""
    needed, condition = rows_for_half_width(stderr, n, FINE, level), ""
    if needed is None:
        width = interval[1] - interval[0]
        needed = n if math.isnan(width) else rows_by_bound(width, n, 2 * FINE)
        condition = ", so many if again no answer differs from the others"
    return (
        f"{about(needed)} rows{' at least' * bool(condition)} would bring its interval to within "
        f"{FINE:g}{condition} (there are {n:,})",
    ) * (needed > n)


def attack_ceiling(members: int, others: int, delta: float, level: float, design: str) -> float:
    """The bound of an attack that is never wrong: the most that so many trials can show."""
    n = members + others
    if design == "one run":
        if n < 2:
            return 0.0
        counts = {fixed_guesses(n, fraction) for fraction in FRACTIONS}
        each = 1 - (1 - level) / len(FRACTIONS)
        return max(audit.one_run_epsilon(count, count, n, delta, each) for count in counts)
    rows = [[0, 0, others, members], [members, 0, others, 0]]  # "member" nowhere, and without error
    return float(audit.union_lower_bound(rows, delta, level, "clopper-pearson")[1])


def trials_to_refute(epsilon: float, delta: float, level: float, design: str) -> int | None:
    """Fewest trials, about, in which an attack that is never wrong shows more than an epsilon."""
    n = 4
    while n <= MOST_TRIALS:
        if design == "one run":
            counts = {fixed_guesses(n, fraction) for fraction in FRACTIONS}
            each = (1 - level) / len(FRACTIONS)
            shown = min(audit.one_run_p_value(c, c, n, epsilon, delta) for c in counts) <= each
        else:
            shown = attack_ceiling(n // 2, n // 2, delta, level, design) > epsilon
        if shown:
            return n
        n = max(n + 4, 4 * math.ceil(1.05 * n / 4))
    return None


def fewest_rows(target: float, alpha: float) -> float:
    """Labeled rows with which a target can be promised if every answer is right; inf for 1."""
    # So few that guaranteed_threshold tests nothing but to answer everywhere: target^n decides.
    each = alpha / len(SCORES)
    return math.inf if target >= 1 else math.ceil(math.log(each) / math.log(target))


def detectable_epsilon(
    trials: int, epsilon: float, delta: float, settings: Settings
) -> tuple[int, float]:
    """What an attack must reach for a claimed epsilon to be refuted with the probability `POWER`.

    First the trials for which it was simulated, half of them members. Then the epsilon, at the same
    delta, of the Gaussian mechanism whose shift the attack's scores have: infinity if no shift is
    enough; NaN for fewer than 8 trials, or a claim of 0.
    """
    most, repetitions = _SIMULATED
    trials = min(trials, most) // 4 * 4
    if trials < 8 or not (epsilon > 0 and delta > 0):
        return trials, math.nan
    bound = "one run" if settings.audit_design == "one run" else "union"
    options = {"level": settings.level, "repetitions": repetitions, "seed": settings.seed}
    mu = detection_limit(bound, trials, epsilon, delta, power=POWER, **options)
    return trials, audit.true_best_epsilon(mu, delta) if mu < math.inf else mu
