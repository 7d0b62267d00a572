"""Without the extra that trains models, what needs it says so in one line, and the rest works."""

import subprocess
import sys
from pathlib import Path

from lib.extras import TRAINING

ROOT = Path(__file__).parents[1]

WITHOUT = """
import ast, importlib, sys
from pathlib import Path

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {lacking!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

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
        print(name, "imported", "", sep="|")
"""


def outcomes(*names, lacking=TRAINING):
    """By name: what came of the import where some modules are not installed."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(lacking=lacking), *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split("|") for line in done.stdout.splitlines()]
    return {name: (kind, said) for name, kind, said in lines}


def test_one_line_says_what_to_install():
    trained = ["lib.training", "lib.training.single", "lib.studies.audit.planted_faults"]
    trained += ["lib.studies.interplay.experiments", "lib.studies.beyond.six_lenses.lens_jobs"]
    spared = ["lib.report", "lib.audit", "lib.selective", "lib.suitability", "lib.counterfactual"]
    spared += ["lib.privacy", "lib.data", "lib.studies", "lib.studies.suitability.experiment"]
    found = outcomes(*trained, *spared)
    said = (
        "torch and opacus must be installed to train models, which reports and formulas do "
        "without: pip install '.[training]' in a clone of the repository"
    )
    assert found == dict.fromkeys(trained, ("ModuleNotFoundError", said)) | dict.fromkeys(
        spared, ("imported", "")
    )
    (one,) = outcomes("lib.training", lacking=("opacus",)).values()
    assert one == ("ModuleNotFoundError", said.replace("torch and opacus", "opacus"))


def test_no_chapter_fails_without_saying_what_to_install():
    chapters = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "book").rglob("*.py"))]
    found = outcomes(*chapters)
    assert found.keys() == set(chapters)
    kinds = {name: kind for name, (kind, _) in found.items()}
    assert kinds["book/your_model.py"] == "imported"
    assert kinds["book/training.py"] == "ModuleNotFoundError"
    for name, (kind, said) in found.items():
        assert kind == "imported" or "pip install '.[training]'" in said, (name, said)
