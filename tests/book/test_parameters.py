from pathlib import Path

import pytest
import yaml

from lib.book.chapters import chapter_files, declared_parameters, profile_parameters, read_chapter
from lib.book.execute import named_data
from lib.book.parameters import ParameterError, parse_parameters, validate_parameters
from lib.data import ALSO, IMAGE_SETS, UndeclaredData, available, image_files

CELL = """\
margin: float = 0.0  # (-1, 1) largest acceptable drop
folds: int = 15  # [2, 50] folds
data: list[str] = ["fmow"]  # {fmow, rxrx1} data sets
exact: bool = True  # any whether to be exact
label: str = "a"  # any free text
rate: float = 0.5  # [0, inf) a rate
"""
DECLARED = parse_parameters(CELL)


def test_declarations_are_read():
    names = ["margin", "folds", "data", "exact", "label", "rate"]
    assert [p.name for p in DECLARED] == names
    margin = DECLARED[0]
    about = ("float", "(-1, 1)", "largest acceptable drop")
    assert (margin.kind, margin.allowed, margin.meaning) == about
    defaults = dict(zip(names, [0.0, 15, ["fmow"], True, "a", 0.5], strict=True))
    assert validate_parameters(DECLARED, {}) == defaults


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("margin", -0.999, -0.999),
        ("margin", 0, 0.0),
        ("folds", 2, 2),
        ("folds", 50, 50),
        ("data", ["rxrx1", "fmow"], ["rxrx1", "fmow"]),
        ("exact", False, False),
        ("rate", 0, 0.0),
        ("rate", 1e300, 1e300),
        ("label", "", ""),
    ],
)
def test_allowed_values(name, value, result):
    checked = validate_parameters(DECLARED, {name: value})[name]
    assert checked == result
    assert type(checked) is type(result)


def test_unknown_name():
    with pytest.raises(ParameterError, match=r"unknown parameter margn = 1; did you mean margin\?"):
        validate_parameters(DECLARED, {"margn": 1})
    with pytest.raises(ParameterError, match="allowed: none"):
        validate_parameters((), {"anything": 1})
    with pytest.raises(ParameterError, match="quick, standard, gpu"):
        profile_parameters(Path(), "slow", "one")
    assert profile_parameters(Path(), "gpu", "no such chapter") == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = 1  # [0, 1] a number", "is not of the form"),
        ("import os", "is not of the form"),
        ("x: int = 1", "needs a comment"),
        ("x: int = 1  # a number", "needs a comment"),
        ("x: int = 1  # [0, 1]", "needs a comment"),
        ("x: dict = {}  # any mapping", "allowed are int, float"),
        ("x: int = len('a')  # [0, 1] a number", "not a literal"),
        ("x: int = 3  # [0, 1] a number", "x = 3 is not allowed"),
        ("x: int = 1  # [0; 1] a number", "malformed interval"),
        ("x: int  # [0, 1] a number", "x = None is not allowed"),
        ("x: int = 1  # any number\nx: int = 2  # any number", "declared twice"),
    ],
)
def test_bad_declarations(line, message):
    with pytest.raises(ParameterError, match=message):
        parse_parameters(line)


def test_every_profile_has_a_valid_file_for_every_chapter(root):
    """``<chapter>.yml``, and ``<chapter>.<variant>.yml``, which only papermill reads.

    Quick files say what differs from the chapter's own values; others have a whole experiment.
    """
    chapters, params = chapter_files(root / "book"), root / "params"
    seen = set()
    for path in params.glob("*/*.yml"):
        text = chapters[path.stem.split(".")[0]].read_text(encoding="utf-8")
        given = profile_parameters(params, path.parent.name, path.stem)
        declared = declared_parameters(read_chapter(text))
        validate_parameters(declared, given)
        if path.parent.name == "quick":
            assert not [p.name for p in declared if given.get(p.name) == p.default], path
        seen.add((path.parent.name, path.stem))
    assert {(p, c) for p in ("quick", "standard", "gpu") for c in chapters} <= seen


def test_the_data_that_a_profile_names_can_be_read_in_its_chapter(root, monkeypatch, tmp_path):
    """Registered for the chapter, or handed to it by the build because a parameter names them."""
    monkeypatch.setenv("COMPANION_OFFLINE", "1")  # asked for; none is here, to be fetched or read
    for place in ("COMPANION_DATA", "COMPANION_CACHE"):
        monkeypatch.setenv(place, str(tmp_path))
    monkeypatch.setenv("COMPANION_CHAPTER", "canaries")
    with pytest.raises(UndeclaredData):
        available("cifar/cifar10_binary")
    named = 0
    for path in (root / "params").glob("*/*.yml"):
        given = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        wanted = {f for v in given.values() if str(v) in IMAGE_SETS for f in image_files(v)}
        monkeypatch.setenv("COMPANION_CHAPTER", path.stem.split(".")[0])
        monkeypatch.setenv(ALSO, " ".join(named_data(given)))
        for file in wanted:
            available(file)  # raises UndeclaredData where the chapter may not read it
        named += bool(wanted)
    assert named >= 10
    given = {"images": "svhn", "other": 3, "list": ["gtsrb"]}
    assert named_data(given) == ["svhn/test", "svhn/train"]
    assert named_data({"dataset": "sst2"}) == ["sst2/dev", "sst2/train"]
