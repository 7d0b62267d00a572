"""Malformed chapter parameters: each of every chapter's, with values that it must not take.

What is expected is derived here from the declaration's text, not by the code under test.
"""

import math
import re
from pathlib import Path

import pytest

from lib.book.chapters import chapter_files, declared_parameters, profile_parameters, read_chapter
from lib.book.parameters import ParameterError, validate_parameters

ROOT = Path(__file__).parents[2]
DECLARED = {
    name: declared_parameters(read_chapter(path.read_text(encoding="utf-8")))
    for name, path in chapter_files(ROOT / "book").items()
}


#: What is of no declared type, whatever it may be.
ALWAYS = {repr(v): v for v in (None, {"a": 1}, object(), b"1", 1j, [], [[1]], [None])}


def beyond(allowed, kind):
    low, high = (float(end) for end in allowed[1:-1].split(","))
    number = int if kind == "int" else float
    found = {}
    if math.isfinite(low):
        found["below"] = number(low) - 1
        if allowed[0] == "(":
            found["at the lower end"] = number(low)
    if math.isfinite(high):
        found["above"] = number(high) + 1
        if allowed[-1] == ")":
            found["at the upper end"] = number(high)
    return found


def malformed(parameter):
    kind, allowed = parameter.kind, parameter.allowed
    is_list, item = kind.startswith("list["), re.sub(r"list\[(\w+)\]", r"\1", kind)
    bad = {}
    if item in ("int", "float"):
        bad |= {"text": "1", "truth": True}
    if item == "float":
        bad |= {"NaN": math.nan, "beyond any float": 10**400}
    if item == "int":
        bad |= {"no whole number": 1.5, "NaN": math.nan}
    if item == "bool":
        bad |= {"text": "yes", "number": 1}
    if item == "str":
        bad |= {"number": 3, "truth": True}
    if allowed.startswith("{"):
        bad["not in the set"] = "no such choice" if item == "str" else 987_654_321
    elif allowed != "any":
        bad |= beyond(allowed, item)
    if not is_list:
        return ALWAYS | bad | {"list": [parameter.default]}
    good = parameter.default[0]
    within = {f"{name} within": [good, value] for name, value in bad.items()}
    if "one for each" not in parameter.meaning:  # parallel lists may repeat a value
        within["repetition"] = [good, good]
    return ALWAYS | within | {"no list": good}


@pytest.mark.parametrize("chapter", DECLARED)
def test_malformed_parameters_are_named_with_what_is_allowed(chapter):
    wrong = []
    for parameter in DECLARED[chapter]:
        assert malformed(parameter)
        for label, value in malformed(parameter).items():
            try:
                found = validate_parameters(DECLARED[chapter], {parameter.name: value})
            except ParameterError as error:
                said = str(error)
                start = f"parameter {parameter.name} = "
                if said.startswith(start) and parameter.meaning in said and "\n" not in said:
                    continue
                found = said
            wrong.append((parameter.name, label, found))
    assert wrong == []


FILES = {
    "a program": "margin: !!python/object/apply:os.system ['touch executed']\n",
    "an unknown name": "no_such_thing: 1\n",
    "a list": "- 1\n",
    "text": "nothing but text\n",
    "unclosed": "margin: [1, 2\n",
    "bytes": b"margin: \xff\xfe\n",
    "a tab": "margin:\t- 1\n\t- 2\n",
    "a number as name": "3: 4\n",
}


@pytest.mark.parametrize("kind", FILES)
def test_a_malformed_parameter_file_is_named(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick").mkdir()
    file = tmp_path / "quick" / "suitability.yml"
    content = FILES[kind]
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ParameterError) as caught:
        validate_parameters(
            DECLARED["suitability"], profile_parameters(tmp_path, "quick", "suitability")
        )
    assert re.search(r"suitability\.yml|unknown parameter (3|no_such_thing)", str(caught.value))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quick"]
