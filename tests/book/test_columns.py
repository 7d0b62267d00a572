"""Columns of tables: the ends of an interval share one, long words break, many are set smaller."""

import numpy as np
import pandas as pd
import pytest

from lib.book.columns import breakable, columns_of, joined
from lib.book.render import table_html
from lib.book.words import data_name, formatted


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"a": 1, "low": 2, "high": 3}, {"a": "1", "interval": "2 to 3"}),
        ({"low": 2, "high": 3}, {"interval": "2 to 3"}),
        ({"x": 1, "x low": 0, "x high": 2}, {"x [interval]": "1 [0, 2]"}),
        ({"x, y": 1, "x, low": 0, "x, high": 2}, {"x, y [interval]": "1 [0, 2]"}),
        ({"x": 1, "y, low": 0, "y, high": 2}, {"x": "1", "y, interval": "0 to 2"}),
        ({"low (p)": 0, "high (p)": 2}, {"interval (p)": "0 to 2"}),
        ({"error_low": 0, "error_high": 2}, {"error interval": "0 to 2"}),
        ({"x": 1, "x stderr": 5, "x low": 0, "x high": 2}, {"x [interval]": "1 [0, 2]"}),
        (
            {"z": 1, "x stderr": 5, "x low": 0, "x high": 2},
            {"z": "1", "x stderr [interval]": "5 [0, 2]"},
        ),
        ({"x": 1, "x low": np.nan, "x high": np.nan}, {"x [interval]": "1"}),
        ({"low": np.nan, "high": np.nan}, {"interval": "–"}),
        ({"x": 1, "x sd": 2, "n": 3}, {"x (± sd)": "1 ± 2", "n": "3"}),
        ({"x": 1, "x_sd": np.nan}, {"x (± sd)": "1"}),
        ({"lowest": 1, "highest": 2}, {"lowest": "1", "highest": "2"}),
        ({"high": 1, "low": 2}, {"high": "1", "low": "2"}),
        ({"low": "L", "high": "H"}, {"low": "L", "high": "H"}),
    ],
)
def test_what_belongs_together_shares_a_column(row, shown):
    columns = joined(columns_of(pd.DataFrame([row]), dict.fromkeys(row, "g")))
    texts = {c.name: c.texts[0].replace("\u00a0", " ") for c in columns}
    assert texts == shown


def test_two_intervals_of_one_value_stay_apart():
    row = {"x": 1, "x low": 0, "x high": 2, "x, b low": 3, "x, b high": 4}
    columns = joined(columns_of(pd.DataFrame([row]), {}))
    assert [c.name for c in columns] == ["x [interval]", "x, b interval"]


def test_long_words_may_break_and_are_escaped():
    assert breakable("a_b+c") == "a_b+c"
    assert breakable("logit_max+energy <x>") == "logit_<wbr>max+<wbr>energy &lt;x&gt;"
    assert breakable("1.234 [0.123, 4.567]") == "1.234 [0.123, 4.567]"


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (1e-5, "g", "10⁻⁵"), (3e-13, ".1e", "3.0 × 10⁻¹³"), (-2e20, "g", "-2 × 10²⁰"),
        (0.0, ".1e", "0"), (-4e-4, ".3f", "0.000"), (-4e-4, ".1%", "0.0%"),
        (-6e-4, ".3f", "-0.001"), (np.inf, ".3f", "∞"), (-np.inf, "", "-∞"),
        (90.0, "duration", "90 s"), ("1e-05", "", "1e-05"),
        (1.0, ".1%", "100%"), (0.9999, ".1%", "100.0%"), (0, "+.1%", "0%"),
        (1, "+.1%", "+100%"), (1234, ",d", "1,234"),
    ],
)  # fmt: skip
def test_numbers_are_written_for_readers(value, spec, text):
    assert formatted(value, spec).replace("\u00a0", " ") == text


def test_names_are_those_that_readers_know():
    frame = pd.DataFrame({"fpr": [0.1], "roc_auc": [0.2], "data": ["cifar100"], "kind": ["mlp"]})
    names = {"fmow": "FMoW", "small_cnn": "small_cnn", "super": "super"}
    assert {name: data_name(name) for name in names} == names
    columns = columns_of(frame, {})
    assert [c.name for c in columns] == ["FPR", "ROC AUC", "data", "kind"]
    assert [c.texts for c in columns[2:]] == [["CIFAR-100"], ["mlp"]]
    page = table_html(frame, "On fashion-mnist (mlp), my-fashion-mnist and a sst2x")
    assert "<caption>On Fashion-MNIST (an MLP), my-fashion-mnist and a sst2x</caption>" in page


def test_large_numbers_of_a_table_have_no_decimals_and_small_ones_keep_theirs():
    frame = pd.DataFrame({"x": [852.838, 0.1234], "n": [12345.6, 0.5], "empty": ["", ""]})
    columns = columns_of(frame, {"x": ".3f"})
    assert [c.texts for c in columns[:2]] == [["853", "0.123"], ["12,346", "0.5"]]
    assert "empty" not in table_html(frame)


def test_a_table_shows_words_for_truth_and_its_download_what_was_found():
    frame = pd.DataFrame({"sure": [True, False], "n": [np.inf, 1e-5], "x": [-4e-4, 1.0]})
    columns = columns_of(frame, {"n": "g", "x": ".3f"})
    assert [c.texts for c in columns] == [["yes", "no"], ["∞", "10⁻⁵"], ["0.000", "1.000"]]
    assert [c.number for c in columns] == [False, True, True]
