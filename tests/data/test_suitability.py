import pickle
import re

import numpy as np
import pandas as pd
import pytest

from lib.data.store import fetch
from lib.data.suitability import (
    DATASETS,
    MODELS,
    SIGNAL_NAMES,
    Fold,
    SignalTable,
    SuitabilitySignals,
    examine_signals,
    fold_summary,
    load_published_folds,
    load_suitability_folds,
    load_suitability_signals,
    published_for,
    suitability_models,
)

SPLITS = {
    "fmow": ["id_val", "id_test", "val", "test"],
    "rxrx1": ["val", "test", "id_test"],
    "civilcomments": ["val", "test"],
}
MIRRORED = ("fmow", "rxrx1")  # whose signals are
N = 6


def signals_array(n=N, **columns):
    """Plausible signals; a column can be set to a value."""
    confidence = np.linspace(0.5, 0.99, n)
    values = {name: np.zeros(n) for name in SIGNAL_NAMES} | {
        "conf_max": confidence,
        "margin_loss": -confidence,
        "conf_ratio": np.full(n, 2.0),
        "top_k_conf_sum": np.ones(n),
        "logit_mean": np.full(n, -7.0),
        "energy": np.full(n, -9.0),
    }
    for name, value in columns.items():
        values[name][1] = value
    return np.column_stack([values[name] for name in SIGNAL_NAMES]).astype(np.float32)


CORRECT = np.array([True, False, True, True, False, True])


def table(correct=CORRECT):
    return SignalTable(signals_array(len(correct)), correct)


def add_signals(mirror, content, name="suitability/fmow_ERM_0"):
    mirror.add(name, pickle.dumps(content, protocol=4))


def good_signals(dataset="fmow"):
    return {split: (signals_array(), CORRECT) for split in SPLITS[dataset]}


def test_tables():
    source = signals_array()
    made = SignalTable(source, CORRECT)
    assert (made.signals.dtype, len(made), made.accuracy) == (np.float64, 6, 4 / 6)
    source[:] = 0
    assert made.signals[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        made.signals[0] = 0
    taken = made.take([5, 0, 0])
    np.testing.assert_array_equal(taken.signals, made.signals[[5, 0, 0]])
    np.testing.assert_array_equal(taken.correct, [True, True, True])
    with pytest.raises(ValueError, match="row"):
        made.take([])
    assert SignalTable(signals_array(conf_max=1 + 1e-6, loss=-1e-9), CORRECT)  # by rounding
    other = SignalTable(np.array([[5.0]]), np.array([True]), names=("mine",))  # without bounds
    assert other.take([0]).names == ("mine",)
    spread = np.std([1, 0], ddof=1)  # the largest deviation of a sample
    assert SignalTable(signals_array(conf_std=spread), CORRECT)
    with pytest.raises(ValueError, match="conf_std"):
        SignalTable(signals_array(conf_std=spread + 0.001), CORRECT)


BAD_TABLES = {
    "a column too few": (signals_array()[:, :11], CORRECT, "shape"),
    "one-dimensional": (signals_array()[:, 0], CORRECT, "shape"),
    "integers": (signals_array().astype(int), CORRECT, "floats"),
    "a row too many": (signals_array(7), CORRECT, "correct"),
    "numbers for correct": (signals_array(), CORRECT.astype(int), "correct"),
    "no rows": (signals_array(0), CORRECT[:0], "row"),
    "NaN": (signals_array(energy=np.nan), CORRECT, "energy"),
    "infinity": (signals_array(conf_ratio=np.inf), CORRECT, "conf_ratio"),
    "confidence": (signals_array(conf_max=1.01), CORRECT, "conf_max"),
    "entropy": (signals_array(conf_entropy=-1), CORRECT, "conf_entropy"),
    "margin": (signals_array(margin_loss=1), CORRECT, "margin_loss"),
    "ratio": (signals_array(conf_ratio=0.5), CORRECT, "conf_ratio"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_table_is_refused_alone_and_in_a_file(case, mirror):
    signals, correct, message = BAD_TABLES[case]
    with pytest.raises(ValueError, match=message):
        SignalTable(signals, correct)
    add_signals(mirror, good_signals() | {"val": (signals, correct)})
    with pytest.raises(ValueError, match=rf"fmow_ERM_0: split 'val': .*{message}"):
        load_suitability_signals("fmow")


@pytest.mark.parametrize("dataset", DATASETS)
def test_loads_signals(dataset, mirror):
    algorithm, seed = suitability_models(dataset)[-1]
    add_signals(mirror, good_signals(dataset), f"suitability/{dataset}_{algorithm}_{seed}")
    read = load_suitability_signals(dataset, algorithm, seed)
    assert (read.dataset, read.algorithm, read.seed) == (dataset, algorithm, seed)
    assert list(read.splits) == SPLITS[dataset]
    np.testing.assert_array_equal(read.splits["val"].signals, signals_array().astype(float))
    np.testing.assert_array_equal(read.splits["val"].correct, CORRECT)


def add_folds(mirror, **files):
    for name, content in files.items():
        mirror.add(f"suitability/folds_{name}", pickle.dumps(content, protocol=4))


def test_folds_keep_the_order_of_the_files(mirror):
    asia, europe = "{'region': ['Asia']}", "{'region': 'Europe', 'year': 2013}"
    within = {("id_val", "{'year': [2002, 2003]}"): [3, 1], ("id_test", asia): [0]}
    beyond = {("val", europe): [0, 1], ("test", "{'year': [2005, 2007]}"): [2]}
    add_folds(mirror, fmow_id=within, fmow_ood=beyond)
    folds = load_suitability_folds("fmow")
    assert [(fold.label, fold.in_distribution) for fold in folds] == [
        ("id_val · year 2002–2003", True),
        ("id_test · Asia", True),
        ("val · Europe 2013", False),
        ("test · year 2005, 2007", False),
    ]
    assert folds[2].filter == {"region": ("Europe",), "year": (2013,)}
    assert folds[0].rows.tolist() == [3, 1]
    with pytest.raises(ValueError, match="read-only"):
        folds[0].rows[0] = 9


def test_a_filter_is_read_and_not_run(mirror):
    add_folds(mirror, rxrx1={("val", "__import__('os').getpid()"): [0]})
    with pytest.raises(ValueError, match="malformed"):
        load_suitability_folds("rxrx1")


def test_sensitive_groups(mirror):
    keys = [("val", "male"), ("val", "LGBTQ"), ("test", "other_religions")]
    groups = {(split, f"{{'sensitive': '{name}'}}"): [0, 2] for split, name in keys}
    add_folds(mirror, civilcomments=groups)
    folds = load_suitability_folds("civilcomments")
    labels = ["val · Male", "val · LGBTQ", "test · Other Religions"]
    assert [fold.label for fold in folds] == labels
    csv = b"split,group,num_samples,accuracy\nval,male,2,0.5\ntest,other_religions,3,1.0\n"
    mirror.add("suitability/published_folds_civilcomments", csv + b"val,ALL,9,0.25\n")
    published = load_published_folds("civilcomments")
    assert published["label"].tolist() == [labels[0], labels[2], "val · all"]
    assert published_for(folds, published)["size"].tolist() == [2, pd.NA, 3]


def fold(split="val", rows=(0, 1), dataset="fmow", **restriction):
    return Fold(dataset, split, f"{split} {restriction}", np.array(rows), False, restriction)


def test_fold_summary():
    signals = SuitabilitySignals("fmow", "ERM", 0, {"val": table()})
    summary = fold_summary(signals, [fold(rows=[0, 1, 4]), fold(rows=[2])])
    assert summary["size"].tolist() == [3, 1]
    assert summary["accuracy"].tolist() == [1 / 3, 1.0]
    for elsewhere in (fold(dataset="rxrx1"), fold(split="test"), fold(rows=[6])):
        with pytest.raises(ValueError, match=r"rxrx1|splits|rows"):
            fold_summary(signals, [elsewhere])


CSV = b"""split,year,region,num_samples,accuracy
id_val,2002,ALL,1,1.0
id_val,2003,ALL,3,0.5
id_val,ALL,Asia,2,0.25
val,2013,Europe,4,0.75
"""


def test_published_folds(mirror):
    mirror.add("suitability/published_folds_fmow", CSV)
    published = load_published_folds("fmow")
    labels = ["id_val · year 2002", "id_val · year 2003", "id_val · Asia", "val · Europe 2013"]
    assert published["label"].tolist() == labels
    folds = [
        fold("id_val", year=(2002, 2003)),
        fold("id_val", region=("Asia",)),
        fold("val", region=("Europe",), year=(2013,)),
        fold("val", year=(2013,)),
        fold("id_val", year=(2003, 2004)),
    ]
    found = published_for(folds, published)
    assert found["size"].tolist() == [4, 2, 4, pd.NA, pd.NA]
    np.testing.assert_allclose(found["accuracy"], [2.5 / 4, 0.25, 0.75, np.nan, np.nan])


@pytest.fixture
def examined(mirror, tmp_path):
    """Examines a file of six rows a split, beside folds and published sizes that fit."""
    male = "{'sensitive': 'male'}"
    add_folds(mirror, civilcomments={("val", male): [0, 1], ("test", male): [0, 2, 5]})
    csv = "split,group,num_samples,accuracy\nval,male,2,0.5\nval,ALL,6,0.67\n"
    csv += "test,male,3,1.0\ntest,ALL,6,0.67\n"
    mirror.add("suitability/published_folds_civilcomments", csv.encode())

    def examine(change):
        path = tmp_path / "signals.pkl"
        path.write_bytes(pickle.dumps(good_signals("civilcomments") | change, protocol=4))
        return examine_signals("suitability/civilcomments_ERM_0", path)

    return examine


def test_examination_says_what_it_found(examined):
    wrong = signals_array(), np.zeros(N, dtype=bool)  # 0 of 2 instead of 1 of 2
    for change, gap in ({}, "0"), ({"val": wrong}, "0.5"):
        said = examined(change)
        assert said.startswith("6 rows of val, 6 rows of test")
        assert f" within {gap} of the published" in said


class Malice:
    """Pickled, it asks for a function to be called."""

    def __reduce__(self):
        return print, ("called",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"val": (signals_array(7), np.append(CORRECT, True))}, "rows"),
        ({"test": (signals_array(conf_max=2), CORRECT)}, "conf_max"),
        ({"id_val": (signals_array(), CORRECT)}, "splits"),
        ({"val": signals_array()}, "split 'val'"),
        ({"val": None}, "split 'val'"),
        ({"val": Malice()}, r"builtins\.print"),
    ],
)
def test_examination_refuses(change, message, examined, capsys):
    with pytest.raises(ValueError, match=message):
        examined(change)
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("real_data")
class TestAuthorsFiles:
    @pytest.mark.parametrize("dataset", MIRRORED)
    def test_every_model_loads_and_holds_every_fold(self, dataset):
        for model in MODELS:
            signals = load_suitability_signals(dataset, *model)
            assert set(signals.splits) == set(SPLITS[dataset])
            summary = fold_summary(signals, load_suitability_folds(dataset))
            assert summary["accuracy"].between(0, 0.8, inclusive="neither").all()

    @pytest.mark.parametrize("dataset", MIRRORED)
    def test_published_sizes_and_accuracies_are_ours(self, dataset):
        folds = load_suitability_folds(dataset)
        ours = fold_summary(load_suitability_signals(dataset), folds)
        theirs = published_for(folds, load_published_folds(dataset))
        assert len({fold.label for fold in folds}) == len(folds)
        assert theirs["size"].tolist() == ours["size"].tolist()
        np.testing.assert_allclose(theirs["accuracy"], ours["accuracy"], rtol=1e-12)

    def test_civilcomments_folds_are_the_papers(self):
        """Table 4's sizes; and they are what the authors publish beside the accuracies."""
        folds = load_suitability_folds("civilcomments")
        table_4 = [4765, 5891, 1457, 4550, 2110, 986, 1652, 2867]
        table_4 += [14295, 16449, 4426, 13361, 6982, 3500, 4872, 7969]
        assert [len(fold) for fold in folds] == table_4
        groups = ("Male", "Female", "LGBTQ", "Christian", "Muslim", "Other Religions")
        groups += ("Black", "White")
        labels = [f"{split} · {group}" for split in ("val", "test") for group in groups]
        assert [fold.label for fold in folds] == labels
        assert all(fold.in_distribution for fold in folds)
        published = load_published_folds("civilcomments")
        theirs = published_for(folds, published)
        assert theirs["size"].tolist() == table_4
        assert theirs["accuracy"].between(0.7, 1, inclusive="neither").all()
        rows = published.set_index("label")["num_samples"]
        assert all(fold.rows.max() < rows[f"{fold.split} · all"] for fold in folds)

    @pytest.mark.parametrize("dataset", MIRRORED)
    def test_examination_knows_the_authors_model(self, dataset):
        """By its accuracies on the folds; another seed's file passes, but is found out."""
        paths = [fetch(f"suitability/{dataset}_ERM_{seed}") for seed in (0, 1)]
        own, other = (examine_signals(f"suitability/{dataset}_ERM_0", path) for path in paths)
        gaps = [float(re.search("within (.*) of the published", said)[1]) for said in (own, other)]
        assert gaps[0] < 1e-12
        assert gaps[1] > 1e-3
