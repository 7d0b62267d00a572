"""How wrong the estimates may be before the verdict turns, and how wrong they have been."""

from scipy import stats

from lib.suitability.filter import Decision

#: By how much the paper's estimator overstated the accuracy on user data, beyond what it did on
#: test data: means over the experiments of each of the 30 out-of-distribution folds of FMoW-WILDS
#: and 3 models, 15 source folds, shuffle 32. The tests compute them from the authors' signals.
# fmt: off
FMOW_ERRORS = (
    -0.0277, -0.0218, -0.0184, -0.0167, -0.0155, -0.0118, -0.0103, -0.0067, -0.0031, -0.0007,
    0.0004, 0.0007, 0.0032, 0.0049, 0.0051, 0.0052, 0.0053, 0.0063, 0.0071, 0.0084, 0.0088,
    0.0103, 0.0106, 0.0118, 0.0122, 0.0128, 0.0139, 0.0146, 0.0148, 0.0158, 0.0163, 0.0165,
    0.0181, 0.0205, 0.0208, 0.0212, 0.0219, 0.0222, 0.0234, 0.0238, 0.0253, 0.0259, 0.0264,
    0.0267, 0.0271, 0.0273, 0.0274, 0.0274, 0.0284, 0.0297, 0.0306, 0.0312, 0.0313, 0.0316,
    0.0321, 0.0324, 0.0325, 0.0328, 0.0332, 0.0348, 0.0353, 0.0359, 0.0360, 0.0368, 0.0380,
    0.0385, 0.0385, 0.0398, 0.0405, 0.0429, 0.0443, 0.0445, 0.0451, 0.0459, 0.0464, 0.0485,
    0.0492, 0.0515, 0.0536, 0.0563, 0.0569, 0.0619, 0.0680, 0.0697, 0.0773, 0.0787, 0.1040,
    0.1398, 0.1582, 0.1779,
)
# fmt: on


def tipping_point(decision: Decision) -> float:
    """By how much estimates would have to overstate the user's accuracy for a verdict to turn.

    Parameters
    ----------
    decision : Decision
        Of a filter.

    Returns
    -------
    float
        The margin less the upper confidence limit of the drop: if the estimator overstates the
        accuracy on user data by more than this, beyond what it does on test data, SUITABLE is not
        shown. At least 0 if and only if SUITABLE was said (or nothing could be concluded, by the
        decision's notes); below, it would have to understate it.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Corollary 4.4: the margin that is corrected for
    calibration errors.

    Examples
    --------
    >>> from lib.suitability.filter import Decision
    >>> found = Decision(True, 0.01, -2.3, float("inf"), 0.8, 0.79, 0.05, 0.05, stderr=0.017)
    >>> round(tipping_point(found), 3)
    0.012
    """
    drop = decision.estimated_test_accuracy - decision.estimated_user_accuracy
    room = decision.margin - drop
    if decision.stderr == 0:
        return room
    # What the statistic would have to become.
    critical = stats.t.isf(decision.alpha, decision.dof)
    return float(room - critical * decision.stderr)
