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
from lib.counterfactual.sensitivity import breakdown_share
from lib.report import services as module
from lib.report.services import (
    DECISIONS,
    Services,
    compare_services,
    comparison_table,
    decide,
    diagnostics_table,
    example_services,
    read_services,
    write_services,
)

NAN = math.nan
HEADER = "x,score_a,abstained_a,score_b,abstained_b"
ROWS = 24
LINES = [f"{i},0.5,0,,1" if i % 3 == 0 else f"{i},1,0,0.25,0" for i in range(ROWS)]


def trial(gap, n=200, *, noise=0.1, hide=0.3, seed=0):
    """Services that differ by `gap`, up to `noise`; abstention is by chance."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    scores = [0.5 + sign * gap / 2 + noise * rng.normal(size=n) for sign in (1, -1)]
    return Services(("A", "B"), ("x", "y"), x, scores, [rng.random(n) < hide for _ in "ab"])


def linear(services, **options):
    return compare_services(services, **{"learner": "linear", "rng": 0, **options})


@pytest.fixture(scope="module")
def example():
    return example_services(400, rng=1)


@pytest.fixture(scope="module")
def compared(example):
    return linear(example, score_range=(0, 1))


def csv_file(tmp_path, lines, header=HEADER):
    path = tmp_path / "trial.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def changed(number, line):
    """The rows with another one at a line of the file."""
    return [*LINES[: number - 2], line, *LINES[number - 1 :]]


# --- files ----------------------------------------------------------------------------------------


def test_reads_what_is_there(tmp_path):
    found = read_services(csv_file(tmp_path, LINES), names=("Owl", "Fox"))
    assert found.names == ("Owl", "Fox")
    assert found.features == ("x",)
    assert found.source == str(tmp_path / "trial.csv")
    assert len(found) == ROWS
    np.testing.assert_array_equal(found.X[:, 0], np.arange(ROWS))
    np.testing.assert_array_equal(found.abstained[1], np.arange(ROWS) % 3 == 0)
    assert not found.abstained[0].any()
    np.testing.assert_array_equal(found.scores[0][:3], [0.5, 1, 1])
    np.testing.assert_array_equal(found.scores[1][:3], [NAN, 0.25, 0.25])


@pytest.mark.parametrize(
    ("yes", "no"), [("1", "0"), ("True", "FALSE"), ("yes", "No"), ("YES", "0")]
)
def test_words_and_order_and_space_and_poison(tmp_path, yes, no):
    lines = [
        f'{yes} , "oops, no", {i}, 0.1, {no}' if i % 2 else f"{no},2,{i},3,{no}"
        for i in range(ROWS)
    ]
    lines.insert(3, ",,,,")  # spreadsheets leave such rows
    lines.insert(5, "")
    path = csv_file(tmp_path, lines, "abstained_a, score_a, some  x ,score_b,abstained_b")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    found = read_services(path)
    assert found.features == ("some x",)
    np.testing.assert_array_equal(found.abstained[0], np.arange(ROWS) % 2 == 1)
    np.testing.assert_array_equal(found.scores[0], [NAN if i % 2 else 2 for i in range(ROWS)])
    np.testing.assert_array_equal(found.X[:, 0], np.arange(ROWS))


def test_text_becomes_one_feature_a_category(tmp_path):
    kinds = ["red", "none", "7", '"dark, very"']
    lines = [f"{kinds[i % 4]},{line}" for i, line in enumerate(LINES)]
    found = read_services(csv_file(tmp_path, lines, f"kind,{HEADER}"))
    assert found.features == ("kind=7", "kind=dark, very", "kind=none", "kind=red", "x")
    np.testing.assert_array_equal(found.X[:, :4].sum(axis=1), 1)
    for column, i in ((3, 0), (2, 1), (0, 2), (1, 3)):
        np.testing.assert_array_equal(found.X[:, column], np.arange(ROWS) % 4 == i)
    again = read_services(write_services(tmp_path / "again.csv", found))
    assert again.features == found.features
    np.testing.assert_array_equal(again.X, found.X)


def test_thirty_categories_are_not_too_many(tmp_path):
    lines = [f"k{i % 30},{i},1,0,1,0" for i in range(60)]
    assert read_services(csv_file(tmp_path, lines, f"kind,{HEADER}")).X.shape == (60, 31)


def test_round_trip_is_exact(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-300, 300, size=(50, 3))
    x[0] = [-0.0, 5e-324, 1 / 3]
    services = Services(
        ("A", "B"),
        ("a,b", 'say "é"', "\ufeffx"),
        x,
        [rng.normal(size=50), rng.normal(size=50)],
        [rng.random(50) < 0.4, np.zeros(50, bool)],
    )
    path = write_services(tmp_path / "new" / "trial.csv", services)
    found = read_services(str(path))
    assert (found.names, found.features) == (services.names, services.features)
    for one, other in zip(
        (found.X, *found.scores, *found.abstained),
        (services.X, *services.scores, *services.abstained),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert math.copysign(1, found.X[0, 0]) == -1
    first = path.read_bytes()
    assert write_services(path, found).read_bytes() == first
    assert [p.name for p in path.parent.iterdir()] == ["trial.csv"]


def test_pandas_reads_what_is_written(tmp_path, example):
    table = pd.read_csv(write_services(tmp_path / "t.csv", example))
    assert list(table.columns) == [*HEADER.split(",")[1:], "x0", "x1"]
    np.testing.assert_array_equal(table["score_a"], example.scores[0])
    np.testing.assert_array_equal(table["abstained_b"], example.abstained[1])


HEADERS = [
    ("x,score_a,abstained_a,score_b", ["column 'abstained_b' must be there", "got 'x', 'score_a'"]),
    (HEADER.replace(",", ";"), ["column 'score_a' must be there", "commas, not semicolons"]),
    (HEADER.upper(), ["column 'score_a' must be there", "'SCORE_A'"]),
    (HEADER[2:], ["at least one feature column", "got none"]),
    (f"{HEADER},x", ["column 'x' must be there once", "2 times"]),
    (f"{HEADER}, score_a", ["column 'score_a' must be there once", "2 times"]),
    (f",{HEADER}", ["every column must have a name", "column 1 of 6", "index=False"]),
]


@pytest.mark.parametrize(("header", "parts"), HEADERS)
def test_bad_headers(tmp_path, header, parts):
    path = csv_file(tmp_path, LINES, header)
    with pytest.raises(ValueError) as caught:
        read_services(path)
    for part in (str(path), *parts):
        assert part in str(caught.value)


CELLS = [
    ("7,,0,1,0", ["column 'score_a'", "a finite number where abstained_a is no", "got ''"]),
    ("7,high,no,1,0", ["column 'score_a'", "a finite number", "got 'high'"]),
    ("7,inf,0,1,0", ["column 'score_a'", "a finite number", "got 'inf'"]),
    ("7,1,0,nan,0", ["column 'score_b'", "where abstained_b is no", "got 'nan'"]),
    ("7,1_0,0,1,0", ["column 'score_a'", "got '1_0'"]),
    ("7,1,maybe,1,0", ["column 'abstained_a'", "0, 1, false, true, no, yes", "got 'maybe'"]),
    ("7,1,0,1,", ["column 'abstained_b'", "one of 0, 1", "got ''"]),
    (",1,0,1,0", ["column 'x'", "a number or text, and not missing", "got ''"]),
    ("N/A,1,0,1,0", ["column 'x'", "not missing", "got 'N/A'"]),
    ("-nan,1,0,1,0", ["column 'x'", "not missing", "got '-nan'"]),
    ("1e999,1,0,1,0", ["column 'x'", "must be finite", "got '1e999'"]),
    ("7,1,0,1", ["must have 5 cells", "got 4"]),
    ("7,1,0,1,0,9", ["must have 5 cells", "got 6"]),
    ('"7,1,0,1,0', ["must be CSV", "end of data"]),
]


@pytest.mark.parametrize(("line", "parts"), CELLS)
def test_bad_cells_are_named_with_their_row(tmp_path, line, parts):
    path = csv_file(tmp_path, changed(9, line))
    with pytest.raises(ValueError) as caught:
        read_services(path)
    for part in (str(path), "row 9", *parts):
        assert part in str(caught.value)


def test_rows_are_lines_of_the_file(tmp_path):
    """Blank ones count, and so do those within quotes; how many rows are bad is said."""
    lines = ["", '"1\n",1,0,1,0', *LINES, "3,bad,0,1,0", "4,,0,1,0"]
    with pytest.raises(ValueError, match=rf"got 'bad' in row {ROWS + 5} \(2 such rows\)"):
        read_services(csv_file(tmp_path, lines))


FILES = [
    (b"", ["an empty file"]),
    (b"\n , \n", ["an empty file"]),
    (f"{HEADER}\n".encode(), ["at least 20 rows", "got 0"]),
    ("\n".join([HEADER, *LINES[:19]]).encode(), ["at least 20 rows", "got 19"]),
    ("\n".join([HEADER, *(["1,,1,1,0"] * 20)]).encode(), ["abstained_a", "all 20 rows"]),
    ("\n".join([HEADER, *(["1,1,0,,YES"] * 20)]).encode(), ["abstained_b", "all 20 rows"]),
    (
        f"{HEADER}\nü".encode("latin-1"),
        ["text in UTF-8", "byte 0xfc", f"position {len(HEADER) + 1}"],
    ),
    (b"a\0b", ["must be text", "zero byte at position 1"]),
    (
        "\n".join([HEADER, *(f"{i if i != 33 else 'oops'},1,0,1,0" for i in range(40))]).encode(),
        ["column 'x'", "at most 30 categories", "got 40", "'oops' in row 35"],
    ),
]


@pytest.mark.parametrize(("content", "parts"), FILES)
def test_bad_files(tmp_path, content, parts):
    path = tmp_path / "trial.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_services(path)
    for part in (str(path), *parts):
        assert part in str(caught.value)


def test_categories_that_look_like_a_column(tmp_path):
    header = f"k,k=v,{HEADER}"
    with pytest.raises(ValueError, match=r"trial\.csv: features must be different, got 'k=v' 2"):
        read_services(csv_file(tmp_path, [f"v,1,{line}" for line in LINES], header))


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.csv, which does not exist"):
        read_services(tmp_path / "gone.csv")
    with pytest.raises(ValueError, match="which is not a file"):
        read_services(tmp_path)
    with pytest.raises(TypeError, match="path must be a path, got int"):
        read_services(3)
    with pytest.raises(TypeError, match="services must be Services, got dict"):
        write_services(tmp_path / "x.csv", {})
    assert not (tmp_path / "x.csv").exists()


BAD_SERVICES = [
    ({"names": ("A", "A")}, "names must be two different"),
    ({"names": "AB"}, "names must be two different"),
    ({"names": ("A", " ")}, "names must be two different"),
    ({"features": ("x",)}, "features must be 2 names"),
    ({"features": ("x", "x")}, "features must be different"),
    ({"features": ("x", " y")}, "white space"),
    ({"features": ("x", "")}, "white space"),
    ({"features": ("x", "score_a")}, "must not be called"),
    ({"X": np.full((20, 2), NAN)}, "X must be finite"),
    ({"X": np.zeros((19, 2))}, "at least 20 rows, got 19"),
    ({"scores": (np.zeros(20),)}, "scores must be a pair"),
    (
        {"abstained": np.zeros((2, 20), bool)},
        "abstained must be a pair, of A and of B, got ndarray",
    ),
    ({"scores": (np.zeros(20), np.full(20, NAN))}, "score_b must be finite"),
    ({"scores": (np.zeros(3), np.zeros(20))}, "score_a must be numbers of shape"),
    ({"abstained": (np.full(20, 2), np.zeros(20))}, "abstained_a must be booleans"),
    ({"abstained": (np.zeros(20), np.ones(20))}, "abstained_b must be no somewhere"),
]


@pytest.mark.parametrize(("change", "message"), BAD_SERVICES)
def test_bad_services(change, message):
    good = {
        "names": ("A", "B"),
        "features": ("x", "y"),
        "X": np.zeros((20, 2)),
        "scores": (np.zeros(20), np.zeros(20)),
        "abstained": (np.zeros(20, bool), np.zeros(20, bool)),
    }
    Services(**good)
    with pytest.raises(ValueError, match=message):
        Services(**{**good, **change})


def test_services_are_copies_that_nobody_writes_to():
    x, s, r = np.zeros((20, 1)), np.ones(20), np.arange(20) == 0
    services = Services(["A", "B"], ["x"], x, [s, s], [r, ~r])
    assert math.isnan(services.scores[0][0])
    assert s[0] == 1
    for array in (services.X, *services.scores, *services.abstained):
        with pytest.raises(ValueError, match="read-only"):
            array[1] = 0
    x[0], r[1] = 7, True
    assert services.X[0, 0] == 0
    assert not services.abstained[0][1]


# --- decisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap", "margin", "decision", "parts"),
    [
        (0.2, 0.0, "choose A", ["more than B", "above 0: choose A"]),
        (-0.2, 0.0, "choose B", ["less than B", "below 0: choose B"]),
        (0.2, 0.1, "choose A", ["above the margin of 0.1: choose A"]),
        (-0.2, 0.1, "choose B", ["below minus the margin of 0.1: choose B"]),
        (0.2, 0.19, "undecided", ["holds differences of less than the margin of 0.19"]),
        (0.2, 0.5, "undecided", ["within the margin of 0.5 on either side", "price"]),
        (0.0, 0.0, "undecided", ["holds 0", "does not tell"]),
    ],
)
def test_decisions(gap, margin, decision, parts):
    found = linear(trial(gap), margin=margin)
    assert (found.decision, found.margin) == (decision, margin)
    assert decision in DECISIONS
    low, high = found.difference.interval
    assert (low > margin) == (decision == "choose A")
    assert (high < -margin) == (decision == "choose B")
    assert "(95% interval of A minus B: " in found.reason
    for part in parts:
        assert part in found.reason
    assert found.warnings == ()
    assert found.breakdown is None


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
    assert decision in DECISIONS
    mirrored = {"choose A": "choose B", "choose B": "choose A"}
    assert decide(-interval[1], -interval[0], margin) == mirrored.get(decision, decision)
    if margin == 0:
        assert decide(*interval) == decision


def test_reason_in_full():
    services = replace(trial(-0.2, noise=0.0), names=("Owl", "Fox"))
    services = replace(
        services,
        scores=[s + 0.1 * services.X[:, 0] ** 2 * (i + 1) for i, s in enumerate(services.scores)],
    )
    found = linear(services, level=0.9, score_range=(-10, 10))
    low, high = found.difference.interval
    seen = [np.nanmean(s) for s in services.scores]
    covered = [1 - r.mean() for r in services.abstained]
    minus = "\N{MINUS SIGN}"
    assert found.reason == (
        f"If both had to answer always, Owl would score an estimated {-found.difference.value:.3f} "
        f"less than Fox (90% interval of Owl minus Fox: {minus}{-low:.3f} to {minus}{-high:.3f}). "
        "The whole interval is below 0: choose Fox. "
        f"Where they answered, Owl scored {seen[0]:.3f} (on {covered[0]:.0%} of the points) and "
        f"Fox {seen[1]:.3f} (on {covered[1]:.0%}). "
        f"The decision may fall if on {100 * found.breakdown:.3g}% of all points the scores "
        "withheld are not like those of answers to similar inputs, and at a smaller share if these "
        "points are all among the abstentions."
    )
    assert found.decision == "choose B"


def test_points_needed():
    """As many as make the interval, in proportion to 1/sqrt(n), end at the margin."""
    services = trial(0.1, n=100, noise=0.5, seed=2)
    found = linear(services)
    low, high = found.difference.interval
    needed = 100 * ((high - low) / 2 / abs(found.difference.value)) ** 2
    assert found.decision == "undecided"
    assert 100 < needed < 10_000, needed
    told = int(found.reason.split("it takes about ")[1].split(" points")[0].replace(",", ""))
    assert needed <= told <= 1.1 * needed
    # A difference within the margin, or one that is lost in noise, is not worth more points.
    for other in (linear(services, margin=0.2), linear(trial(0.1, n=100, noise=0.5))):
        assert other.decision == "undecided"
        assert "does not tell" in other.reason
        assert "it takes" not in other.reason


def test_rounding_hides_no_decision():
    """An end just beyond the margin does not look as if it were on it."""
    found = linear(trial(0.2))
    low, half = 0.1 + 1e-5, 0.05
    close = replace(found.difference, value=low + half, interval=(low, low + 2 * half))
    words = module._reason(found.names, close, found.metrics, "choose A", 0.1, None, {})
    assert "minus B: 0.10001 to 0.20001)" in words


def test_selective_scores_that_mislead():
    """A answers its easy points only, all of B's are alike: seen scores prefer A, wrongly."""
    rng = np.random.default_rng(0)
    x = rng.random((600, 1))
    scores = (x[:, 0], np.full(600, 0.6) + 0.01 * rng.normal(size=600))
    services = Services(
        ("A", "B"),
        ("x",),
        x,
        scores,
        (rng.random(600) < 0.9 - 0.8 * x[:, 0], rng.random(600) < 0.3),
    )
    found = linear(services)
    assert found.decision == "choose B"
    assert "which misleads: it points the other way." in found.reason
    table = comparison_table(found)
    assert table["selective score"].iloc[2] > 0 > table["counterfactual score"].iloc[2]


def test_numbers_are_those_of_direct_calls(example, compared):
    direct = counterfactual_difference(
        example.X,
        example.scores[0],
        example.abstained[0],
        example.scores[1],
        example.abstained[1],
        learner="linear",
        rng=0,
    )
    assert compared.difference.value == direct.value
    assert compared.difference.interval == direct.interval
    assert compared.names == ("A", "B")
    for i, (name, single) in enumerate(zip("AB", compared.each, strict=True)):
        again = estimate_from_nuisances(direct.nuisances[i], clip=direct.clip)
        assert (single.value, single.interval) == (again.value, again.interval)
        assert single.nuisances[0] is compared.difference.nuisances[i]
        seen = selective_score(example.scores[i], example.abstained[i])
        assert compared.metrics.iloc[i].tolist() == [
            name,
            1 - example.abstained[i].mean(),
            seen.value,
            *seen.interval,
            again.value,
            *again.interval,
        ]
    a, b = compared.each
    assert a.value - b.value == pytest.approx(direct.value, abs=1e-12)


def test_one_estimation_only(example, monkeypatch):
    calls = []

    def counted(*given, **options):
        calls.append(options)
        return counterfactual_difference(*given, **options)

    monkeypatch.setattr(module, "counterfactual_difference", counted)
    found = linear(example, folds=3, repeats=3, clip=0.1, level=0.8)
    assert len(calls) == 1
    assert calls[0]["folds"] == calls[0]["repeats"] == 3
    assert {e.clip for e in (found.difference, *found.each)} == {0.1}
    assert {e.level for e in (found.difference, *found.each)} == {0.8}


def test_reproducible(example, compared):
    again = linear(example, score_range=(0, 1))
    assert again.reason == compared.reason
    pd.testing.assert_frame_equal(again.metrics, compared.metrics)
    assert linear(example, rng=np.random.default_rng(0)).difference.value == again.difference.value
    assert linear(example, rng=1).difference.value != again.difference.value


def test_breakdown():
    services = trial(0.3)
    decided = linear(services, margin=0.1, score_range=(-1, 2))
    assert decided.breakdown == breakdown_share(decided.difference, 0.1, (-1, 2))
    assert 0 < decided.breakdown < 1
    assert f"on {100 * decided.breakdown:.3g}% of all points" in decided.reason
    other = linear(trial(-0.3), margin=0.1, score_range=(-1, 2))
    assert other.breakdown == breakdown_share(other.difference, -0.1, (-1, 2))
    assert linear(trial(0.0), score_range=(-1, 2)).breakdown is None
    sure = linear(trial(0.8, hide=0.02), score_range=(-1, 2))
    assert sure.breakdown == math.inf
    assert sure.reason.endswith(
        "The decision would stand even if any share of the points broke missing-at-random, as long "
        "as which they are does not depend on abstention."
    )


@pytest.mark.parametrize("learner", ["forest", "super"])
def test_deterministic_abstention_is_told_not_warned_of(learner):
    rng = np.random.default_rng(0)
    x = rng.random((200, 2))
    scores = (rng.random(200) < 0.8, rng.random(200) < 0.3)
    services = Services(
        ("Owl", "Fox"), ("x", "y"), x, scores, (x[:, 0] > 0.5, rng.random(200) < 0.3)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = compare_services(services, learner=learner, rng=0)
    assert caught == []
    assert found.difference.diagnostics[0].positivity
    texts = [text for text in found.warnings if "positivity fails" in text]
    assert len(texts) == 2  # by the fitted propensity, and by the feature itself
    assert all(text.startswith("Owl: ") for text in texts)
    assert "But Owl seems never, or hardly ever, to answer some inputs" in found.reason
    # Owl is far ahead wherever it answers; nothing is known of the rest.
    assert found.difference.interval[0] > 0
    assert found.decision == "undecided"
    assert found.breakdown is None


def test_other_warnings():
    rng = np.random.default_rng(0)
    x, seldom = rng.random((300, 1)), rng.random(300) < 0.92
    services = Services(
        ("A", "B"), ("x",), x, (rng.random(300), rng.random(300)), (np.zeros(300, bool), seldom)
    )
    found = linear(services)
    assert any(text.startswith("A: it never abstained") for text in found.warnings)
    few = int((~seldom).sum())
    assert any(text.startswith(f"B: it answered only {few} of 300") for text in found.warnings)


@pytest.mark.parametrize(("b", "decision"), [(0.0, "choose A"), (1.0, "undecided")])
def test_constant_scores(b, decision):
    x = np.arange(40.0)[:, None]
    hidden = np.arange(40) % 3 == 0
    services = Services(("A", "B"), ("x",), x, (np.ones(40), np.full(40, b)), (hidden, hidden))
    found = linear(services)
    assert found.decision == decision
    assert any("no width" in text for text in found.warnings)
    assert ("as much as B" in found.reason) == (b == 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"margin": -0.1}, ValueError, "margin must be a finite number of at least 0, got -0.1"),
        ({"margin": True}, ValueError, "margin must be"),
        ({"margin": NAN}, ValueError, "margin must be"),
        ({"margin": "0.1"}, ValueError, "margin must be"),
        ({"level": 1}, ValueError, "level must be"),
        ({"score_range": 1}, ValueError, "score_range must be two finite numbers"),
        ({"score_range": (1, 0)}, ValueError, "score_range must be two finite numbers"),
        ({"score_range": (0, math.inf)}, ValueError, "score_range must be two finite numbers"),
        ({"score_range": (0, 0.9)}, ValueError, r"hold all scores, got \(0, 0.9\) and score_a 1 "),
        ({"learner": "magic"}, ValueError, "learner must be"),
        ({"folds": 1}, ValueError, "folds must be"),
        ({"rng": None}, ValueError, "rng must be"),
    ],
)
def test_bad_options(example, options, error, message):
    with pytest.raises(error, match=message):
        linear(example, **options)


def test_wrong_types(example):
    with pytest.raises(TypeError, match="services must be Services, got ndarray"):
        linear(example.X)
    for table in (comparison_table, diagnostics_table):
        with pytest.raises(TypeError, match="comparison must be a Comparison, got Services"):
            table(example)


# --- tables and example ---------------------------------------------------------------------------


def test_comparison_table(example, compared):
    table = comparison_table(compared)
    assert list(table.columns) == [
        "service",
        "coverage",
        "selective score",
        "selective low",
        "selective high",
        "counterfactual score",
        "counterfactual low",
        "counterfactual high",
    ]
    assert table["service"].tolist() == ["A", "B", "A − B"]
    assert table.iloc[:2].to_numpy().tolist() == compared.metrics.to_numpy().tolist()
    last = table.iloc[2]
    assert last["coverage"] == pytest.approx(
        example.abstained[1].mean() - example.abstained[0].mean()
    )
    assert last["selective score"] == table["selective score"][0] - table["selective score"][1]
    assert (last["counterfactual low"], last["counterfactual high"]) == compared.difference.interval


def test_interval_of_the_selective_difference_knows_of_pairs():
    never = comparison_table(linear(trial(0.1, hide=0.0))).iloc[2]
    for end in ("low", "high"):
        assert never[f"selective {end}"] == pytest.approx(never[f"counterfactual {end}"])
    # A trial whose services answer different points has independent means.
    rng = np.random.default_rng(0)
    r = rng.random(400) < 0.5
    services = Services(
        ("A", "B"), ("x",), rng.random((400, 1)), (rng.random(400), rng.random(400)), (r, ~r)
    )
    found = linear(services)
    parts = [
        selective_score(s, f).stderr
        for s, f in zip(services.scores, services.abstained, strict=True)
    ]
    last = comparison_table(found).iloc[2]
    half = (last["selective high"] - last["selective low"]) / 2
    assert half == pytest.approx(stats.norm.isf(0.025) * math.hypot(*parts))


def test_diagnostics_table(compared):
    table = diagnostics_table(compared)
    assert list(table.columns) == ["A", "B"]
    assert table.index.name == "quantity"
    assert list(table.index) == [
        "coverage",
        "overlap",
        "effective sample size",
        "largest weight",
        "share clipped",
        "abstention explained",
        "calibration slope",
        "calibration intercept",
        "calibration error",
        "outcome R2",
        "outcome bias",
    ]
    for letter, diagnostics in zip("AB", compared.difference.diagnostics, strict=True):
        assert table.loc["effective sample size", letter] == diagnostics.effective_sample_size
        assert table.loc["outcome R2", letter] == diagnostics.outcome_r2
        assert table.loc["abstention explained", letter] == diagnostics.explained
        assert table.loc["calibration slope", letter] == diagnostics.calibration_slope
        assert table.loc["calibration intercept", letter] == diagnostics.calibration_intercept
        assert table.loc["outcome bias", letter] == diagnostics.outcome_bias


def test_example():
    one, other = example_services(rng=3), example_services(rng=np.random.default_rng(3))
    assert (len(one), one.features, one.names) == (1000, ("x0", "x1"), ("A", "B"))
    np.testing.assert_array_equal(one.X, other.X)
    for scores, hidden in zip(one.scores, one.abstained, strict=True):
        np.testing.assert_array_equal(np.isnan(scores), hidden)
        assert set(scores[~hidden]) == {0, 1}
    assert "0.1061" in one.source
    with pytest.raises(ValueError, match="n must be an integer of at least 20"):
        example_services(19, rng=0)


def test_example_from_file_to_decision(tmp_path):
    services = example_services(rng=0)
    read = read_services(write_services(tmp_path / "trial.csv", services))
    found = linear(read)
    assert found.decision == "choose A"
    assert found.reason == linear(services).reason
