"""What comes from a file, a parameter or a command line is never a program: shells, cells, YAML."""

import base64
import math
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from papermill import cli

from lib.book.chapters import profile_parameters, reproducing
from lib.book.claims import ClaimError, read_claims
from lib.book.parameters import ParameterError
from lib.data.errors import RegistryError
from lib.data.registry import parse_registry
from lib.data.untrusted import read_yaml

ROOT = Path(__file__).parents[2]

#: Texts that create the file `hit` where make, a shell or Python evaluates them.
ATTACKS = (
    "`touch hit`.npz",
    "$(shell touch hit).npz",
    "$$(touch hit).npz",
    "$(touch hit).npz",
    "a; touch hit",
    "a' ; touch hit; '",
    'a" ; touch hit; "',
    "a\ntouch hit",
    "-a b \\ $HOME ~ * # ü",
    "a && touch hit || $(eval x := y)",
)


@pytest.fixture
def make(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python", "papermill"):
        said = f"printf '%s\\0' \"$@\" >>'{tmp_path / 'given'}'"
        (programs / name).write_text(f"#!/bin/sh\n{said}\n")
        (programs / name).chmod(0o755)

    def call(*arguments, **environment):
        (tmp_path / "given").write_text("")
        command = ["make", "-f", str(ROOT / "Makefile"), f"BIN={programs}", "READY=", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env=environment or None
        )
        assert not (tmp_path / "hit").exists(), arguments
        return done, (tmp_path / "given").read_text().split("\0")[:-1]

    return call


@pytest.mark.parametrize(
    ("target", "name"),
    [("report", "PREDICTIONS"), ("record", "CHAPTER"), ("test", "MARK"), ("test", "WORKERS")],
)
def test_make_hands_on_what_it_is_given_and_runs_none_of_it(make, target, name):
    for attack in ATTACKS:
        done, given = make(target, f"{name}={attack}")
        assert done.returncode == 0, done.stderr
        assert attack in given
        if target == "report":
            _, given = make(target, **{name: attack}, PATH="/usr/bin:/bin")
            assert attack in given


@pytest.mark.parametrize(
    "profile", [*ATTACKS[:4], "quick; touch hit", "quick standard", "", "quick$(shell touch hit)"]
)
def test_make_takes_no_other_profile(make, profile):
    done, given = make("record", f"PROFILE={profile}")
    assert done.returncode == 2
    assert "must be quick" in done.stderr
    assert given == []


VALUES = (*ATTACKS, "a 'b' \"c\"", "\\n", "x -f params/quick/one.yml", "'", "\u202e", "1e-05", "~")


@pytest.mark.parametrize("value", VALUES)
def test_the_copied_command_gives_the_parameters_back(value, tmp_path):
    given = {"predictions": value, "delta": 1e-05, "names": [value], "seed": 0}
    declared = [SimpleNamespace(name=name) for name in given]
    command = reproducing("your_model", tmp_path / "params", declared, given)
    done = subprocess.run(
        ["sh", "-c", f"papermill() {{ for x; do printf '%s\\0' \"$x\"; done; }}; {command}"],
        cwd=tmp_path, capture_output=True, check=True,
    )  # fmt: skip
    words = done.stdout.decode().split("\0")[:-1]
    assert not (tmp_path / "hit").exists()
    options = cli.papermill.make_context("papermill", words).params
    (text,) = options["parameters_yaml"]
    assert yaml.load(text, cli.NoDatesSafeLoader) == given  # noqa: S506
    assert shlex.split(command)[:3] == ["papermill", "book/your_model.py", "out.ipynb"]


KEYS = (
    "x = __import__('pathlib').Path('hit').touch() #",
    "margin\n__import__('pathlib').Path('hit').touch()\ny",
    "import",
    "_",
    "globals",
    "a.b",
    "a, b",
    "",
    "ma rgin",
    "1",
)
CODE = "__import__('pathlib').Path('hit').touch()"
#: YAML values that papermill would write into a cell without quoting them.
QUOTED = f'" + {CODE} + "'
UNQUOTED = {
    "bytes": f"margin: !!binary {base64.b64encode(QUOTED.encode()).decode()}",
    "pairs": f"margin: !!pairs [a: {yaml.safe_dump(QUOTED).splitlines()[0]}]",
    "a set": "margin: !!set {a, b}",
    "a key that is no text": "margin: {1: 2}",
}


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cell = nbformat.v4.new_code_cell("margin = 0.0", metadata={"tags": ["parameters"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "in.ipynb")
    return tmp_path


def prepare(*arguments, notebook="in.ipynb"):
    words = [notebook, "out.ipynb", "--prepare-only", "-k", "python3", "-l", "python", *arguments]
    with cli.papermill.make_context("papermill", words) as context:
        cli.papermill.invoke(context)


def doors(text, folder):
    (folder / "given.yml").write_text(text, encoding="utf-8")
    encoded = base64.b64encode(text.encode()).decode()
    return (["-y", text], ["-f", "given.yml"], ["-f", str(folder / "given.yml")], ["-b", encoded])


@pytest.mark.parametrize("key", KEYS)
def test_a_key_never_becomes_part_of_a_cell(key, notebook):
    ways = [*doors(yaml.safe_dump({key: 1}), notebook), ["-p", key, "1"], ["-r", key, "1"]]
    for way in ways:
        with pytest.raises(ParameterError, match="identifiers"):
            prepare(*way)
        assert not (notebook / "out.ipynb").exists()
    assert not (notebook / "hit").exists()


@pytest.mark.parametrize("case", UNQUOTED)
def test_a_value_is_written_as_a_literal_or_not_at_all(case, notebook):
    for way in doors(UNQUOTED[case], notebook):
        with pytest.raises(ParameterError, match="margin"):
            prepare(*way)
    assert not (notebook / "out.ipynb").exists()


@pytest.mark.parametrize("value", [*VALUES, CODE, QUOTED, f'\\" + {CODE} #'])
def test_a_text_comes_out_of_the_cell_as_it_went_in(value, notebook):
    for way in (["-r", "margin", value], *doors(yaml.safe_dump({"margin": value}), notebook)):
        prepare(*way)
        cells = nbformat.read(notebook / "out.ipynb", 4).cells
        found = {}
        exec(cells[1].source, found)
        assert found["margin"] == value
    assert not (notebook / "hit").exists()


@pytest.mark.filterwarnings("ignore:The specified file")  # pytest undoes the handler's own filter
def test_a_chapter_is_guarded_too(notebook):
    chapter = str(ROOT / "book" / "suitability.py")
    with pytest.raises(ParameterError, match="identifiers"):
        prepare("-y", yaml.safe_dump({KEYS[0]: 1}), notebook=chapter)
    prepare("-p", "margin", "0.1", notebook=chapter)
    assert (notebook / "out.ipynb").exists()


def bomb(first, level, levels):
    """A text of some hundred characters that stands for an exponential number of values."""
    return "\n".join([f"a0: &a0 {first}", *(f"a{k}: &a{k} {level(k)}" for k in range(1, levels))])


def names(first, last):
    """Of one hash, if they were multiples of 2^61 - 1: a dict compares each with all others."""
    return "{" + ",".join(f"k{k}: 1" for k in range(first, last)) + "}"


HOSTILE = {
    "a bomb of aliases": (
        bomb("[x, x]", lambda k: f"[{', '.join([f'*a{k - 1}'] * 9)}]", 9),
        "aliases",
    ),
    "a bomb of texts": (f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 500)}]", "copied"),
    "a bomb of merges": (
        bomb("{k: 1}", lambda k: f"{{<<: [{', '.join([f'*a{k - 1}'] * 4)}], k{k}: 1}}", 20),
        "aliases",
    ),
    "a value that contains itself": ("a: &a [*a]", "contains itself, line 1"),
    "nesting": ("a: " + "[" * 5000, "50 deep, line 1"),
    "nested blocks": ("".join(f"{' ' * k}a:\n" for k in range(400)), "50 deep"),
    "a name twice": ("margin: 0.1\nseed: 1\nmargin: 0.2\n", "'margin' .* line 3"),
    "a tag": ("a: !!python/object/apply:os.system [x]", "constructor"),
    "too many digits": ("a: " + "9" * 5000, "100 characters, line 1, column 4"),
    "fractions of sixtieths": ("a: " + ":".join(["59"] * 30_000) + ".5", "100 characters"),
    "sixtieths by a tag": (f"a: !!int '{':'.join(['59'] * 10**5)}'", "100 characters"),
    "beyond floats": ("a:\n- -1.0e+400", "float, line 2, column 3"),
    "no integer": ("a: !!int ''", "int, line 1, column 4"),
    "no truth": ("a: !!bool maybe", "bool, line 1"),
    "no day": ("a: 2001-99-99", "timestamp, line 1"),
    "many names": (names(1, 10_002), "10,000 names in one mapping, line 1"),
    "merged names": (
        f"a: &a {names(1, 5002)}\nb: &b {names(5002, 10_003)}\nc: {{<<: [*a, *b]}}",
        "10,000 names in one mapping, line 3",
    ),
    "too long": ("a: " + "x" * 4_000_001, "4,000,000 characters"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_yaml_is_bounded_and_names_each_thing_once(case, notebook):
    text, said = HOSTILE[case]
    with pytest.raises(ValueError, match=said):
        read_yaml(text)
    if len(text) > 50_000:  # read once is enough
        return
    with pytest.raises(RegistryError, match=said):
        parse_registry(text)
    (notebook / "quick").mkdir()
    file = notebook / "quick" / "audit.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ParameterError, match=said):
        profile_parameters(notebook, "quick", "audit")
    with pytest.raises(ClaimError, match=said):
        read_claims(file)
    for way in doors(text, notebook) if case not in ("a tag", "no day") else ():
        with pytest.raises((yaml.YAMLError, ValueError)):
            prepare(*way)
    assert not (notebook / "out.ipynb").exists()


def test_numbers_that_yaml_has():
    given = "[1, -0x1F, 1_000, 1:30, 1:30.5, 1.5e+3, .inf, -.INF, 1e400, {}, {}.5]"
    found = read_yaml(given.format("9" * 100, "9" * 98))
    assert found == yaml.safe_load(given.format("9" * 100, "9" * 98))
    assert found[-2] == 10**100 - 1
    assert math.isnan(read_yaml(".nan"))
    assert read_yaml("a: " + "x" * 10**5) == {"a": "x" * 10**5}  # of texts, no such limit
    assert read_yaml(f"a: '{'9' * 10**5}'") == {"a": "9" * 10**5}


def test_yaml_is_read_in_one_place_by_the_strict_loader_alone():
    text = (ROOT / "book/claims.yml").read_text(encoding="utf-8")
    assert read_yaml(text) == yaml.safe_load(text)
    for path in (ROOT / "lib").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "untrusted.py":
            assert not re.search(r"yaml\.(safe_)?load", text), path
