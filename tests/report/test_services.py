"""A free trial from a CSV file to a decision: the file's errors, the words, the numbers."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.counterfactual.estimate import counterfactual_difference, estimate_from_nuisances
from lib.counterfactual.metrics import selective_score
from lib.report import ModelPredictions, Settings, explain, read_predictions, run_analysis
from lib.report.row_order import in_own_order
from lib.report.services import compare_services, comparison_table, decide
from lib.studies.counterfactual.classifiers import simulate, true_difference

NAN = math.nan


def services_of(x, scores, abstained):
    return ModelPredictions(
        test_features=x,
        test_scores=scores[0],
        other_scores=scores[1],
        test_abstained=abstained[0],
        other_abstained=abstained[1],
    )


def arrays(services):
    return zip(
        (services.test_scores, services.other_scores),
        (services.test_abstained, services.other_abstained),
        strict=True,
    )


def trial(gap, n=200, *, noise=0.1, hide=0.3, seed=0):
    """Services that differ by `gap`, up to `noise`; abstention is by chance."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    scores = [0.5 + sign * gap / 2 + noise * rng.normal(size=n) for sign in (1, -1)]
    return services_of(x, scores, [rng.random(n) < hide for _ in "ab"])


def linear(services, **options):
    return compare_services(services, **{"learner": "linear", "rng": 0, **options})


@pytest.fixture(scope="module")
def example():
    drawn = simulate(400, rng=1)
    return services_of(drawn.X, drawn.scores, drawn.abstained)


@pytest.mark.parametrize(
    ("gap", "margin", "decision"),
    [
        (0.2, 0.0, "choose A"),
        (-0.2, 0.0, "choose B"),
        (0.2, 0.1, "choose A"),
        (-0.2, 0.1, "choose B"),
        (0.2, 0.19, "undecided"),
        (0.2, 0.5, "undecided"),
        (0.0, 0.0, "undecided"),
    ],
)
def test_decisions(gap, margin, decision):
    found = linear(trial(gap), margin=margin)
    assert (found.decision, found.margin, found.warnings) == (decision, margin, ())
    low, high = found.difference.interval
    assert (low > margin) == (decision == "choose A")
    assert (high < -margin) == (decision == "choose B")
    assert (f": {decision}" in found.reason) == (decision != "undecided")


@pytest.mark.parametrize(
    ("interval", "margin", "decision"),
    [
        ((0.1, 0.2), 0.0, "choose A"),
        ((-0.2, -0.1), 0.0, "choose B"),
        ((-0.1, 0.2), 0.0, "undecided"),
        ((0.0, 0.2), 0.0, "undecided"),  # an end on the margin is not beyond it
        ((-0.2, 0.0), 0.0, "undecided"),
        ((0.1, 0.2), 0.1, "undecided"),
        ((0.1, 0.2), 0.05, "choose A"),
        ((-0.2, -0.1), 0.1, "undecided"),
        ((-0.2, -0.1), 0.05, "choose B"),
        ((-0.05, 0.05), 0.1, "undecided"),
    ],
)
def test_decide(interval, margin, decision):
    assert decide(*interval, margin) == decision
    mirrored = {"choose A": "choose B", "choose B": "choose A"}
    assert decide(-interval[1], -interval[0], margin) == mirrored.get(decision, decision)


def test_points_needed():
    """As many as make the interval, in proportion to 1/sqrt(n), end at the margin."""
    services = trial(0.1, n=100, noise=0.5, seed=2)
    found = linear(services)
    half = float(np.abs(np.array(found.difference.interval) - found.difference.value).min())
    needed = 100 * (half / abs(found.difference.value)) ** 2
    assert found.decision == "undecided"
    assert 100 < needed < 10_000, needed
    told = int(found.reason.split("it takes about ")[1].split(" points")[0].replace(",", ""))
    assert needed <= told <= 1.1 * needed
    # A difference within the margin, or one that is lost in noise, is not worth more points.
    for other in (linear(services, margin=0.2), linear(trial(0.1, n=100, noise=0.5))):
        assert other.decision == "undecided"
        assert "does not tell" in other.reason
        assert "it takes" not in other.reason


def test_selective_scores_that_mislead():
    """A answers its easy points only, all of B's are alike: seen scores prefer A, wrongly."""
    rng = np.random.default_rng(0)
    x = rng.random((600, 1))
    scores = (x[:, 0], np.full(600, 0.6) + 0.01 * rng.normal(size=600))
    services = services_of(
        x, scores, (rng.random(600) < 0.9 - 0.8 * x[:, 0], rng.random(600) < 0.3)
    )
    found = linear(services)
    assert found.decision == "choose B"
    assert "which misleads: it points the other way." in found.reason
    table = comparison_table(found)
    assert table["selective score"].iloc[2] > 0 > table["counterfactual score"].iloc[2]


def test_numbers_are_those_of_direct_calls(example):
    (a, b) = arrays(example)
    compared = linear(example, learner="forest")  # those of "linear" are calibrated besides
    direct = counterfactual_difference(example.test_features, *a, *b, learner="forest", rng=0)
    assert compared.difference.value == direct.value
    assert compared.difference.interval == direct.interval
    for i, (name, (scores, abstained)) in enumerate(zip("AB", (a, b), strict=True)):
        again = estimate_from_nuisances(direct.nuisances[i], clip=direct.clip)
        seen = selective_score(scores, abstained)
        assert compared.metrics.iloc[i].tolist() == [
            name,
            1 - abstained.mean(),
            seen.value,
            *seen.interval,
            again.value,
            *again.interval,
        ]


@pytest.mark.parametrize("learner", ["forest", "super"])
def test_deterministic_abstention_is_told_not_warned_of(learner):
    rng = np.random.default_rng(0)
    x = rng.random((200, 2))
    scores = (rng.random(200) < 0.8, rng.random(200) < 0.3)
    services = services_of(x, scores, (x[:, 0] > 0.5, rng.random(200) < 0.3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = compare_services(services, learner=learner, rng=0)
    assert caught == []
    assert found.difference.diagnostics[0].positivity
    texts = [text for text in found.warnings if "positivity fails" in text]
    assert len(texts) == 2  # by the fitted propensity, and by the feature itself
    assert all(text.startswith("A: ") for text in texts)
    assert "But A seems never, or hardly ever, to answer some inputs" in found.reason
    # A is far ahead wherever it answers; nothing is known of the rest.
    assert found.difference.interval[0] > 0
    assert found.decision == "undecided"


def told(drawn, a=True, b=True):
    services = services_of(drawn.X, drawn.scores, drawn.abstained)
    known = [p if given else None for p, given in zip(drawn.propensities, (a, b), strict=True)]
    return replace(services, test_propensities=known[0], other_propensities=known[1])


def test_known_propensities_take_the_place_of_fitted_ones():
    """A linear learner misses with its own (P4, experiment 1), with the true ones as it should."""
    missed, draws, few, truth = np.zeros(2, int), 16, 6, true_difference()
    for draw in range(draws):
        drawn = simulate(1000, rng=draw)
        for k in (0, 1) if draw < few else (1,):
            low, high = linear(told(drawn, k, k)).difference.interval
            missed[k] += not low <= truth <= high
    assert missed[0] > few / 2
    # The normal interval of 1,000 points with weights up to 5 misses in 5%.
    assert missed[1] <= stats.binom.isf(1e-4, draws, 0.05)


def test_what_one_service_tells_changes_nothing_of_the_other():
    drawn = simulate(500, rng=3)
    fitted, one, both = (
        linear(told(drawn, *given), learner="forest") for given in ((0, 0), (0, 1), (1, 1))
    )
    np.testing.assert_array_equal(one.difference.nuisances[1].propensity, drawn.propensities[1])
    for a, b in ((fitted, one), (one, both)):
        assert a.difference.value != b.difference.value
    values = [found.metrics.set_index("service")["counterfactual"] for found in (fitted, one, both)]
    for i, same in enumerate((fitted, both)):
        for name in ("clipped", "overlap", "largest_weight", "notes"):
            assert getattr(one.diagnostics[i], name) == getattr(same.diagnostics[i], name)
    assert values[1]["A"] == pytest.approx(values[0]["A"])
    assert values[1]["B"] == pytest.approx(values[2]["B"])


def test_told_propensities_are_not_clipped_where_the_others_are():
    """A told 0.95 where few answers are left: clipped at the usual 0.067 the estimate is biased."""
    rng, draws, truth = np.random.default_rng(6), 40, -0.25
    missed, values = 0, []
    for _ in range(draws):
        x = rng.uniform(-1, 1, (200, 1))
        rare = np.abs(x[:, 0]) < 0.5
        p = np.where(rare, 0.95, 0.1)
        scores = (rng.random(200) < np.where(rare, 0.2, 0.9), rng.random(200) < 0.8)
        services = services_of(x, scores, (rng.random(200) < p, rng.random(200) < 0.2))
        found = linear(replace(services, test_propensities=p)).difference
        missed += not found.interval[0] <= truth <= found.interval[1]
        values.append(found.value)
    error = np.std(values) / math.sqrt(draws)
    assert np.mean(values) == pytest.approx(truth, abs=4 * error)
    # Few answers with large weights: the normal interval misses in more than 5% (both told: 8%).
    assert missed <= stats.binom.isf(1e-4, draws, 0.10)


def test_a_step_in_the_propensity_is_calibrated_as_in_a_report():
    """No logistic curve: as fitted, 33 of 127 such intervals held the truth."""
    rng, draws, held, truth = np.random.default_rng(7), 16, 0, -0.035
    for _ in range(draws):
        x = rng.uniform(-2, 2, (800, 1))
        v = x[:, 0]
        p = np.where(v > 0.5, 0.9, 0.1)
        mean = np.where((v > 0.5) & (v < 1.2), 0.2, 0.9)  # on average 0.7775
        scores = rng.random(800) < mean, rng.random(800) < 0.8125
        services = services_of(x, scores, (rng.random(800) < p, rng.random(800) < 0.2))
        low, high = linear(services).difference.interval
        held += low <= truth <= high
    assert held >= stats.binom.ppf(1e-4, draws, 0.95)


@pytest.mark.parametrize("every", [2, 120])  # few of them are enough: no chance is in it
def test_rows_that_are_never_answered_by_what_is_told_decide_nothing(every):
    services = trial(0.3, 1000)
    never = services.test_abstained & (np.arange(1000) % every == 0)
    assert never.any()
    found = linear(replace(services, test_propensities=np.where(never, 1.0, 0.3)))
    assert found.decision == "undecided"
    assert any("known propensities are 1 in" in text for text in found.warnings)


def test_a_told_chance_of_an_answer_is_one_however_small():
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (4000, 1))
    p = np.where(x[:, 0] > 0, 0.985, 0.1)
    scores = tuple(mean + 0.05 * rng.normal(size=4000) for mean in (0.9, 0.3))
    services = services_of(x, scores, (rng.random(4000) < p, rng.random(4000) < 0.3))
    found = linear(replace(services, test_propensities=p, other_propensities=np.full(4000, 0.3)))
    assert found.decision == "choose A"
    assert not any("positivity fails" in text for text in found.warnings)


@pytest.mark.parametrize(("b", "decision"), [(0.0, "choose A"), (1.0, "undecided")])
def test_constant_scores(b, decision):
    x = np.arange(40.0)[:, None]
    hidden = np.arange(40) % 3 == 0
    services = services_of(x, (np.ones(40), np.full(40, b)), (hidden, hidden))
    found = linear(services)
    assert found.decision == decision
    assert ("as much as B" in found.reason) == (b == 1)
    low, high = found.difference.interval  # right answers alone do not make it a point
    assert high - low > 0.1
    assert not any("no interval" in text for text in found.warnings)
    # Nothing says how far scores that are not 0 or 1 may be from those seen.
    scores = (np.full(40, 0.5), np.full(40, b / 4))
    found = linear(services_of(x, scores, (hidden, hidden)))
    assert found.decision == "undecided"
    assert all(math.isnan(end) for end in found.difference.interval)
    assert any("there is no interval" in text for text in found.warnings)
    assert "(no interval). Without an interval the trial does not tell" in found.reason


def test_interval_of_the_selective_difference_knows_of_pairs():
    never = comparison_table(linear(trial(0.1, hide=0.0))).iloc[2]
    for end in ("low", "high"):
        assert never[f"selective {end}"] == pytest.approx(never[f"counterfactual {end}"])
    # A trial whose services answer different points has independent means.
    rng = np.random.default_rng(0)
    r = rng.random(400) < 0.5
    services = services_of(rng.random((400, 1)), (rng.random(400), rng.random(400)), (r, ~r))
    found = linear(services)
    parts = [selective_score(s, f).stderr for s, f in arrays(services)]
    last = comparison_table(found).iloc[2]
    half = (last["selective high"] - last["selective low"]) / 2
    # Student's quantile, of degrees in the hundreds, is larger by less than a hundredth.
    assert 1 < half / (stats.norm.isf(0.025) * math.hypot(*parts)) < 1.01


def test_a_file_tells_propensities(tmp_path):
    path, drawn = tmp_path / "trial.csv", simulate(40, rng=0)
    table = pd.DataFrame(drawn.X, columns=["x", "y"])
    for letter, s, r, p in zip(
        "ab", drawn.scores, drawn.abstained, drawn.propensities, strict=True
    ):
        table[f"score_{letter}"], table[f"abstained_{letter}"] = s, r.astype(int)
        table[f"propensity_{letter}"] = p
    table.to_csv(path, index=False)
    expected, found = linear(told(drawn)), linear(read_predictions(path))
    assert found.difference.value == pytest.approx(expected.difference.value)
    answered, hidden = (int(np.flatnonzero(drawn.abstained[0] == flag)[0]) for flag in (0, 1))
    wrongs = [(answered, text) for text in ("1.5", "-0.1", "often", "", "1")]
    for row, wrong in (*wrongs, (hidden, "0.0")):
        bad = table.astype({"propensity_a": object})
        bad.loc[row, "propensity_a"] = wrong
        bad.to_csv(path, index=False)
        with pytest.raises(ValueError, match="'propensity_a' must"):
            read_predictions(path)


HEADER = "k,x,score_a,abstained_a,score_b,abstained_b"
WORDS = {True: "yes", False: "0"}


def trial_file(folder, services, kinds):
    rows = [
        f"{kind},{x},{'' if a else s},{WORDS[bool(a)]},{'' if b else u},{WORDS[bool(b)]}"
        for kind, x, s, a, u, b in zip(
            kinds, services.test_features[:, 0], *(v for pair in arrays(services) for v in pair),
            strict=True,
        )
    ]  # fmt: skip
    path = folder / "trial.csv"
    path.write_text("\n".join([HEADER, *rows]))
    return path


def test_from_file_to_decision(tmp_path):
    """Text is one column for each category; a report compares the two as the function does."""
    services, kinds = trial(0.3), ["red" if i % 3 else "blue" for i in range(200)]
    read = read_predictions(trial_file(tmp_path, services, kinds))
    assert read.feature_names == ("k=blue", "k=red", "x")
    np.testing.assert_array_equal(read.test_features[:, 1], np.array(kinds) == "red")
    np.testing.assert_array_equal(read.test_features[:, 2], services.test_features[:, 0])
    for (s, r), (u, q) in zip(arrays(read), arrays(services), strict=True):
        np.testing.assert_array_equal(s, u)
        np.testing.assert_array_equal(r, q)
    found = compare_services(in_own_order(read), learner="forest", rng=0)
    assert found.decision == "choose A"
    table = explain(read).set_index("analysis")
    assert table.index[table["possible"]].tolist() == ["comparison"]
    report = run_analysis("comparison", read, Settings(seed=3))
    assert report.verdict == f"Decision: choose A. {found.reason}"
    assert report.values["difference"] == found.difference.value
    pd.testing.assert_frame_equal(report.tables["comparison"], comparison_table(found))
