"""Intervals decide: how often the verdicts err, and what a bare number is worth."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lib.book import evidence
from lib.book.__main__ import main
from lib.book.claims import (
    NOT_REPRODUCED,
    REDUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    judge,
    judged_anew,
    read_claims,
)
from lib.book.evidence import Evidence
from lib.book.execute import execute_chapter
from lib.book.records import read_records, write_record
from lib.selective import normalized_score
from lib.selective.uncertainty import compare_over_seeds, mean_over_seeds

BASE = {"id": "A", "paper": "P2", "chapter": "one", "place": "Table 1", "claim": "So."}
BASE |= {"kind": "trend", "why": "chance.", "across": "trainings"}
REPETITIONS = 2000


def make(**changes) -> Claim:
    return Claim(**(BASE | changes))


def verdicts(found, claim=None):
    claim = make(at_least=0.0) if claim is None else claim
    words = [judge(claim, one, {}).verdict for one in found]
    return {word: words.count(word) for word in (REPRODUCED, NOT_REPRODUCED, UNDECIDED)}


def most(rate: float, n: int = REPETITIONS) -> float:
    """More errors than these a procedure of this rate has once in 10,000 simulations."""
    return float(stats.binom.isf(1e-4, n, rate))


def errs_at_its_level(found, uses_it_up: bool) -> None:
    """Either verdict is as rare as it says, and not by never deciding."""
    words = verdicts(found)
    errors = words[REPRODUCED], words[NOT_REPRODUCED]
    assert max(errors) <= most(0.025)
    assert not uses_it_up or min(errors) >= stats.binom.ppf(1e-4, REPETITIONS, 0.025)


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_without_an_effect_either_verdict_is_as_rare_as_it_says(n, step):
    """Also of values with ties, as accuracies on few points have."""
    rng = np.random.default_rng([n, int(10 * step)])
    values = rng.standard_normal((REPETITIONS, n))
    if step:
        values = np.round(values / step) * step
    errs_at_its_level((evidence.runs(row) for row in values), uses_it_up=not step)


@pytest.mark.parametrize(("n", "documented"), [(3, 0.11), (5, 0.11), (10, 0.10)])
def test_skewed_runs_err_on_one_side_as_documented(n, documented):
    """Exponential runs, by chance not further from what the function says; differences do not."""
    values = np.random.default_rng(n).exponential(size=(2, REPETITIONS, n)) - 1
    words = verdicts(evidence.runs(row) for row in values[0])
    least, largest = stats.binom.interval(1 - 2e-4, REPETITIONS, documented)
    assert least <= words[NOT_REPRODUCED] <= largest
    assert words[REPRODUCED] <= most(0.025)
    errs_at_its_level(map(evidence.runs, values[0] - values[1]), uses_it_up=False)


SHAPES = {
    "normal": (lambda rng, size: rng.standard_normal(size), 0.03),
    "exponential": (lambda rng, size: rng.exponential(size=size) - 1, 0.1),
}


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_welch_of_few_runs_as_the_pages_tests_use_it(n, times, shape):
    """Two methods of the same mean: a side errs in 0.03 at most, in 0.1 if one is skewed and wide.

    A difference that it calls "not beyond chance" is called so too seldom then, not too often.
    """
    draw, skewed_and_wide = SHAPES[shape]
    rng = np.random.default_rng([n, times])
    one, other = draw(rng, (REPETITIONS, n)), times * draw(rng, (REPETITIONS, n))
    found = stats.ttest_ind(one, other, axis=1, equal_var=False)
    level = skewed_and_wide if times > 1 else 0.03
    for sign in (1, -1):
        errors = np.count_nonzero((found.pvalue <= 0.05) & (sign * found.statistic > 0))
        assert errors <= most(level)
    both = np.count_nonzero(found.pvalue <= 0.05)
    assert both > most(0.05) if shape == "exponential" and times > 1 else both <= most(0.06)


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("points", [0.0, 0.3, 10.0])
def test_over_trainings_and_points_either_verdict_is_as_rare_as_it_says(n, points):
    """`points` is the variance due to points in units of that of a mean of the trainings."""
    rng = np.random.default_rng([n, int(10 * points)])
    variance = points / n
    values = rng.standard_normal((REPETITIONS, n))
    values += math.sqrt(variance) * rng.standard_normal((REPETITIONS, 1))  # the same points for all
    means = (mean_over_seeds(row, variance, 1000) for row in values)
    errs_at_its_level((evidence.of_mean(mean, n) for mean in means), uses_it_up=not points)


def rare_errors(rng, n, runs):
    """Common errors that one score ranks low, and rare ones that the other ranks first."""
    u = rng.random(n)
    common, rare = u < 0.05, (u >= 0.05) & (u < 0.06)
    one, other = rng.random((2, runs, n))
    one[:, common] = 0.1 + 0.2 * one[:, common]
    other[:, common] *= 0.1
    one[:, rare] *= 0.1
    other[:, rare] = 0.98 + 0.02 * other[:, rare]
    correct = np.tile(~(common | rare), (runs, 1))
    return correct, one, correct, other


def test_a_few_points_that_decide_are_not_taken_for_all_there_are():
    """Three of 300 points carry the difference: by the variance alone one side errs in 5%."""
    rng = np.random.default_rng(1)
    correct, one, _, other = rare_errors(rng, 10**6, 1)
    true = normalized_score(correct[0], one[0]) - normalized_score(correct[0], other[0])
    errors, plain, repetitions = np.zeros(2, int), 0, 400
    for _ in range(repetitions):
        mean = compare_over_seeds(*rare_errors(rng, 300, 5))
        found = evidence.of_mean(mean, 5)
        errors += [found.low > true, found.high < true]
        plain += evidence.of_mean(replace(mean, few=None), 5).low > true
    assert errors.max() <= most(0.025, repetitions)
    assert plain > errors[0]


def test_an_effect_is_found_and_one_on_the_other_side_refuted():
    rng = np.random.default_rng(7)
    values = rng.normal(3, 1, (400, 5))
    assert verdicts(evidence.runs(row) for row in values)[REPRODUCED] > 380
    assert verdicts(evidence.runs(-row) for row in values)[NOT_REPRODUCED] > 380


@pytest.mark.parametrize("turn", [1, -1])
def test_a_claim_on_all_of_several_errs_no_more_often(turn):
    """Four effects of 0: refuted by the least of them; one of 0 beside large ones: reproduced."""
    rng = np.random.default_rng([3, turn + 1])
    of = evidence.least if turn == 1 else evidence.largest
    claim = make(at_least=0.0) if turn == 1 else make(at_most=0.0)
    values = rng.standard_normal((500, 4, 3))
    none = verdicts((of(evidence.runs, row) for row in values), claim)
    assert none[NOT_REPRODUCED] <= most(0.025, 500)
    values[:, 1:] += 1000 * turn
    one = verdicts((of(evidence.runs, row) for row in values), claim)
    assert one[REPRODUCED] <= most(0.025, 500)
    assert one[REPRODUCED] >= stats.binom.ppf(1e-4, 500, 0.025)


@pytest.mark.parametrize(("n", "p"), [(20, 0.05), (100, 0.05), (100, 0.5), (7, 0.5)])
def test_fractions_err_no_more_often(n, p):
    """By enumeration of all counts."""
    claim = make(at_least=p)
    chance = {REPRODUCED: 0.0, NOT_REPRODUCED: 0.0, UNDECIDED: 0.0}
    for count in range(n + 1):
        found = judge(claim, evidence.share(count, n), {})
        chance[found.verdict] += stats.binom.pmf(count, n, p)
    assert chance[REPRODUCED] <= 0.025
    assert chance[NOT_REPRODUCED] <= 0.025


@pytest.mark.parametrize(("cells", "of"), [(1, 1), (10, 1), (1, 3), (10, 3)])
def test_the_range_of_twenty_shuffles_holds_one_more_in_nineteen_of_21(cells, of):
    rng = np.random.default_rng(5)
    values = rng.standard_normal((REPETITIONS, 21 * of))
    found = {REPRODUCED: 0, UNDECIDED: 0, NOT_REPRODUCED: 0}
    ranged = {"kind": "statistical", "tolerance": 0.0, "fewest": 20, "in_range": True}
    for row in values:
        claim = make(reported=row[:of].mean(), cells=cells, **ranged)
        found[judge(claim, evidence.range_of(row[of:], of), {}).verdict] += 1
    inside = REPETITIONS - found[REPRODUCED]
    assert stats.binom.ppf(1e-4, REPETITIONS, 2 / 21) <= inside <= most(2 / 21)
    refuted = 0.05 / cells
    assert stats.binom.ppf(1e-4, REPETITIONS, refuted) <= found[NOT_REPRODUCED] <= most(refuted)


@pytest.mark.parametrize("n", [3, 20, 50])
def test_how_far_a_further_value_lies_beyond_the_range(n):
    assert evidence.ranges_beyond(n, 2 / (n + 1)) == pytest.approx(0, abs=1e-6)
    rng = np.random.default_rng(n)
    values = np.sort(rng.standard_normal((100_000, n)))
    low, high, one = values[:, 0], values[:, -1], rng.standard_normal(100_000)
    for probability in (0.02, 0.001):
        rest = evidence.ranges_beyond(n, probability) * (high - low)
        count = ((one < low - rest) | (one > high + rest)).sum()
        assert stats.binom.ppf(1e-4, 100_000, probability) <= count
        assert count <= stats.binom.isf(1e-4, 100_000, probability)


def test_the_ledger_counts_the_cells_that_are_judged_by_their_range():
    claims = read_claims(Path(__file__).parents[2] / "book" / "claims.yml")
    cells = {claim.cells for claim in claims.values() if claim.in_range}
    assert cells == {sum(claim.in_range for claim in claims.values())}
    assert {claim.cells for claim in claims.values() if not claim.in_range} == {1}


def test_ends_by_tables():
    found = evidence.runs([1.0, 2.0, 3.0])
    half = 4.302653 / math.sqrt(3)  # Student's quantile, two degrees of freedom
    assert (found.value, found.n) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), abs=1e-6)
    z = evidence.standardized(2.0, 3)
    assert (z.low, z.high) == pytest.approx((2 - 4.302653, 2 + 4.302653), abs=1e-6)
    families = evidence.hull([[1.0, 2.0, 3.0], [11.0, 12.0, 13.0]])
    assert families == Evidence(2.0, found.low, found.high + 10, 3)
    two = evidence.least(evidence.runs, [[1.0, 2.0, 3.0], [11.0, 12.0, 13.0]])
    assert (two.value, two.low) == (2.0, found.low)
    assert two.high == pytest.approx(2 + 6.205347 / math.sqrt(3), abs=1e-6)  # t at 0.0125


@pytest.mark.parametrize(
    "values", [[0.3], [0.3, 0.3], [0.3, 0.3 + 1e-16, 0.3], [0.3, math.nan], []]
)
def test_runs_that_tell_no_spread_decide_nothing(values):
    found = evidence.runs(values)
    assert (found.low, found.high) == (-math.inf, math.inf)
    verdict = judge(make(at_least=0.0), found, {})
    assert verdict.verdict == UNDECIDED
    assert verdict.interval is None
    assert verdict.reason


def test_a_bare_number_decides_nothing_about_a_random_quantity():
    verdict = judge(make(at_least=0.0, full_scale={"n": 9}), 0.0004, {"n": 2})
    assert (verdict.verdict, verdict.value) == (UNDECIDED, 0.0004)
    assert verdict.reason == "n = 2 instead of 9, no interval over trainings"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 0.2, REPRODUCED),
        (0.0, 0.2, UNDECIDED),  # touches the bound: 0 is not excluded
        (-0.1, 0.2, UNDECIDED),
        (-0.2, 0.0, UNDECIDED),
        (-0.2, -0.1, NOT_REPRODUCED),
        (0.1, math.inf, REPRODUCED),
        (-math.inf, -0.1, NOT_REPRODUCED),
    ],
)
def test_the_side_of_the_interval_decides(low, high, verdict):
    claim = make(at_least=0.0, full_scale={"n": 9})
    found = Evidence(0.05, low, high, 3)
    assert judge(claim, found, {"n": 9}).verdict == verdict
    reduced = {REPRODUCED: REDUCED, NOT_REPRODUCED: NOT_REPRODUCED, UNDECIDED: UNDECIDED}
    smaller = judge(claim, found, {"n": 2})
    assert smaller.verdict == reduced[verdict]
    assert smaller.reason == "n = 2 instead of 9"


def test_a_level_is_kept_if_it_is_known_to_be_nearly_kept():
    claim = make(at_most=0.05, slack=0.02)
    for low, high, verdict in (
        (0.03, 0.069, REPRODUCED),
        (0.03, 0.071, UNDECIDED),
        (0.051, 0.069, NOT_REPRODUCED),  # above the level for sure, however little
    ):
        assert judge(claim, Evidence(0.06, low, high, 9), {}).verdict == verdict


def test_what_an_interval_leaves_out_keeps_both_verdicts_open():
    claim = make(at_least=0.0, leeway=0.02)
    assert claim.criterion == "at least 0, clear by 0.02, by the interval over trainings"
    for low, high, verdict in (
        (0.021, 0.05, REPRODUCED),
        (0.019, 0.05, UNDECIDED),
        (-0.05, -0.019, UNDECIDED),
        (-0.05, -0.021, NOT_REPRODUCED),
    ):
        assert judge(claim, Evidence((low + high) / 2, low, high, 5), {}).verdict == verdict
        mirrored = make(at_most=0.0, leeway=0.02)
        assert judge(mirrored, Evidence(-(low + high) / 2, -high, -low, 5), {}).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "ends", "verdict"),
    [
        (-0.1, 0.3, [0.0, 0.3], REPRODUCED),
        (-1.3, 3.1, [0.0, 1.0], UNDECIDED),
        (0.2, math.inf, [0.2, None], UNDECIDED),
        (0.6, 1.3, [0.6, 1.0], NOT_REPRODUCED),
        (-math.inf, math.inf, None, UNDECIDED),
    ],
)
def test_an_interval_is_cut_where_the_quantity_ends(low, high, ends, verdict):
    claim = make(at_most=0.5, possible=[0, 1])
    judged = judge(claim, Evidence(0.4, low, high, 3), {})
    assert (judged.interval, judged.verdict) == (ends, verdict)


def test_few_shuffles_reproduce_but_do_not_refute():
    claim = make(kind="statistical", reported=0.5, tolerance=0.0005, fewest=20, in_range=True)
    inside, outside = np.linspace(0.4, 0.6, 20), np.linspace(0.6, 0.7, 20)
    assert judge(claim, evidence.range_of(inside), {}).verdict == REPRODUCED
    assert judge(claim, evidence.range_of(inside[:15]), {}).verdict == REPRODUCED
    assert judge(claim, evidence.range_of(outside), {}).verdict == NOT_REPRODUCED
    near = np.linspace(0.503, 0.603, 20)  # outside of the range, as 2 in 21 are by chance
    assert judge(claim, evidence.range_of(near), {}).verdict == UNDECIDED
    assert judge(claim, evidence.range_of(outside[:19]), {}).verdict == UNDECIDED
    assert judge(claim, evidence.range_of([0.5004]), {}).verdict == REPRODUCED  # rounding


def test_a_distance_in_standard_errors_needs_repetitions_for_a_hit():
    claim = make(at_most=3.0, fewest=200)
    assert judge(claim, evidence.point(2.0, 200), {}).verdict == REPRODUCED
    assert judge(claim, evidence.point(2.0, 199), {}).verdict == UNDECIDED
    assert judge(claim, evidence.point(4.0, 30), {}).verdict == NOT_REPRODUCED
    cells = evidence.counted({"a": (2.0, 0.4, 30), "b": "no data"})
    assert cells == {"a": (evidence.point(2.0, 30), 0.4), "b": "no data"}


def test_records_are_judged_by_the_condition_as_it_stands():
    claims = {"A": make(at_least=0.0), "B": make(id="B", kind="exact", across=None, at_least=0)}
    kept = {"verdict": REPRODUCED, "reason": "", "shown": None}
    run = {
        "verdicts": [
            kept | {"id": "A", "value": 0.0004},  # of before intervals were kept
            kept | {"id": "B", "value": -1.0},
            kept | {"id": "gone", "value": 1.0},
        ]
    }
    found = judged_anew(claims, run)["verdicts"]
    assert [(v["id"], v["verdict"]) for v in found] == [("A", UNDECIDED), ("B", NOT_REPRODUCED)]
    for ends, word in (
        (evidence.runs([1.0, 1.1, 1.2]), REPRODUCED),
        (Evidence(1.0, 0.5, math.inf, 3), REPRODUCED),
        (Evidence(1.0, -math.inf, -0.5, 3), NOT_REPRODUCED),
    ):
        once = judge(claims["A"], ends, {}).as_dict()
        again = judged_anew(claims, {"verdicts": [once]})["verdicts"]
        assert again == [once]
        assert once["verdict"] == word


def test_what_stands_in_for_parameters_is_executed_and_recorded(tmp_path):
    """From a chapter's own words to the record that claims are judged by."""
    cells = ["from lib.book.session import open_chapter", "chapter = open_chapter('one', {})"]
    cells += ["chapter.uses(epochs=25.7)", "chapter.uses(epochs=26.0, dataset='digits')"]
    path = tmp_path / "book" / "one.py"
    path.parent.mkdir()
    path.write_text("\n\n".join(f"# %%\n{cell}" for cell in cells) + "\n")
    done = execute_chapter(path, "quick")
    assert done.used == {"epochs": 26.0, "dataset": "digits"}
    write_record(path.parent, replace(done, profile="standard"))
    assert read_records(path.parent, "one")["standard"]["used"] == done.used


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_variants_file_is_whole_by_itself(tmp_path, capsys):
    """What it leaves out is the chapter's own, not that of the profile's main file."""
    parameters = "n: int = 1  # [1, 9] a\nm: int = 2  # [1, 9] b\n"
    files = {"one.py": f'# %% tags=["parameters"]\n{parameters}', "_toc.yml": "root: one\n"}
    written(tmp_path / "book", files)
    written(tmp_path / "params/gpu", {"one.yml": "n: 5\nm: 6\n", "one.some.yml": "m: 7\n"})
    command = ["record", "one", "one.some", "--profile", "gpu", "--book", f"{tmp_path}/book"]
    assert main(command) == 0
    found = read_records(tmp_path / "book", "one")
    assert {run: record["parameters"] for run, record in found.items()} == {
        "gpu": {"n": 5, "m": 6},
        "gpu.some": {"n": 1, "m": 7},
    }
    # A record that found its trainings stored says what they took: so much is left of them.
    record = found["gpu"]
    record["values"]["trained_seconds"] = 7200.0 * record["hardware"]["cores"]
    written(tmp_path / "book", {"records/gpu/one.json": json.dumps(record)})
    capsys.readouterr()
    assert main(command) == 0
    assert "by the last records 2.0 h are left" in capsys.readouterr().out


def test_records_are_judged_at_the_scale_of_what_stood_in_for_parameters():
    claim = make(kind="exact", across=None, at_least=0, full_scale={"epochs": 200})
    once = judge(claim, 1.0, {"epochs": 25.7}).as_dict()
    run = {"verdicts": [once], "parameters": {"epochs": 0.0}, "used": {"epochs": 25.7}}
    assert judged_anew({"A": claim}, run)["verdicts"] == [once]
    assert "epochs = 25.7 instead of 200" in once["reason"]


def test_data_that_cannot_be_had_stop_one_chapter_alone(tmp_path, capsys, monkeypatch):
    names, toc = ("one", "two"), "format: jb-book\nroot: one\nchapters:\n- file: two\n"
    text = '# %% tags=["parameters"]\nn: int = 1  # [1, 9] a\n'
    written(tmp_path / "book", {"_toc.yml": toc} | {f"{name}.py": text for name in names})
    written(tmp_path / "params/gpu", {f"{name}.yml": "n: 5\n" for name in names})

    def execute(path, *_):
        raise NotADirectoryError(f"COMPANION_DATA is no folder, asked by {path.stem}")

    monkeypatch.setattr("lib.book.__main__.execute_chapter", execute)
    assert main(["record", "--profile", "gpu", "--book", f"{tmp_path}/book"]) == 1
    said = capsys.readouterr().err
    assert all(f"asked by {name}" in said for name in names)
