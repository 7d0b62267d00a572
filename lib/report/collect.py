"""How much more data an analysis would need, for what it could not decide."""

import math

from scipy import stats

from lib import audit
from lib.audit.one_run import FRACTIONS, fixed_guesses

__all__ = [
    "MOST_TRIALS",
    "about",
    "attack_ceiling",
    "rows_for_half_width",
    "rows_for_power",
    "trials_to_refute",
]

#: Trials beyond which :func:`trials_to_refute` does not look.
MOST_TRIALS = 200_000


def about(n: int) -> str:
    """A number of rows in two digits, rounded up: more would be a false promise.

    Parameters
    ----------
    n : int
        At least 1.
    """
    unit = 10 ** max(0, len(str(n)) - 2)
    return f"about {-(-n // unit) * unit:,}"


def rows_for_half_width(stderr: float, n: int, half_width: float, level: float) -> int:
    """Rows with which a normal interval has a half-width, if its standard error falls as 1/sqrt(n).

    Parameters
    ----------
    stderr : float
        Standard error with `n` rows.
    n : int
        Rows there are.
    half_width : float
        Wanted, above 0.
    level : float
        Of the interval.

    Returns
    -------
    int
        At least 1.
    """
    z = stats.norm.isf((1 - level) / 2)
    return max(1, math.ceil(n * (z * stderr / half_width) ** 2 - 1e-9))


def rows_for_power(
    stderr: float, n: int, difference: float, level: float, power: float
) -> int | None:
    """Rows with which a two-sided test finds a difference with a power, if it is as estimated.

    Parameters
    ----------
    stderr : float
        Standard error with `n` rows; it falls as 1/sqrt(n).
    n : int
        Rows there are.
    difference : float
        As estimated.
    level : float
        One minus the level of the test.
    power : float
        In (0, 1).

    Returns
    -------
    int or None
        None for a difference of zero, which no number of rows finds.
    """
    if difference == 0:
        return None
    z = stats.norm.isf((1 - level) / 2) + stats.norm.ppf(power)
    return max(1, math.ceil(n * (z * stderr / difference) ** 2 - 1e-9))


def attack_ceiling(members: int, others: int, delta: float, level: float, design: str) -> float:
    """The bound of an attack that is never wrong: the most that so many trials can show.

    Parameters
    ----------
    members, others : int
        Trials with members and with non-members.
    delta, level : float
        Of the bound.
    design : {"one run", "independent"}
        As in :class:`lib.report.Settings`; the independent one decides by half of the trials.

    Returns
    -------
    float
        In the one-run design the best over the numbers of guesses, corrected.
    """
    n = members + others
    if design == "one run":
        if n < 2:
            return 0.0
        counts = {fixed_guesses(n, fraction) for fraction in FRACTIONS}
        each = 1 - (1 - level) / len(FRACTIONS)
        return max(audit.one_run_epsilon(count, count, n, delta, each) for count in counts)
    tp, tn = members - round(members / 2), others - round(others / 2)
    return float(audit.epsilon_lower_bounds([[tp, 0, tn, 0]], delta, level, "clopper-pearson")[0])


def trials_to_refute(epsilon: float, delta: float, level: float, design: str) -> int | None:
    """Fewest trials, about, in which an attack that is never wrong shows more than an epsilon.

    By the report's bounds.  An attack that errs needs more.

    Parameters
    ----------
    epsilon : float
        The claim.
    delta, level, design
        As for :func:`attack_ceiling`; as many members as non-members.

    Returns
    -------
    int or None
        A multiple of 4, up to five per cent too large; None if :data:`MOST_TRIALS` are not enough.
        In one run more points do not always show more, because each costs another delta.
    """
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
