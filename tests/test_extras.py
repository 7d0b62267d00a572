"""Without the extra that trains models, what needs it says so in one line, and the rest works."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from lib.extras import TRAINING

ROOT = Path(__file__).parents[1]

WITHOUT = """
import ast, importlib, sys
from pathlib import Path

class Lacking:
    def find_spec(self, name, path=None, target=None):
        asked.add(name)
        if name.partition(".")[0] in {lacking!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

asked = set()
sys.meta_path.insert(0, Lacking())
for name in sys.argv[1:]:
    try:
        if name.endswith(".py"):  # what a chapter imports
            parts = ast.parse(Path(name).read_text(encoding="utf-8")).body
            kept = [p for p in parts if isinstance(p, ast.Import | ast.ImportFrom)]
            exec(compile(ast.Module(kept, []), name, "exec"), {{}})
        else:
            importlib.import_module(name)
    except Exception as error:
        print(name, type(error).__name__, str(error).replace("\\n", " / "), sep="|")
    else:
        print(name, "imported", " ".join(asked), sep="|")
"""


def outcomes(*names):
    """By name: what came of the import where what trains models is not installed."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(lacking=TRAINING), *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split("|") for line in done.stdout.splitlines()]
    return {name: (kind, said) for name, kind, said in lines}


CHAPTERS = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "book").rglob("*.py"))]
TRAINED = ["lib.training", "lib.training.single", "lib.studies.audit.planted_faults"]
TRAINED += ["lib.studies.interplay.experiments", "lib.studies.beyond.six_lenses.lens_jobs"]
FORMULAS = ["lib.selective", "lib.suitability", "lib.audit", "lib.counterfactual", "lib.privacy"]
SPARED = [*FORMULAS, "lib.report", "lib.data", "lib.studies", "lib.studies.suitability.experiment"]
HEAVY = {"torch", "opacus", "IPython", "matplotlib.pyplot"}
SAID = (
    "torch and opacus must be installed to train models, which reports and formulas do "
    "without: pip install '.[training]' in a clone of the repository"
)


def test_one_line_says_what_to_install_and_no_chapter_fails_without_it():
    """And formulas load nothing heavy, nor ask whether it is there."""
    found = outcomes(*SPARED, *TRAINED, *CHAPTERS)
    assert found.keys() == {*SPARED, *TRAINED, *CHAPTERS}
    assert {name: found[name] for name in TRAINED} == dict.fromkeys(
        TRAINED, ("ModuleNotFoundError", SAID)
    )
    assert {found[name][0] for name in SPARED} == {"imported"}
    asked = {*found[FORMULAS[-1]][1].split()}
    assert {*FORMULAS, "numpy"} <= asked
    assert not HEAVY & asked
    assert found["book/your_model.py"][0] == "imported"
    assert found["book/training.py"][0] == "ModuleNotFoundError"
    for name in CHAPTERS:
        kind, said = found[name]
        assert kind == "imported" or "pip install '.[training]'" in said, (name, said)


def test_only_what_is_lacking_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        runpy.run_path(str(ROOT / "lib" / "extras.py"))
    assert str(caught.value) == SAID.replace("torch and opacus", "opacus")
