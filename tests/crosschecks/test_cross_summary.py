"""All agreements with independent software, in one run and one table.

``COMPANION_CROSSCHECKS=1 pytest tests/crosschecks -k table`` shows the table.  The ``against_*``
modules beside this file compute what is compared.  Comparisons that live elsewhere, and are not
repeated:

=====================================================  ============================================
what, against what                                     where
=====================================================  ============================================
Gaussian mechanism without sampling, Balle and Wang    tests/training/test_accounting.py
one subsampled step, a sum over a fine grid            tests/training/test_accounting.py
label mechanisms, dp-accounting and mpmath             tests/training/test_labels.py
PATE, dp-accounting and mpmath                         tests/training/test_pate.py
projection onto the simplex, scipy's SLSQP             tests/training/test_labels.py
kernels and engines, Opacus' optimizer                 tests/training/test_engines.py, test_kernels
AUGRC, scikit-learn's AUROC; ties, all orders          tests/selective/test_curves.py
Welch's test, scipy; Holm's method, statsmodels        tests/suitability/test_noninferiority.py,
                                                       tests/suitability/test_equivalence.py
power and sample size, statsmodels                     tests/suitability/test_power.py
group-sequential designs, multivariate normal, tables  tests/suitability/test_sequential.py
reports' intervals, statsmodels                        tests/suitability/test_suitability_report.py,
                                                       tests/report/test_report_analyses.py
posterior of epsilon, QUADPACK and mpmath              tests/audit/test_posterior.py
Bayesian interval, privacy-estimates                   benchmarks/test_bench_audit.py
doubly robust estimates, DoubleML                      tests/counterfactual/test_doubleml.py
calibration, anova, Shapley values, scikit-learn, shap tests/suitability/test_importance.py
CBPE, nannyml; drift tests, alibi-detect               tests/crosschecks/test_cross_monitors.py
=====================================================  ============================================
"""

import math
import os
from dataclasses import replace

import against_accountants
import against_definitions  # noqa: F401  # its checks register themselves, as the others' do
import against_simulation  # noqa: F401
import against_statsmodels  # noqa: F401
import pytest
from agreements import CHECKS, Agreement, agreement, table

from lib.privacy import PrivacyLedger


@pytest.mark.parametrize("name", CHECKS)
def test_agrees_within_the_stated_tolerance(name):
    rows = CHECKS[name]()
    assert rows
    assert all(row.holds for row in rows), "\n" + table(rows)


def test_the_table_of_all_in_one_run(capsys):
    rows = [row for compute in CHECKS.values() for row in compute()]
    print("\n" + table(rows))
    printed = capsys.readouterr().out
    if os.environ.get("COMPANION_CROSSCHECKS"):
        with capsys.disabled():
            print(printed)
    assert all(row.holds for row in rows), printed
    assert len(printed.splitlines()) == len(rows) + 2
    assert all(row.quantity in printed and row.software in printed for row in rows)


@pytest.mark.long
def test_accountants_agree_for_the_other_profiles():
    rows = list(against_accountants.compare(against_accountants.LONG, against_accountants.MIXED))
    print("\n" + table(rows))
    assert all(row.holds for row in rows), "\n" + table(rows)


def test_a_wrong_accountant_would_be_seen():
    """Half the steps, or RDP in place of PLD, are beyond the tolerances."""
    (ledger, delta), *_ = against_accountants.ledgers(against_accountants.GRID[2:3])
    half = PrivacyLedger(tuple(replace(e, steps=e.steps // 2) for e in ledger.entries))
    exact = against_accountants.by_quadrature(ledger, delta)
    assert not agreement("", "", half.epsilon(delta), exact, 1e-6, "relative").holds
    pld = ledger.epsilon(delta, "pld")
    rdp = ledger.epsilon(delta)
    assert not agreement("", "", rdp, pld, against_accountants.WITHIN, "relative").holds


@pytest.mark.parametrize(
    ("ours", "theirs", "worst"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([math.nan], [math.nan], math.inf),
        ([math.inf], [math.inf], 0.0),
        ([math.inf], [1.0], math.inf),
        ([], [], math.inf),
    ],
)
def test_a_difference_is_seen(ours, theirs, worst):
    found = agreement("a", "b", ours, theirs, 0.4)
    assert found.worst == worst
    assert found.holds == (worst == 0.0)
    assert Agreement("a", "b", 1, 0.4, 0.4, "absolute").holds


def test_relative_differences_and_standard_errors():
    assert agreement("a", "b", [1.1], [1.0], 1, "relative").worst == pytest.approx(0.1)
    assert agreement("a", "b", [0.0], [0.0], 1, "relative").worst == 0.0
    assert agreement("a", "b", [1.0], [0.0], 1, "relative").worst == math.inf
    assert agreement("a", "b", [1.5], [1.0], 1, "standard errors", [0.1]).worst == pytest.approx(5)
