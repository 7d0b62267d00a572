"""The comparison of printed numbers itself."""

import pytest
from tolerances import FILE, Tolerance, differences, named_tolerances, table_differences

from lib.book.chapters import chapter_files


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("x = 0.1234567", "x = 0.1234566"),  # a millionth
        ("x = 0.1234567", "x = 0.12"),  # fewer digits
        ("x = 0.125000", "x = 0.13"),  # on the edge between two prints: both are right
        ("x = 0.125000", "x = 0.12"),
        ("x = -0.000", "x = 0.000"),
        ("x = 1.110223e-16", "x = -4.4e-16"),
        ("a  1,234  0.50", "a 1,234    0.50"),
        ("P3, CIFAR-10: inf", "P3, CIFAR-10: inf"),
        ("", "\n"),
    ],
)
def test_same(expected, found):
    assert differences(expected, found) == []


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("x = 0.918", "x = 0.919"),  # one unit of the last digit
        ("x = 0.1234567", "x = 0.1234569"),
        ("x = 0.1234567", "x = 0.13"),
        ("x = 1000000", "x = 1000001"),  # counts
        ("x = 3", "x = 3.4"),
        ("x = inf", "x = 1.0"),
        ("x = 1.0", "x = nan"),
        ("x = 1.0", "y = 1.0"),
        ("CIFAR-10", "CIFAR-100"),
        ("x = 1.0", "x = 1.0\ny = 2.0"),
        ("x = 1.0\ny = 2.0", "x = 1.0"),
        ("1 2", "1"),
        ("x = 1.0", "x = -1.0"),
    ],
)
def test_different(expected, found):
    assert len(differences(expected, found)) == 1


def test_named_tolerances():
    allowed = {"numbers/acc*": Tolerance(absolute=0.01, because="its standard error")}
    assert differences("accuracy = 0.918", "accuracy = 0.928", allowed) == []
    assert differences("accuracy = 0.918", "accuracy = 0.930", allowed)
    assert differences("other = 0.918", "other = 0.928", allowed)
    assert differences("accuracy = 0.918", "accuracy = 0.928", allowed, cell="table")
    assert differences("n = 100", "n = 101", {"*/n": Tolerance(relative=0.01, because="x")}) == []


def test_rows_of_their_own():
    allowed = {
        "bounds@inf/*": Tolerance(absolute=1.0, because="no privacy"),
        "bounds/*": Tolerance(absolute=0.1, because="privacy"),
    }
    old = "epsilon,AUC\ninf,3.00\n8.0,1.00\n"
    assert table_differences(old, old.replace("3.00", "3.90"), allowed, "bounds") == []
    assert table_differences(old, old.replace("1.00", "1.09"), allowed, "bounds") == []
    assert len(table_differences(old, old.replace("1.00", "1.90"), allowed, "bounds")) == 1
    assert len(table_differences(old, old.replace("3.00", "3.90"), allowed, "others")) == 1


def test_the_file_names_chapters():
    """And says why: `named_tolerances` refuses one without a reason."""
    assert {*named_tolerances()} <= {*chapter_files(FILE.parents[2] / "book")}
