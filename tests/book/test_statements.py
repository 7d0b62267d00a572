"""The inventory of the papers' statements: that it is whole, and how verdicts on it follow."""

import importlib
import re
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from scipy import stats

from lib.book.chapters import chapter_files
from lib.book.claims import (
    CANNOT,
    DATA,
    DECIDED,
    NETWORK,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REDUCED,
    REPRODUCED,
    TRAINING,
    UNDECIDED,
    WORDS,
    Claim,
    ClaimError,
    differing,
    judge,
    judged_anew,
    read_claims,
    unsettled,
)
from lib.book.evidence import Evidence, range_of
from lib.book.ledger import Ledger, ledger_html, runs_of_page, tally_html
from lib.book.pages import Page
from lib.book.records import read_records
from lib.book.render import settled
from lib.book.statements import (
    OURS,
    PAPERS,
    Statement,
    read_settings,
    read_statements,
    setting_text,
    verdict_of,
)
from lib.studies.audit.system import audited_problem
from lib.studies.default_problem import on_public_network
from lib.training import ModelSpec, parameter_count


def claim(name: str, **changes) -> Claim:
    base = {"paper": "P2", "chapter": "one", "place": "Table 1", "claim": "So.", "why": "so."}
    return Claim(name, **(base | {"kind": "exact", "at_least": 0} | changes))


def statement(*ids: str, **changes) -> Statement:
    base = {"paper": "P2", "place": "Table 1", "kind": "table", "says": "So."}
    return Statement("S", **(base | changes), claims=ids)


@pytest.fixture(scope="module")
def book(request):
    folder = request.config.rootpath / "book"
    claims = read_claims(folder / "claims.yml")
    statements = read_statements(folder / "statements.yml", claims)
    return SimpleNamespace(folder=folder, claims=claims, statements=statements)


@pytest.fixture(scope="module")
def runs(book):
    """Recorded runs by chapter, judged by the conditions as they stand."""
    chapters = dict.fromkeys(each.chapter for each in book.claims.values())
    return {
        name: {k: judged_anew(book.claims, r) for k, r in read_records(book.folder, name).items()}
        for name in chapters
    }


@pytest.fixture(scope="module")
def ledger(book, runs) -> Ledger:
    """The ledger as a build shows it that runs nothing itself."""
    pages = {}
    for name, records in runs.items():
        own = [each for each in book.claims.values() if each.chapter == name]
        verdicts = [unsettled(each, "this build runs nothing", {}).as_dict() for each in own]
        own = {"parameters": {}, "used": {}, "tables": {}, "values": {}, "chapter": name}
        pages[name] = Page(SimpleNamespace(verdicts=verdicts, **own), records, book.claims)
    verdicts = {i: of for page in pages.values() for i, of in page.verdicts.items()}
    every = {name: runs_of_page(page) for name, page in pages.items()}
    addresses = {name: f"{name}.html" for name in (*runs, "reproduces")}
    of = book.statements, book.claims, verdicts, addresses, every
    return Ledger(*of, *read_settings(book.folder / "settings.yml"))


# ------------------------------------------------------------------ the inventory


def test_every_claim_belongs_to_one_statement_or_to_ours(book):
    of = [i for each in book.statements.values() for i in each.claims]
    assert sorted(of) == sorted(book.claims)
    for each in book.statements.values():
        assert all(book.claims[i].ours == (each.paper == OURS) for i in each.claims), each.id
        papers = {book.claims[i].paper for i in each.claims}
        assert each.paper == OURS or papers <= {each.paper}, each.id
        assert each.id.startswith("OURS" if each.paper == OURS else each.paper), each.id


def test_every_statement_has_a_verdict_and_a_place(ledger):
    assert {each.paper for each in ledger.statements.values()} == {*PAPERS}
    for each in ledger.statements.values():
        word, follows = ledger.verdict(each)
        assert word in WORDS
        assert follows or len(each.claims) == 1, each.id
        assert each.where or each.cannot, each.id
        if word == CANNOT:
            assert len(follows) > 10, each.id  # the reason


def test_where_a_statement_lives_is_there(book):
    chapters = chapter_files(book.folder)
    for name in {name for each in book.statements.values() for name in each.where}:
        if name in chapters:
            continue
        module, _, function = name.rpartition(".")
        assert function in importlib.import_module(module).__all__, name


def test_tests_that_are_named_are_there(book):
    root = book.folder.parent
    tested = {test for each in book.statements.values() for test in each.tested}
    assert len(tested) > 30
    for test in tested:
        file, _, name = test.partition("::")
        assert re.search(rf"^def {name}\(", (root / file).read_text(), re.M), test


def test_no_verdict_judges_a_number_of_another_network(book, runs):
    """Of all recorded runs; and there is something not to judge."""
    seen = dict.fromkeys(WORDS, 0)
    for chapter in runs.values():
        for run in chapter.values():
            scale = run["parameters"] | run.get("used", {})
            for found in run["verdicts"]:
                each = book.claims[found["id"]]
                other = {*differing(each.full_scale, scale)} & {*NETWORK, *DATA, *TRAINING}
                if other and each.kind != "trend":
                    seen[found["verdict"]] += 1
                    assert found["verdict"] in (NOT_COMPARABLE, CANNOT), (each.id, other)
    assert seen[NOT_COMPARABLE] > 100


@pytest.mark.parametrize("kept", ["P1-T1", "P1-T2", "P5-T3", "P5-T4"])
def test_tables_of_other_networks_are_not_comparable(ledger, kept):
    assert ledger.verdict(ledger.statements[kept])[0] == NOT_COMPARABLE


def test_parameters_of_our_networks_are_counted(book):
    _, networks = read_settings(book.folder / "settings.yml")
    shapes = {"fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32), "gtsrb32": (3, 32, 32)}
    for name, counts in networks.items():
        network, _, width = name.removesuffix("-on-features").partition("-")
        for data, count in counts.items():
            hidden = int(width or 32)
            given = {"points": 1000, "hidden": hidden, "activation": "tanh", "seed": 0}
            if network in ("mlp", "linear"):
                data_spec, spec = audited_problem(data, network, **given)
                if name.endswith("-on-features"):
                    spec = on_public_network(data_spec, spec, 1000)[1]
            else:
                spec = ModelSpec(name, shapes[data], 43 if data == "gtsrb32" else 10)
            assert parameter_count(spec) == count, (name, data)


#: Parameters that say what was trained, on how much, how long and how often.
FACTS = {
    *(*NETWORK, *DATA, *TRAINING, "points", "public", "canaries", "outlier_clipping_norm"),
    *("n_seeds", "n_models", "n_ensembles", "n_teachers", "n_shadow", "n_target", "n_audits"),
    *("image_points", "image_train", "image_public", "image_epochs", "linear_draws", "super_draws"),
    *("learning_rates", "augment", "pate_steps", "pate_student_steps", "pate_batch"),
}
#: Of the same record, but of another training or of none.
OTHERS = {
    "P5-pate": {"model", "epochs", "batch_size", "learning_rates", "augment", "n_models"},
    "P5-labels": {"pate_model", "n_teachers", "n_ensembles"}
    | {"pate_steps", "pate_student_steps", "pate_batch"},
    "P4-images": {"points"},
}


def test_no_row_of_a_training_lacks_a_fact_that_the_record_has(ledger):
    """Each fact has a row, and no row that says something of ours in words has a dash."""
    seen = 0
    for each in ledger.statements.values():
        settings = ledger.settings.get(each.settings)
        chapters = {ledger.claims[i].chapter for i in each.claims}
        for chapter in chapters if settings else ():
            for name, run in ledger.runs[chapter].items():
                if not any(run["verdicts"].get(i, {}).get("value") for i in each.claims):
                    continue
                facts = {*run["scale"]} & FACTS - OTHERS.get(each.settings, set())
                assert facts <= {*settings.ours.values()}, (each.id, name)
                for setting in settings.paper:
                    said = setting_text(settings, ledger.networks, setting, run["scale"])
                    lacks = settings.ours.get(setting) not in run["scale"]
                    assert said != "–" or (lacks and setting in settings.ours), (each.id, setting)
                    seen += said != "–"
    assert seen > 200


# ------------------------------------------------------------------ the rule

A, B = claim("A"), claim("B")


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ([REPRODUCED, REPRODUCED], REPRODUCED),
        ([REPRODUCED, REDUCED], REDUCED),
        ([REPRODUCED, UNDECIDED], UNDECIDED),
        ([UNDECIDED, NOT_REPRODUCED], NOT_REPRODUCED),
        ([REPRODUCED, NOT_COMPARABLE], REPRODUCED),
        ([UNDECIDED, CANNOT], UNDECIDED),
        ([NOT_COMPARABLE, CANNOT], NOT_COMPARABLE),
        ([CANNOT, CANNOT], CANNOT),
    ],
)
def test_a_statement_is_judged_by_its_claims(words, word):
    found = {
        i: {"verdict": w, "reason": "a reason", "n": None} for i, w in zip("AB", words, strict=True)
    }
    for order in (found, dict(reversed(found.items()))):
        said, follows = verdict_of(statement("A", "B"), {"A": A, "B": B}, order)
        assert said == word
        assert follows


def test_what_no_claim_puts_to_the_test():
    nothing = {"verdict": CANNOT, "reason": "cannot fail", "n": None}
    tested = statement("A", tested=("tests/x.py::test_y",))
    assert verdict_of(tested, {"A": A}, {"A": nothing})[0] == REPRODUCED
    missed = nothing | {"verdict": NOT_REPRODUCED}
    assert verdict_of(tested, {"A": A}, {"A": missed})[0] == NOT_REPRODUCED
    assert verdict_of(statement("A"), {"A": A}, {"A": nothing}) == (CANNOT, "cannot fail")
    assert verdict_of(statement(cannot="no text"), {}, {}) == (CANNOT, "no text")


def test_a_table_of_one_more_shuffle_is_seldom_refuted_and_one_of_other_numbers_always():
    """Cells that a range judges: as many may lie outside as chance puts there."""
    rng, repetitions, cells = np.random.default_rng(0), 200, 24
    bounds = {"at_least": None, "kind": "statistical", "across": "shuffles", "tolerance": 0.0}
    ranged = bounds | {"fewest": 20, "in_range": True, "cells": cells}
    count = {0.0: dict.fromkeys(WORDS, 0), 9.0: dict.fromkeys(WORDS, 0)}
    for shift, seen in count.items():
        for values in rng.normal(size=(repetitions, cells, 21)):
            claims = {
                str(i): claim(str(i), reported=float(row[0] + shift), **ranged)
                for i, row in enumerate(values)
            }
            found = {
                i: judge(claims[i], range_of(row[1:]), {}).as_dict()
                for i, row in zip(claims, values, strict=True)
            }
            seen[verdict_of(statement(*claims), claims, found)[0]] += 1
    # 5% of tables are refuted by one of their cells: here with three binomial standard errors.
    allowed = 0.05 + 3 * np.sqrt(0.05 * 0.95 / repetitions)
    assert count[0.0][NOT_REPRODUCED] <= allowed * repetitions
    assert count[0.0][REPRODUCED] > repetitions / 2
    assert count[9.0][NOT_REPRODUCED] == repetitions


def test_more_cells_outside_than_chance_puts_there_leave_a_table_open():
    near = {"reported": 0.5, "tolerance": 0.0, "kind": "statistical", "across": "shuffles"}
    ranged = near | {"at_least": None, "fewest": 20, "in_range": True, "cells": 2}
    claims = {i: claim(i, **ranged) for i in "AB"}
    inside, outside = Evidence(0.5, 0.4, 0.6, 20), Evidence(0.55, 0.503, 0.603, 20)
    found = {i: judge(claims[i], inside, {}).as_dict() for i in "AB"}
    assert verdict_of(statement("A", "B"), claims, found)[0] == REPRODUCED
    found["B"] = judge(claims["B"], outside, {}).as_dict()
    assert verdict_of(statement("A", "B"), claims, found)[0] == UNDECIDED  # 1 where 0.2 may


# ------------------------------------------------------------------ the file


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"claims": ["Z-*"]}, "Z-\\* is no claim"),
        ({"claims": ["A"], "cannot": "why"}, "needs claims or tested, or cannot"),
        ({}, "needs claims or tested, or cannot"),
        ({"claims": ["A"], "paper": "P9"}, "P9"),
        ({"claims": ["A"], "kind": "hunch"}, "hunch"),
        ({"claims": ["A"], "verdict": "reproduced"}, "verdict"),
    ],
)
def test_bad_statements(tmp_path, entry, message):
    base = {"id": "S", "paper": "P2", "place": "x", "kind": "table", "says": "So."}
    (tmp_path / "statements.yml").write_text(yaml.safe_dump([base | entry]))
    with pytest.raises(ClaimError, match=message):
        read_statements(tmp_path / "statements.yml", {"A": A})


def test_a_claim_of_two_statements_and_one_of_none(tmp_path):
    path = tmp_path / "statements.yml"
    assert read_statements(path, {"A": A})["A"].paper == OURS
    base = {"paper": "P2", "place": "x", "kind": "table", "says": "So.", "claims": ["A"]}
    path.write_text(yaml.safe_dump([base | {"id": "S"}]))
    found = read_statements(path, {"A": A, "B": B})
    assert [(each.id, each.paper, each.claims) for each in found.values()] == [
        ("S", "P2", ("A",)),
        ("B", OURS, ("B",)),
    ]
    path.write_text(yaml.safe_dump([base | {"id": "S"}, base | {"id": "T"}]))
    with pytest.raises(ClaimError, match="A belongs to S"):
        read_statements(path, {"A": A})


# ------------------------------------------------------------------ pages


def test_settings_stand_beside_the_verdict_of_a_training(ledger):
    """Ours are those of each run's record."""
    row = ledger_html(ledger).split("id='statement-P1-F2'")[1].split("class='statement'")[0]
    table = row.split("aria-label='Settings'")[1].split("</table>")[0]
    head, *lines = (re.findall(r"<t[dh].*?>(.*?)</t[dh]>", x) for x in table.split("<tr>")[1:])
    main = head.index("ours (standard)")
    cells = {line[0]: (line[1], line[main]) for line in lines}
    assert cells["clipping norm"] == ("10", "0.1")
    assert cells["network"] == ("ResNet-18", "a small CNN")
    assert cells["parameters"] == ("11.2 million", "26,010")
    assert any(word in cells["verdict of this run"][1] for word in WORDS)


def test_every_run_shows_its_number_beside_the_verdict(ledger):
    """P5's ten runs on Fashion-MNIST, too, though three on CIFAR-10 are more like the paper's."""
    row = ledger_html(ledger).split("id='statement-P5-D'")[1].split("class='statement'")[0]
    table = row.split("aria-label='Settings'")[1].split("</table>")[0]
    (numbers,) = re.findall(r"<tr><td>least lead in accuracy</td>(.*?)</tr>", table)
    cells = re.findall(r"<td>(.*?)</td>", numbers)
    found = {cell.rpartition("(n = ")[2].rstrip(")") for cell in cells[1:]}
    assert cells[0] == "–"
    assert found == {"10", "3"}
    assert all("claim-interval" in cell for cell in cells[1:])


def test_what_would_decide_whether_the_bayesian_interval_is_narrower(book, runs):
    """The counts of the row on P3's Table 2, and how many audits a sign test then takes."""
    says, values = book.statements["P3-T2a"].says, runs["audit_trainings"]["standard.cifar10"]
    narrower = [values["values"][f"swept_lira_{name}_narrower"] for name in ("free", "loose")]
    audits = values["values"]["audits"]
    assert f"in {narrower[0]} of {audits} without privacy, in {narrower[1]} of {audits}" in says
    needed = [audits_to_decide(each / audits) for each in narrower]
    assert "about 200 and 50 audits" in says
    assert needed == pytest.approx([200, 50], rel=0.05)


def audits_to_decide(fraction: float, power: float = 0.8) -> int:
    """Fewest audits whose sign test refutes with that power that half or more are narrower."""
    for n in range(10, 1000):
        fewest = stats.binom.cdf(np.arange(n + 1), n, 0.5)
        refuted = np.flatnonzero(fewest <= 0.025)
        if len(refuted) and stats.binom.cdf(refuted[-1], n, fraction) >= power:
            return n
    raise AssertionError("more than a thousand")


def test_every_training_says_its_settings(ledger):
    trained = {*NETWORK, "images"}
    for each in ledger.statements.values():
        full = {name for i in each.claims for name in ledger.claims[i].full_scale}
        assert bool(each.settings) >= bool(full & trained), each.id
        assert not each.settings or each.settings in ledger.settings, each.id


@pytest.mark.parametrize("paper", [each for each in PAPERS if each != OURS])
def test_a_tally_adds_up(ledger, paper):
    page = tally_html(ledger, paper)
    counts = [int(n) for n in re.findall(r"</span>: (\d+)</li>", page)]
    total = len(ledger.of(paper))
    assert sum(counts) == total
    assert f"Of {total} statements." in page


def test_a_setting_in_words(book):
    settings, networks = read_settings(book.folder / "settings.yml")
    given = {"models": ["small_cnn", "medium_cnn"], "dataset": "cifar10", "epochs": 0.0}
    for name, words in (
        ("network", "a small CNN and a larger CNN"),
        ("parameters", "37,274 and 142,122"),
        ("data", "CIFAR-10"),
        ("momentum", "–"),
        ("epochs", "557 steps"),
    ):
        of = given | {"steps": 557}
        assert setting_text(settings["P1-panel"], networks, name, of) == words


def test_a_run_without_a_number_gives_way(ledger):
    none = {"verdict": NOT_COMPARABLE, "value": None, "reason": "another", "interval": None}
    here = {"verdict": NOT_COMPARABLE, "value": 0.5, "reason": "", "interval": None, "n": None}
    assert settled(here, {"standard": none}).run == "this build"
    assert settled(none | {"verdict": CANNOT}, {"standard": none}).found == none
    assert all(
        of.found["value"] is not None for of in ledger.verdicts.values() if of.verdict in DECIDED
    )
