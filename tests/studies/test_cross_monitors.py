"""CBPE against nannyml, and the drift tests against alibi-detect, where their code can be imported.

Neither is a dependency: alibi-detect asks for NumPy 1, nannyml for an AutoML package. Their wheels
without dependencies do, in a folder on PYTHONPATH (``pip install --no-deps --target FOLDER nannyml
alibi-detect``, and for nannyml what its import then names): the AutoML package may be without
AutoML, and of alibi-detect only the four modules are read (these ask for nothing that we lack).
"""

import importlib
import importlib.util
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.studies.beyond import online
from lib.studies.beyond.watch import fisher, smirnov
from lib.studies.suitability.peers import alert_threshold, calibrate, calibrator


@pytest.fixture
def nannyml(monkeypatch):
    monkeypatch.setenv("NML_DISABLE_USAGE_LOGGING", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import flaml

            flaml.AutoML = getattr(flaml, "AutoML", object)  # CBPE fits none
            return importlib.import_module("nannyml")
        except ImportError as error:
            pytest.skip(f"nannyml cannot be imported: {error}")


@pytest.fixture
def drift(monkeypatch):
    """The modules, past a package whose import asks for deep learning."""
    spec = importlib.util.find_spec("alibi_detect")
    if spec is None:
        pytest.skip("alibi-detect is not here")
    root = Path(spec.origin).parent
    for name in ("alibi_detect", "alibi_detect.cd", "alibi_detect.utils"):
        bare = types.ModuleType(name)
        bare.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        monkeypatch.setitem(sys.modules, name, bare)
    try:
        names = ("ks", "fet", "fet_online", "cvm_online")
        return [importlib.import_module(f"alibi_detect.cd.{name}") for name in names]
    except ImportError as error:
        pytest.skip(f"alibi-detect cannot be imported: {error}")


@pytest.mark.parametrize("seed", range(6))
def test_cbpe_is_nannymls(nannyml, seed):
    """Being right is the class; the prediction is always that it is."""
    rng = np.random.default_rng(seed)

    def frame(n, shift):
        p = rng.beta(4, 2, n)
        right = rng.random(n) < np.clip(p - shift - 0.1 * (seed % 2) * (p > 0.6), 0, 1)
        return pd.DataFrame({"p": p, "right": right.astype(int), "said": np.ones(n, int)})

    reference, later = frame(2000, 0.0), frame(1000, 0.1)
    estimator = nannyml.CBPE(
        problem_type="classification_binary", y_pred_proba="p", y_pred="said", y_true="right",
        metrics=["accuracy"], chunk_number=10,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimator.fit(reference).estimate(later).filter(period="analysis").to_df()
    p, right = reference["p"].to_numpy(), reference["right"].to_numpy().astype(bool)
    knots = calibrator(p, right)
    ours = [calibrate(knots, chunk).mean() for chunk in np.split(later["p"].to_numpy(), 10)]
    assert found["accuracy", "value"].to_numpy() == pytest.approx(ours, abs=1e-9)
    threshold = alert_threshold(right)
    assert found["accuracy", "lower_threshold"].to_numpy() == pytest.approx(threshold, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_drift_tests_are_alibi_detects(drift, seed):
    ks, fet, *_ = drift
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=(11_000, 3))  # so many that SciPy's p-value is the asymptotic one
    x = rng.normal([0.05 * seed, 0, 0], size=(300, 3))
    p = ks.KSDrift(reference, p_val=0.05).predict(x)["data"]["p_val"].min()
    assert smirnov(np.sort(reference.T, axis=1), x) == pytest.approx(min(1, 3 * p), rel=1e-5)
    right, few = rng.random(5000) < 0.6, rng.random(40) < 0.5
    detector = fet.FETDrift(right.astype(int)[:, None], p_val=0.05, alternative="less")
    theirs = detector.predict(few.astype(int)[:, None])["data"]["p_val"][0]
    assert fisher(right, few) == pytest.approx(theirs, rel=1e-6)


ERT, WINDOWS, STREAMS = 40, (20, 60), 4000


def online_pair(drift, kind, streams=STREAMS):
    """A detector of theirs, ours, a stream for theirs, and the same for ours."""
    rng = np.random.default_rng(0)
    options = {"ert": ERT, "window_sizes": list(WINDOWS), "n_bootstraps": streams, "verbose": False}
    if kind == "fet":
        x, stream = rng.random(300) < 0.7, rng.random(150) < 0.5
        theirs = drift[2].FETDriftOnline(x.astype(int)[:, None], alternative="less", **options)
        return theirs, online.FisherOnline(300, int(x.sum()), WINDOWS), stream.astype(int), stream
    x, stream = rng.normal(size=100), rng.normal(0.5, size=150)
    theirs = drift[3].CVMDriftOnline(x[:, None], **options)
    ranks = np.searchsorted(np.sort(x), stream, "right")
    return theirs, online.CramerOnline(100, WINDOWS), stream, ranks


@pytest.mark.parametrize("kind", ["fet", "cvm"])
def test_online_statistics_are_alibi_detects(drift, kind):
    np.random.seed(0)  # noqa: NPY002 (theirs has no other)
    theirs, ours, stream, values = online_pair(drift, kind)
    theirs.permit_probs = np.full((len(theirs.thresholds), 1), np.inf)  # no chance at equality
    expected = [theirs.predict(np.array([x]))["data"]["test_stat"].copy() for x in stream]
    (found,) = ours.statistics(values[None])
    first = WINDOWS[0] - 1
    assert np.isneginf(found[:first]).all()
    largest = np.nanmax(np.array(expected)[first:, :, 0], axis=1)
    assert found[first:] == pytest.approx(largest, rel=1e-5, abs=1e-6)
    # The first alarm is the same; later ones are not, as theirs does not start anew by itself.
    limit = np.nan_to_num(theirs.thresholds[:, 0].astype(float), nan=np.inf)
    table = pd.DataFrame({"limit": limit, "passed": 1.0})
    raised = online.alarms(ours, table, values, np.random.default_rng(1))
    assert raised[0] == np.flatnonzero(theirs.drift_preds)[0]


@pytest.mark.parametrize("kind", ["fet", "cvm"])
def test_online_thresholds_are_alibi_detects(drift, monkeypatch, kind):
    """Of the same statistics exactly, of other simulations but for what chance does."""
    np.random.seed(0)  # noqa: NPY002
    theirs, ours, *_ = online_pair(drift, kind)
    simulated = online.thresholds(ours, ERT, STREAMS, np.random.default_rng(2))["limit"]
    first = WINDOWS[0] - 1
    got, expected = simulated.to_numpy()[first:], theirs.thresholds[first:, 0]
    if kind == "fet":  # p-values, by their logarithms
        got, expected = -np.log10(1 - got), -np.log10(1 - expected)
    assert got.mean() == pytest.approx(expected.mean(), rel=0.05)
    # Their function on the same statistics, where one that equals a threshold always stays.
    made = np.random.default_rng(3).random((STREAMS, len(simulated))).astype(np.float32)
    monkeypatch.setattr(theirs, "_simulate_streams", lambda *_: made[:, :, None])
    monkeypatch.setattr(np.random, "binomial", lambda n, _: n)
    theirs._configure_thresholds()
    stays = types.SimpleNamespace(random=lambda n: np.full(n, -1.0))
    mine = online.limits(made.T, first, 1 / ERT, stays, ties=kind == "fet")["limit"].to_numpy()
    assert mine[first:] == pytest.approx(theirs.thresholds[first:, 0], rel=1e-6)
