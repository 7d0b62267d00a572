"""Our own trainings under attack: what is inserted where, what contradicts a proof."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from chapter_cells import settings_of
from scipy import stats

from lib.studies.canaries import mechanisms as system
from lib.studies.canaries.draws import CanaryDraw, CanaryGroup


def result(sure, n=400, classes=10, **changes):
    """Models that name the canary's label in so many of n canaries, another one in the rest."""
    rng = np.random.default_rng(0)
    true = rng.integers(classes, size=n)
    canary = (true + 1) % classes
    named = np.where(np.arange(n) < sure, canary, (true + 2) % classes)
    p = np.full((n, classes), 0.2 / classes)
    p[np.arange(n), named] += 0.8
    given = {"name": "ALIBI", "level": 0, "claimed": 0.5, "delta": 0.0, "accuracy": np.ones(1)}
    labels = {"canary_labels": canary, "true_labels": true}
    return system.MechanismResult(**(given | labels | {"confidences": p[None]} | changes))


def test_groups_hold_the_canaries_of_the_first_training_once_each():
    truth, whole = np.arange(500) % 10, CanaryDraw(40, 10, 3)
    groups = [CanaryGroup(whole, i, 8) for i in range(8)]
    changed = [np.flatnonzero(each.apply(truth) != truth) for each in groups]
    assert [len(rows) for rows in changed] == [5] * 8
    assert sorted(np.concatenate(changed)) == sorted(whole.watched(truth))
    for rows, each in zip(changed, groups, strict=True):
        assert np.array_equal(each.apply(truth)[rows], whole.apply(truth)[rows])
        assert np.array_equal(each.watched(truth), whole.watched(truth))


def test_differences_of_designs_by_hand():
    p = np.full((4, 5), 0.125)
    p[:, 3] = 0.5  # everybody names 3
    labels = {"canary_labels": np.array([3, 3, 2, 3]), "true_labels": np.zeros(4, int)}
    one = result(0, confidences=p[None], **labels)
    none = replace(one, confidences=p[None, :, [0, 1, 2, 4, 3]], accuracy=np.zeros(2))
    # groups {0, 2} and {1, 3}: right 1 of 2 and 2 of 2 in the one, never in the other
    np.testing.assert_allclose(system.design_differences(one, none), [0.5, 1.0])


def test_a_broken_mechanism_is_caught():
    system.require_consistent([result(60)])
    with pytest.raises(system.CanaryContradiction, match="ALIBI, level 0"):
        system.require_consistent([result(300)])
    # Of PATE only what was sure before anything was asked is held against it.
    pate = result(300, name="PATE", notes={"data-independent epsilon": 50.0})
    system.require_consistent([pate])
    with pytest.raises(system.CanaryContradiction, match=r"0\.100 is proven"):
        system.require_consistent([replace(pate, notes={"data-independent epsilon": 0.1})])


def test_all_results_share_the_error():
    """Ten results in two games: each bound has a twentieth of the error."""
    free, level = result(300), 0.999

    def bound(at):
        return max(free.one_label_bound(at), free.top_label_bound(at))

    alone, shared = bound(level), bound(1 - (1 - level) / 20)
    assert 0 < shared < alone
    system.require_consistent([replace(free, claimed=alone - 1e-6)] * 10, level)
    with pytest.raises(system.CanaryContradiction, match="all results"):
        system.require_consistent([replace(free, claimed=shared - 1e-6)] * 10, level)


def test_advantage_and_overlap_by_hand():
    rows = [
        ("ALIBI", 4.0, 0.9),
        ("ALIBI", 1.0, 0.7),
        ("AGIBI", 16.0, 0.85),
        ("AGIBI", 2.0, 0.75),
        ("AGIBI", 0.5, 0.99),  # below ALIBI's range: not compared
    ]
    table = pd.DataFrame(rows, columns=["mechanism", "claimed", "accuracy"])
    # At epsilon = 2, half-way in log epsilon: 0.8; above the range 0.9.
    assert system.advantage_at_equal_epsilon(table, "ALIBI", "AGIBI") == pytest.approx(0.05)
    first = pd.DataFrame({"low": [0.0, 1.0], "high": [2.0, 2.0]})
    second = pd.DataFrame({"low": [1.0, 2.5], "high": [3.0, 4.0]})
    assert system.least_overlap(first, second) == pytest.approx(-0.5)
    second["high"] = [3.0, math.inf]
    assert system.least_overlap(first, second) == pytest.approx(1.0)
    assert math.isnan(system.least_overlap(first.iloc[1:], second.iloc[1:]))


def test_accounting_table_by_hand():
    table = system.accounting_table([8.0, 1.0], 1e-5)
    np.testing.assert_allclose(table["Laplace, sd"], [np.sqrt(2) / 4, np.sqrt(2) * 2])
    assert (table["Gaussian, by RDP"] > table["epsilon"]).all()
    # Exact: hockey-stick divergence of two normal distributions sqrt(2) apart.
    for row in table.itertuples(index=False):
        mu = math.sqrt(2) / row[2]
        beyond = stats.norm.cdf(mu / 2 - row[0] / mu)
        spent = beyond - math.exp(row[0]) * stats.norm.cdf(-mu / 2 - row[0] / mu)
        assert spent == pytest.approx(1e-5, rel=1e-6)


def test_students_are_trained_as_teachers_but_for_what_is_given():
    given = {"pate_steps": 7, "pate_learning_rate": 0.2}
    own = {"steps": 30, "rate": 0.1, "policy": "photo"}
    settings = settings_of("canaries", given | {f"pate_student_{k}": own[k] for k in own}, "digits")
    (teacher,) = {replace(each.config, seed=0) for each in system._teachers(settings)}
    (student,) = {replace(each.student, seed=0) for each in system._students(settings)}
    assert (teacher.steps, teacher.learning_rate, teacher.weak) == (7, 0.2, "digits")
    assert student == replace(teacher, steps=30, learning_rate=0.1, weak="photo", strong="photo")
    settings = settings_of("canaries", given, "digits")
    assert {replace(each.student, seed=0) for each in system._students(settings)} == {teacher}
