"""Which code counts: what texts of modules say, and what runs really execute."""

import pkgutil
import sys
import threading
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import lib
from lib.privacy import RandomizedResponse
from lib.runs import Checkpoint, imports, stored_table
from lib.runs.imports import needed, needed_by
from lib.runs.jobs import code_of
from lib.studies.beyond.six_lenses.lens_jobs import Classifiers
from lib.studies.canaries import simulation
from lib.studies.canaries.draws import CanaryDraw
from lib.studies.counterfactual.coverage import Trials
from lib.studies.counterfactual.scenarios import ScenarioRuns, Sizes
from lib.studies.interplay.outlier import OutlierRun
from lib.studies.suitability.study_runs import StudyRun
from lib.training import (
    DataSpec,
    FixMatch,
    LabelTrainings,
    ManyTrainings,
    ModelSpec,
    SelfAdaptiveTraining,
    SubsetTrainings,
    Teachers,
    Training,
    TrainingConfig,
)

ROOT = Path(lib.__file__).parent
FILES = {
    "__init__.py": '"""All."""\n__version__ = "1"\n',
    "shelf/__init__.py": '"""Passes on."""\nfrom lib.shelf.one import first\n'
    "from lib.shelf.two import second\n__all__ = ['first', 'second']\n",
    "shelf/one.py": "from lib.other import help\nfirst = 1\n",
    "shelf/two.py": "second = first = 2\n",
    "shelf/three.py": "third = 3\n",
    "shelf/table.yml": "a: 1\n",
    "shelf/examples/one.py": "1\n",
    "own/__init__.py": "from lib.shelf import second\nSTATE = {}\n",
    "other/table.yml": "a: 1\n",  # beside the module of that name
    "other.py": '"""As lib.own and ``lib.shelf.two`` do."""\nhelp = 1\n',
}


@pytest.fixture
def library(tmp_path, monkeypatch) -> Path:
    """A small lib."""
    for name, text in FILES.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(imports.lib, "__file__", str(tmp_path / "lib" / "__init__.py"))
    _forget()
    yield tmp_path / "lib"
    _forget()


def _forget() -> None:
    """What a process remembers of the files, as if it were a new one."""
    caches = imports._read, imports._kept, imports._passed_on, imports._beside
    for each in (needed, *caches):
        each.cache_clear()


ONE, TWO, THREE = ({f"shelf.{name}"} for name in ("one", "two", "three"))
SHELF = {"shelf", "other"} | ONE | TWO
ALL = SHELF | THREE | {"own", "", "shelf.examples.one"}


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import numpy", set()),
        ("from lib.shelf import second", TWO),
        ("def f():\n    from lib.shelf import first", ONE | {"other"}),
        ("try:\n    from lib.shelf import three\nexcept ImportError:\n    three = None", THREE),
        ("from lib.shelf.three import third", THREE),
        ("import lib\nlib.shelf.three.third", THREE),
        ("from lib import shelf\nshelf.second", TWO),
        ("from lib import shelf\nshelf.three.third", THREE),
        ("from lib import shelf as s\nprint(s.second, s.first)", ONE | TWO | {"other"}),
        ("from lib import shelf\nshelf.unknown", SHELF),
        ("from lib import shelf\ngetattr(shelf, name)", SHELF),
        ("from lib import shelf\nopen_chapter(globals())", SHELF),
        ("from lib import shelf\nfor shelf in shelf.second: shelf.colour", SHELF),
        ("from lib.shelf import *", SHELF),
        ("from lib.shelf import unknown", SHELF),
        ("import lib.shelf", SHELF),
        ("from lib.own import second", {"own"} | TWO),  # which has a state
        (
            "if TYPE_CHECKING:\n    from lib.shelf import first\nelse:\n    import lib.other",
            {"other"},
        ),
        ('run([sys.executable, "-m", "lib.shelf.three"])', THREE),
        ('start(manager="lib.shelf.three.Manager")', THREE),
        ('"""lib.shelf.three"""', set()),
        ("import_module(name)", ALL),
        ("__import__(name)", ALL),
        ("model.eval()", set()),
        ("exec(text)", ALL),
        ("import lib as library\nlibrary.shelf.one", ALL),
    ],
)
def test_what_code_needs(library, code, modules):
    assert set(needed_by([code]).modules) == {f"lib.{m}".rstrip(".") for m in modules}


def test_what_was_read_is_read_no_more_by_the_next_process(library, monkeypatch):
    """Unless its file is damaged, or there are other modules, by whose names it is understood."""
    parsed = []

    def parse(code):
        parsed.append(code)
        return parse_it(code)

    parse_it = imports._parsed
    monkeypatch.setattr(imports, "_parsed", parse)
    first = needed("lib.shelf").fingerprint()
    (kept,) = library.glob("__pycache__/*.json")
    assert len(parsed) == 4
    whole = kept.read_text()
    for text, module, expected in (
        (whole, "", 0),
        (whole[:-9], "", 4),
        ("0", "", 4),
        (whole.replace("lib.shelf.one", "lib.shelf.two"), "", 4),
        (whole, "zz.py", 4),
    ):
        kept.write_text(text)
        (library / (module or "own/__init__.py")).touch()
        parsed.clear()
        _forget()
        assert needed("lib.shelf").fingerprint() == first
        assert len(parsed) == expected


def test_what_cannot_be_followed(library):
    with pytest.raises(ValueError, match="line 1"):
        needed_by(["from . import shelf"])
    with pytest.raises(ValueError, match="nowhere"):
        needed("nowhere")


def fingerprint(files: bool = False) -> str:
    _forget()
    return needed_by(["from lib.shelf import second"], "lib.shelf.one").fingerprint(files)


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("shelf/two.py", "2", "3", True),
        ("other.py", "1", "2", True),
        ("shelf/three.py", "3", "4", False),
        ("own/__init__.py", "{}", "[]", False),
        ("shelf/__init__.py", "Passes", "Hands", False),
        # Both modules count before and after, but the name means another thing.
        ("shelf/__init__.py", "lib.shelf.two import second", "lib.shelf.one import second", True),
        ("shelf/table.yml", "1", "2", False),
        ("other.py", "1", "1  # a remark", False),
        ("other.py", "1", "(\n    1\n)", False),
        ("other.py", "As", "Like", False),
    ],
)
def test_what_changes_a_key(library, file, old, new, counts):
    before, path = fingerprint(), library / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert (fingerprint() != before) == counts


def test_files_count_that_code_names(library):
    unnamed = fingerprint(files=True)
    (library / "shelf" / "table.yml").write_text("a: 2\n")
    assert fingerprint(files=True) == unnamed
    with (library / "shelf" / "one.py").open("a") as module:
        module.write("FOLDER = Path(__file__).parent\n")
        module.write("read(FOLDER / 'table.yml', FOLDER / 'examples' / 'one.py')\n")
    found = {fingerprint(files=True)}
    (library / "shelf" / "table.yml").write_text("a: 3\n")
    found.add(fingerprint(files=True))
    code = fingerprint()
    (library / "shelf" / "examples" / "one.py").write_text("2\n")
    found.add(fingerprint(files=True))
    assert len(found) == 3
    assert fingerprint() == code


DATA = DataSpec("digits", train=150, test=60)
IMAGES = DataSpec("digits", "images", train=150, test=60)
LINEAR, MLP = ModelSpec("linear", (64,), 10), ModelSpec("mlp", (64,), 10, hidden=(8,))
ABSTAIN = replace(MLP, head="abstain")
PLAIN = TrainingConfig(LINEAR, steps=4, batch_size=20)
PRIVATE = TrainingConfig(MLP, epsilon=8.0, delta=1e-5, steps=4, batch_size=20, checkpoint_every=2)
MATCH = FixMatch(LINEAR, steps=2)
TEACHERS = Teachers(MATCH, IMAGES, 3)
SAMPLED = replace(PRIVATE, sample_rate=0.2)
JOBS = {
    "private": lambda: Training(PRIVATE, DATA),
    "many": lambda: ManyTrainings((PLAIN, replace(PLAIN, seed=1)), DATA),
    "self-adaptive": lambda: ManyTrainings(
        (TrainingConfig(ABSTAIN, steps=4, batch_size=20, objective=SelfAdaptiveTraining(1)),), DATA
    ),
    "subsets": lambda: SubsetTrainings(SAMPLED, DATA, 3),
    "labels": lambda: LabelTrainings(PLAIN, DATA, RandomizedResponse(2.0), (CanaryDraw(5, 10, 0),)),
    "teachers": lambda: TEACHERS,
    "suitability": lambda: StudyRun("digits", "ERM", 0, 4),
    "scenarios": lambda: ScenarioRuns("digits", True, "linear", Sizes(400, 200), 2, 0),
    "trials": lambda: Trials(0.5, 40, (4,), True, 0.9, 0, 2, 0),
    "outlier": lambda: OutlierRun((1.0,), 1, 0, 10.0),
    "classifiers": lambda: Classifiers((PLAIN,), DATA, (("rotation", 20.0),)),
}


def executed(call) -> set[str]:
    """Modules of ``lib`` in which functions are executed; not what modules do when imported."""
    found: set[str] = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            found.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = (Path(each).relative_to(ROOT.parent).with_suffix("") for each in found)
    return {".".join(path.parts).removesuffix(".__init__") for path in paths}


@pytest.fixture(scope="module")
def imported() -> None:
    """All of lib is, and loops are compiled: what is imported late would count as executed."""
    for each in pkgutil.walk_packages(lib.__path__, "lib."):
        if not each.name.startswith(("lib.book", "lib.report")):
            import_module(each.name)
    for config in (PLAIN, PRIVATE):
        pair = (config, replace(config, seed=1))
        ManyTrainings(pair, replace(DATA, seed=1)).execute(Checkpoint())


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_all_code_that_a_job_executes_is_in_its_key(name, imported, monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))
    job = JOBS[name]()
    found = executed(lambda: job.execute(Checkpoint()))
    counted = set(code_of(job).modules)
    assert type(job).__module__ in found
    assert found <= counted
    assert len(counted) < 75
    assert not any(each.startswith(("lib.book", "lib.report")) for each in counted)


@pytest.mark.slow
def test_all_code_that_a_table_executes_is_in_its_key(imported, monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))
    study = simulation.randomized_response_study
    found = executed(lambda: study([1.0], n_classes=3, canaries=20, repetitions=2, seed=1))
    assert found <= set(needed(study.__module__).modules)


def test_what_is_handed_to_a_table_is_in_its_key(monkeypatch, tmp_path):
    jobs = []
    monkeypatch.setattr("lib.runs.store.RunStore.run", lambda _, job: jobs.append(job))
    with pytest.raises(AttributeError):  # nothing comes back
        stored_table(simulation.randomized_response_study, [MATCH], {"f": needed_by}, 20, 2, seed=1)
    assert {"lib.training.fixmatch", "lib.runs.imports"} <= set(code_of(jobs[0]).modules)


def test_cells_know_what_others_import():
    whole = needed_by(["from lib import audit\naudit.Trials\n"])
    assert needed_by(["from lib import audit\n", "audit.Trials\n"]) == whole
    assert "lib.audit.counts" in whole.modules
    both = "def f():\n    from lib import data\n    return data.load_digits\n\n\n"
    both += "def g():\n    from lib.studies import audit as data\n    return data.x\n"
    assert {"lib.data.digits", "lib.studies.audit"} <= set(needed_by([both]).modules)
