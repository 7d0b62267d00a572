"""What was promised of speed, in seconds or beside each other; no part of `make test`.

A busy machine is slower: times are of the processor, the least or the median of several, where not
the promise itself is of the clock.
"""

import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import engines
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from threadpoolctl import threadpool_limits

from lib import data, report, selective
from lib.audit import AttackCounts, best_lower_bound, epsilon_interval, roc_counts
from lib.audit.white_box import GradientCanaries
from lib.counterfactual import ForestClassifier, ForestRegressor, confidence_sequence
from lib.privacy import PrivacyLedger, SampledGaussian, trade_off
from lib.studies.suitability.data import run_study, wilds_files, wilds_study
from lib.suitability import ActiveMonitor, Monitor, labelling_probabilities
from lib.training import ModelSpec, TrainingConfig, TrainingData, train, train_audited

pytestmark = pytest.mark.bench
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _one_thread():
    """Not here: the engines are promised to be fast on all cores."""


def seconds(call, times=3) -> float:
    """Processor time of a call, the least of some."""
    found = []
    for _ in range(times):
        started = time.process_time()
        call()
        found.append(time.process_time() - started)
    return min(found)


def test_an_interval_takes_milliseconds_and_a_roc_less_than_a_third_of_a_second():
    rng = np.random.default_rng(3)
    tables = [AttackCounts(*map(int, rng.integers(0, 500, 4) + 1)) for _ in range(40)]
    assert np.median([seconds(lambda c=c: epsilon_interval(c, 1e-5)) for c in tables]) < 5e-3
    members = np.arange(1024) % 2 == 0
    for separation in (0.3, 1.0, 3.0):
        scores = np.random.default_rng(0).normal(size=1024) + separation * members
        table = roc_counts(scores, members)
        assert len(table) == 1025
        assert seconds(lambda t=table: best_lower_bound(t, 1e-5)) < 0.3


def test_a_hundred_trade_off_curves_a_second():
    """A hundred ledgers of which ten differ, as those of ten trainings with ten seeds each."""

    def ledger(rate, noise, steps):
        return PrivacyLedger((SampledGaussian(rate, noise, steps),))

    trade_off(ledger(0.5, 1.0, 1))  # loads dp-accounting
    ledgers = [ledger(0.05, 1 + place / 97, 400) for place in range(10)] * 10
    found = []
    taken = seconds(lambda: found.extend(trade_off(each).mu(1e-5) for each in ledgers), 1)
    assert taken < 1.0
    assert len(set(found)) == 10


def test_a_sequence_of_a_million_scores():
    x = np.random.default_rng(9).normal(size=1_000_000)
    assert seconds(lambda: confidence_sequence(x), 1) < 2


def test_ten_million_points_in_less_than_three_seconds():
    rng = np.random.default_rng(0)
    score = rng.random(10**7)
    correct = rng.random(10**7) < score
    selective.normalized_score(correct[:9], score[:9])  # compile
    assert seconds(lambda: selective.accuracy_coverage(correct, score), 1) < 3
    assert seconds(lambda: selective.normalized_score(correct, score), 1) < 3
    assert seconds(lambda: selective.normalized_score(correct, np.round(score, 2)), 1) < 3


@pytest.mark.parametrize("classes", [True, False])
def test_the_forest_beside_scikit_learns(classes):
    """Fit and predict 1000 points, as in P4's experiments; out-of-bag predictions come along."""
    rng = np.random.default_rng(0)
    x = rng.random((1000, 2))
    y = rng.random(1000) < x[:, 0] if classes else x[:, 0] + rng.normal(size=1000)
    mine = (ForestClassifier if classes else ForestRegressor)(random_state=0)
    theirs = (RandomForestClassifier if classes else RandomForestRegressor)(random_state=0)
    method = "predict_proba" if classes else "predict"
    peer = seconds(lambda: getattr(theirs.fit(x, y), method)(x), 2)
    assert peer / seconds(lambda: getattr(mine.fit(x, y), method)(x), 6) > 4


def monitors():
    """Each monitor's update by a batch."""
    rng = np.random.default_rng(35)
    watching = ActiveMonitor(0.7, least_probability=0.15, run_length=1e300)
    deciding = ActiveMonitor(0.7, least_probability=0.15, alpha=1e-300)
    deciding._begin_to_decide()
    reference = rng.beta(8, 2, 2000)
    estimates = Monitor(reference, margin=0.05, run_length=1e300)

    def labelled(monitor, n):
        estimated = rng.beta(8, 2, n)
        p = labelling_probabilities(estimated, 0.3, reference)
        chosen = rng.random(n) < p
        monitor.update(estimated, chosen, rng.random(chosen.sum()) < 0.7, p)

    return [
        lambda n: labelled(watching, n),
        lambda n: labelled(deciding, n),
        lambda n: estimates.update(rng.beta(8, 2, n)),
    ]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_update_after_a_million_rows_takes_as_long_as_the_first(which):
    """Ratio of medians over 200 updates of 1,000 rows, taken in turn."""
    fresh, old = monitors()[which], monitors()[which]
    for _ in range(100):
        old(10_000)
    taken = {fresh: [], old: []}
    for _ in range(200):
        for update, times in taken.items():
            times.append(seconds(lambda u=update: u(1000), 1))
    assert np.median(taken[old]) <= 1.5 * np.median(taken[fresh])


def test_many_classes_are_read_in_time_that_grows_with_the_file(tmp_path):
    """No column is sought in a list of all: 60,000 are no matter of a square."""
    columns = 60_000
    names = ",".join(f"logit_{j}" for j in range(columns))
    (tmp_path / "own.csv").write_text(f"part,{names}\ntest,{','.join(['0.5'] * columns)}\n")
    assert seconds(lambda: report.read_predictions(tmp_path / "own.csv"), 1) < 8


@pytest.mark.parametrize(
    "package", ["selective", "suitability", "audit", "counterfactual", "privacy"]
)
def test_formulas_are_imported_about_as_fast_as_what_they_use(package):
    """Fractions of one process's time: the machine's pace counts little. Best of up to five."""
    command = [sys.executable, "-X", "importtime", "-c", f"import lib.{package}"]
    ratios = []
    while len(ratios) < 5 and min(ratios, default=2) > 1.3:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        spent = {True: 0, False: 0}
        for line in done.stderr.splitlines()[1:]:
            own, _, name = line.removeprefix("import time:").split("|")
            spent[name.strip().partition(".")[0] == "lib"] += int(own)
        assert spent[True] > 0
        ratios.append(1 + spent[True] / spent[False])
    assert min(ratios) <= 1.3, ratios


@pytest.mark.parametrize(
    ("model", "target", "n_models", "steps"),
    [("linear", 25.0, 64, 400), ("mlp", 20.0, 64, 400), ("small_cnn", 1.0, 4, 8)],
)
def test_engines_beside_opacus(model, target, n_models, steps):
    """The targets: 25 times (linear), 20 times (MLP), no slower (CNN).

    Few models are a little slower each than the page's many.  Opacus has the fastest of its ways,
    with one thread or all.  Another process on the machine slows two busy threads more than one, so
    a measurement that misses is repeated, twice at most.
    """
    engines.many_steps_per_second(model, 2, 1)  # compiles
    seen = []
    while not seen or (seen[-1] < target and len(seen) < 3):
        peer = max(
            speed
            for threads in (1, None)
            for speed in engines.compare_modes(model, 0.2, threads).values()
        )
        seen.append(engines.many_steps_per_second(model, n_models, steps) / peer)
    assert seen[-1] >= target, seen


def test_five_thousand_canaries_cost_at_most_a_tenth_of_a_training():
    """The small CNN by taps, with 128 of 2,000 records a step, as six lenses has it; in turn."""
    rng = np.random.default_rng(0)
    x = rng.random((2000, 1, 28, 28), dtype=np.float32)
    given = TrainingData(x, rng.integers(0, 10, len(x)), 10)
    config = TrainingConfig(
        ModelSpec("small_cnn", (1, 28, 28), 10),
        noise_multiplier=1.0,
        batch_size=128,
        steps=200,
        grad_sample_mode="taps",
        seed=1,
    )
    secret, points = GradientCanaries(5000, seed=3), x[:10]
    plain, audited = [], []
    with threadpool_limits(1):
        for _ in range(5):
            plain.append(seconds(lambda: train(config, given, points), 1))
            audited.append(seconds(lambda: train_audited(config, given, points, secret), 1))
    assert min(audited) <= 1.1 * min(plain), (plain, audited)


def test_the_first_page_is_there_within_a_second():
    """From a local server, with an empty cache; the best of five, as others use the machine."""
    sys.path.insert(0, str(ROOT / "tests" / "book"))
    from playwright.sync_api import sync_playwright
    from site_tools import CHROMIUM, HTML, LAUNCH, build_site, serve

    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    build_site()
    with serve(HTML) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=LAUNCH)
        painted = []
        for _ in range(5):  # a context of its own has an empty cache
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            page.goto(f"{address}/index.html", wait_until="load")
            entries = "performance.getEntriesByName('first-contentful-paint')"
            page.wait_for_function(f"() => {entries}.length > 0")
            painted.append(page.evaluate(f"() => {entries}[0].startTime"))
            page.context.close()
        browser.close()
    assert min(painted) < 1000


def warm_up(_):
    """Both workers have imported everything once each has been given one of these."""
    time.sleep(1)


def wilds_rows(study):
    return len(run_study(wilds_study(*study), 15, 32))


def test_all_36540_experiments_in_half_a_minute():
    """On two cores: one process each, as threads would wait for the interpreter."""
    if not all(map(data.available, wilds_files(["fmow", "rxrx1"], [0, 1, 2]))):
        pytest.skip("the authors' signals are not on this machine")
    studies = [(dataset, seed) for dataset in ("fmow", "rxrx1") for seed in (0, 1, 2)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        list(workers.map(warm_up, range(2)))
        started = time.perf_counter()
        assert sum(workers.map(wilds_rows, studies)) == 36_540
        assert time.perf_counter() - started < 30
