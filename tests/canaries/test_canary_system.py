"""Our own trainings under attack, on a small scale."""

import dataclasses
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from chapter_cells import settings_of
from scipy import stats

from lib.book.chapters import profile_parameters
from lib.book.claims import read_claims
from lib.studies.canaries import mechanisms

BOOK = Path(__file__).parents[2] / "book"
GIVEN = profile_parameters(BOOK.parent / "params", "quick", "canaries") | {"points": 400}
SMALL = {
    **{"hidden": 64, "learning_rates": [0.2], "canaries": 40, "n_models": 4, "groups": 8},
    **{"alibi_epsilons": [20.0, 1.0], "agibi_epsilons": [20.0, 1.0], "rr_epsilons": [20.0]},
    **{"pate_sigma1": [2.0], "pate_sigma2": [1.0], "pate_thresholds": [5.0], "pate_answers": [50]},
    **{"n_teachers": 8, "n_ensembles": 1, "pate_queries": 200, "pate_steps": 40, "seed": 3},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        settings = settings_of("canaries", GIVEN | SMALL, "digits")
        patch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
        results = mechanisms.run_mechanisms(settings)
        yield settings, results, mechanisms.run_designs(settings, results)


@pytest.fixture
def results(runs):
    return runs[1]


def test_everything_is_trained(results):
    names = [(r.name, r.level) for r in results]
    assert names == [
        ("none", 0),
        ("ALIBI", 0),
        ("ALIBI", 1),
        ("ALIBI, projected", 0),
        ("ALIBI, projected", 1),
        ("AGIBI", 0),
        ("AGIBI", 1),
        ("RR", 0),
        ("RR, two stages", 0),
        ("PATE", 0),
    ]
    for each in results:
        trainings = 1 if each.name == "PATE" else 4
        assert len(each.accuracy) == trainings
        assert each.confidences.shape[1:] == (40 * trainings, 10)
        assert each.canary_labels.shape == each.true_labels.shape == (40 * trainings,)
        assert (each.canary_labels != each.true_labels).all()
    claimed = {(r.name, r.level): r.claimed for r in results}
    assert math.isinf(claimed["none", 0])
    assert claimed["ALIBI", 1] == pytest.approx(1.0)
    assert claimed["AGIBI", 1] == pytest.approx(1.0)
    assert claimed["RR", 0] == pytest.approx(20.0)


def test_canaries_differ_between_trainings_and_mechanisms(results):
    labels = [tuple(r.canary_labels) for r in results]
    assert len(set(labels)) == len(labels)
    parts = results[0].canary_labels.reshape(4, 40)
    assert len({tuple(p) for p in parts}) == 4


def test_models_without_privacy_memorise_and_private_ones_do_not(results):
    table = mechanisms.mechanism_table(results).set_index(["mechanism", "level"])
    assert table.loc[("none", 0), "accuracy"] > 0.8
    assert table.loc[("none", 0), "top label"] > 1
    assert table.loc[("ALIBI", 1), "top label"] < 1
    assert table.loc[("ALIBI", 0), "accuracy"] > table.loc[("ALIBI", 1), "accuracy"]
    mechanisms.require_consistent(results)


def test_groups_hold_the_canaries_of_the_first_training_once_each(runs):
    settings, results, (together, apart) = runs
    alibi, truth = results[1], np.asarray(settings.data.load().training.targets)
    changes = mechanisms._grouped(settings).changes
    whole = changes[0].whole.draw(truth)
    changed = [np.flatnonzero(each.apply(truth) != truth) for each in changes]
    assert [len(rows) for rows in changed] == [5] * 8
    np.testing.assert_array_equal(np.sort(np.concatenate(changed)), np.sort(whole.positions))
    for rows, each in zip(changed, changes, strict=True):
        np.testing.assert_array_equal(each.apply(truth)[rows], whole.apply(truth)[rows])
        np.testing.assert_array_equal(each.watched(truth), whole.positions)
    np.testing.assert_array_equal(together.confidences[0], alibi.confidences[-1, :40])
    for each in (together, apart):
        np.testing.assert_array_equal(each.canary_labels, whole.canary_labels)
        np.testing.assert_array_equal(each.true_labels, truth[whole.positions])
    assert len(apart.accuracy) == 8
    assert apart.confidences.shape == together.confidences.shape == (1, 40, 10)
    with pytest.raises(ValueError, match=r"groups must be at most 40 \(canaries\), got 41"):
        replace(settings, groups=41)


def test_a_canary_is_judged_by_the_model_that_was_trained_on_it(runs):
    """Epsilon is 20: labels are hardly noised, and remembered where they were trained with."""
    _, _, (together, apart) = runs
    rows = np.arange(40)
    own = apart.confidences[0, rows, apart.canary_labels]
    other = (1 - own - apart.confidences[0, rows, apart.true_labels]) / 8
    assert own.mean() > 2 * other.mean()
    differences = mechanisms.design_differences(together, apart)
    right = [
        mechanisms.top_label_guesses(*each.final, 0.0).correct.mean() for each in (together, apart)
    ]
    assert differences.shape == (8,)
    assert differences.mean() == pytest.approx(right[0] - right[1])


def test_differences_of_designs_by_hand(runs):
    _, _, (together, _) = runs
    p = np.full((4, 5), 0.125)
    p[:, 3] = 0.5  # everybody names 3
    labels = {"canary_labels": np.array([3, 3, 2, 3]), "true_labels": np.zeros(4, int)}
    one = replace(together, confidences=p[None], accuracy=np.zeros(1), **labels)
    none = replace(one, confidences=p[None, :, [0, 1, 2, 4, 3]], accuracy=np.zeros(2))
    # groups {0, 2} and {1, 3}: right 1 of 2 and 2 of 2 in the one, never in the other
    np.testing.assert_allclose(mechanisms.design_differences(one, none), [0.5, 1.0])


def test_what_pate_publishes_lies_between_its_limits_and_knows_its_order(results):
    table = mechanisms.release_table(results)
    assert list(table["level"]) == [0]
    row = table.iloc[0]
    pate = results[-1]
    assert row["by the votes (private)"] == pate.claimed
    assert row["before"] == pate.notes["data-independent epsilon"]
    assert row["by the votes (private)"] <= row["without the votes"] <= row["before"]
    assert 0 < row["low"] < row["high"]
    assert row["published"] > 0


def test_a_broken_mechanism_is_caught(results):
    free = results[0]
    lie = dataclasses.replace(free, name="ALIBI", claimed=0.5)
    with pytest.raises(
        mechanisms.CanaryContradiction, match=r"ALIBI, level 0: .* but 0.500 is proven"
    ):
        mechanisms.require_consistent([lie])
    # Of PATE only what was sure before anything was asked is held against it.
    pate = dataclasses.replace(lie, name="PATE", notes={"data-independent epsilon": 50.0})
    mechanisms.require_consistent([pate])
    with pytest.raises(mechanisms.CanaryContradiction, match=r"but 0\.100 is proven"):
        mechanisms.require_consistent(
            [dataclasses.replace(pate, notes={"data-independent epsilon": 0.1})]
        )


def test_all_results_share_the_error(results):
    """Ten results in two games: each bound has a twentieth of the error."""
    free, level = results[0], 0.999

    def bound(at):
        return max(free.one_label_bound(at), free.top_label_bound(at))

    alone, shared = bound(level), bound(1 - (1 - level) / 20)
    assert 0 < shared < alone
    for claimed, refuted in ((alone - 1e-6, False), (shared - 1e-6, True)):
        lies = [dataclasses.replace(free, claimed=claimed)] * 10
        if refuted:
            with pytest.raises(mechanisms.CanaryContradiction, match="for all results together"):
                mechanisms.require_consistent(lies, level)
        else:
            mechanisms.require_consistent(lies, level)


def test_memorisation_adds_up(results):
    steps = list(range(100, 1001, 100))
    table = mechanisms.memorisation_table(results, steps)
    assert set(table["mechanism"]) == {r.name for r in results} - {"PATE"}
    np.testing.assert_allclose(table["canary"] + table["true"] + 8 * table["other"], 1, atol=1e-5)
    free = table[table["mechanism"] == "none"]
    assert free["canary"].iloc[-1] > free["canary"].iloc[0]


def test_advantage_and_overlap_by_hand():
    table = pd.DataFrame(
        [
            ("ALIBI", 4.0, 0.9),
            ("ALIBI", 1.0, 0.7),
            ("AGIBI", 16.0, 0.85),
            ("AGIBI", 2.0, 0.75),
            ("AGIBI", 0.5, 0.99),  # below ALIBI's range: not compared
        ],
        columns=["mechanism", "claimed", "accuracy"],
    )
    # At epsilon = 2, half-way in log epsilon: 0.8; above the range 0.9.
    assert mechanisms.advantage_at_equal_epsilon(table, "ALIBI", "AGIBI") == pytest.approx(0.05)
    first = pd.DataFrame({"low": [0.0, 1.0], "high": [2.0, 2.0]})
    second = pd.DataFrame({"low": [1.0, 2.5], "high": [3.0, 4.0]})
    assert mechanisms.least_overlap(first, second) == pytest.approx(-0.5)
    second["high"] = [3.0, math.inf]
    assert mechanisms.least_overlap(first, second) == pytest.approx(1.0)
    assert math.isnan(mechanisms.least_overlap(first.iloc[1:], second.iloc[1:]))


def test_accounting_table_by_hand():
    table = mechanisms.accounting_table([8.0, 1.0], 1e-5)
    np.testing.assert_allclose(table["Laplace, sd"], [np.sqrt(2) / 4, np.sqrt(2) * 2])
    assert (table["Gaussian, by RDP"] > table["epsilon"]).all()
    # Exact: hockey-stick divergence of two normal distributions sqrt(2) apart.
    for row in table.itertuples(index=False):
        mu = math.sqrt(2) / row[2]
        beyond = stats.norm.cdf(mu / 2 - row[0] / mu)
        spent = beyond - math.exp(row[0]) * stats.norm.cdf(-mu / 2 - row[0] / mu)
        assert spent == pytest.approx(1e-5, rel=1e-6)


def test_accuracies_stand_beside_p5s_only_where_network_data_and_settings_are_its_own(results):
    """By claim of the ledger; PATE's row is found by its noise, wherever in the run it stands."""
    pate = {"pate_sigma1": [800.0], "pate_sigma2": [300.0], "pate_thresholds": [400.0]}
    given = GIVEN | pate | {"pate_answers": [250], "n_teachers": 800}
    settings = settings_of("canaries", given | {"agibi_epsilons": [19.0, 7.7, 3.0]}, "digits")
    claims = [c for c in read_claims(BOOK / "claims.yml") if c.startswith("P5-A")]
    one = next(r for r in results if r.name == "PATE")
    given = [replace(one, level=0), *(replace(one, name=n, level=2) for n in ("ALIBI", "AGIBI"))]
    found = mechanisms.accuracy_cells(given, settings)
    assert sorted(found) == sorted(claims)
    assert found.pop("P5-A4-cifar100") == "P5 prints no budget for this row"
    assert set(found.values()) == {"trained here: mlp on digits"}
    resnet = replace(settings.model, name="resnet18", inputs=(3, 32, 32))
    theirs = replace(
        settings, model=resnet, data=replace(settings.data, name="cifar10", features="images"),
        fixmatch=replace(settings.fixmatch, model=resnet),
    )  # fmt: skip
    found = {k: v for k, v in mechanisms.accuracy_cells(given, theirs).items() if "cifar10-" in k}
    decided = {k for k, v in found.items() if not isinstance(v, str)}
    places = {f"P5-A3-cifar10-M-{what}" for what in ("ensemble", "student")}
    assert decided == {*places, "P5-A6-cifar10-ALIBI-L"}  # AGIBI's lowest epsilon is not P5's
    assert found["P5-A3-cifar10-M-ensemble"] is one.notes["label accuracy"]
    assert "no training of this run" in found["P5-A6-cifar10-AGIBI-L"]
