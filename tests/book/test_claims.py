"""Claims: what they may say, how they are judged, and how verdicts are shown."""

import json
import math
from types import SimpleNamespace

import pytest
import yaml

from lib.book import ledger, render
from lib.book.claims import (
    CANNOT,
    DECIDED,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REDUCED,
    REPRODUCED,
    TRAINING,
    UNDECIDED,
    WORDS,
    Claim,
    ClaimError,
    audit_verdicts,
    judge,
    judged_anew,
    read_claims,
    unsettled,
)
from lib.book.evidence import Evidence, runs
from lib.book.ledger import Ledger
from lib.book.pages import Page
from lib.book.render import of_claim, settled
from lib.book.sphinx_ext import _value
from lib.book.statements import Statement
from lib.book.words import NAMED, number_text, scale_text

BASE = {
    "id": "A",
    "paper": "P2",
    "chapter": "one",
    "place": "Table 1",
    "claim": "It is <so>.",
    "kind": "exact",
    "why": "arithmetic.",
}
CHANCE = {"kind": "trend", "across": "seeds", "at_least": 0}
NEAR = {"reported": 0.5, "tolerance": 0.1}
ADDRESSES = {"one": "one.html", "reproduces": "reproduces.html"}


def make(**changes) -> Claim:
    return Claim(**(BASE | changes))


def found(claim, value, parameters=None, shown=None) -> dict:
    return judge(claim, value, parameters or {}, shown).as_dict()


def ledger_of(claims, verdicts, runs=None) -> Ledger:
    """A statement for each claim, with verdicts of a build and of records of the chapter `one`."""
    of = {i: settled(v, of_claim(runs or {}, i)) for i, v in verdicts.items()}
    stated = {
        i: Statement(f"S-{i}", c.paper, c.place, "finding", f"Says {i}.", ("one",), (i,))
        for i, c in claims.items()
    }
    return Ledger(stated, claims, of, ADDRESSES)


def ledger_html(*parts):
    return ledger.ledger_html(ledger_of(*parts))


def claim_html(claim, verdict, records=None):
    return render.claim_html(claim, settled(verdict, records or {}), ledger="reproduces.html")


@pytest.mark.parametrize(
    ("bounds", "value", "holds"),
    [
        ({"reported": 0.97, "tolerance": 0.005}, 0.975, True),
        ({"reported": 0.97, "tolerance": 0.005}, 0.9751, False),
        ({"reported": 0.97, "tolerance": 0.005}, 0.965, True),
        ({"reported": 0.97, "tolerance": 0.0}, 0.97, True),
        ({"reported": 0.97, "tolerance": 0.0}, 0.9700001, False),
        ({"reported": 0.97, "tolerance": 1.0}, math.nan, False),
        ({"at_least": 1}, 1.0, True),
        ({"at_least": 1}, 0.999, False),
        ({"at_most": 0}, 0.0, True),
        ({"at_most": 0}, 1e-300, False),
        ({"at_least": 0, "at_most": 1}, 2, False),
        ({"at_least": 0, "at_most": 1}, math.inf, False),
        ({"at_least": -1}, math.nan, False),
    ],
)
def test_conditions(bounds, value, holds):
    verdict = judge(make(**bounds), value, {})
    assert verdict.verdict == (REPRODUCED if holds else NOT_REPRODUCED)
    assert verdict.value == (value if math.isfinite(value) else None)


def test_scale_follows_from_the_parameters():
    claim = make(at_least=0, full_scale={"seeds": [0, 1, 2], "folds": 15})
    full, few = {"seeds": [0, 1, 2], "folds": 15, "x": 3}, {"seeds": [0], "folds": 15}
    for value, parameters, word in (
        (1, full, REPRODUCED),
        (-1, full, NOT_REPRODUCED),
        (1, few, REDUCED),
        (-1, few, NOT_REPRODUCED),
    ):
        verdict = judge(claim, value, parameters)
        reason = "seeds = [0] instead of [0, 1, 2]" if parameters is few else ""
        assert (verdict.verdict, verdict.reason) == (word, reason)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({**BASE, **each}, "needs either") for each in (
            {}, {"reported": 1.0}, {"tolerance": 1.0}, NEAR | {"at_least": 0})),
        ({**BASE, "at_least": 0, "kind": "hunch"}, "hunch"),
        ({**BASE, "at_least": 0, "verdict": "reproduced"}, "unknown field verdict"),
        ({**BASE, "at_least": 0, "kind": "trend"}, "lacks across"),
        ({**BASE, "at_least": 0, "across": "seeds"}, "can have no across"),
        ({**BASE, "at_least": 0, "slack": 0.1}, "can have no slack"),
        ({**BASE, "at_least": 0, "picture": "pie"}, "picture"),
        ({**BASE, **CHANCE, "slack": -0.1}, "slack must be positive"),
        ({**BASE, **CHANCE, "slack": 0.1, "fewest": 3}, "slack must be positive"),
        ({**BASE, **CHANCE, "leeway": -0.1}, "leeway must be positive"),
        ({**BASE, **CHANCE, "leeway": 0.1, "fewest": 3}, "leeway must be positive"),
        ({**BASE, **CHANCE, "leeway": 0.1, "slack": 0.1}, "not both"),
        ({**BASE, **CHANCE, "fewest": 1}, "fewest"),
        ({**BASE, **CHANCE, "possible": [1, 0]}, "two growing numbers"),
        ({**BASE, "at_least": 0, "possible": [0, 1]}, "can have no possible"),
        ({**BASE, **CHANCE, "fewest": 20, "in_range": True}, "in_range"),
        ({k: v for k, v in BASE.items() if k != "why"}, "lacks why"),
        ({**BASE, "at_least": 0, "cannot": "no counts"}, "can have no condition"),
        ({**BASE, "at_least": 0, "ours": "yes"}, "ours must be true or false"),
        ([{**BASE, "at_least": 0}] * 2, "listed twice"),
    ],
)  # fmt: skip
def test_bad_entries(tmp_path, changes, message):
    given = changes if isinstance(changes, list) else [changes]
    (tmp_path / "claims.yml").write_text(yaml.safe_dump(given))
    with pytest.raises(ClaimError, match=message):
        read_claims(tmp_path / "claims.yml")
    assert read_claims(tmp_path / "none.yml") == {}


def test_axes_make_one_claim_per_combination(tmp_path):
    entry = BASE | {
        "id": "T-{method}-{epsilon}",
        "place": "Table 1, {method}, epsilon = {epsilon}",
        "over": {"method": ["SR", "DE"], "epsilon": ["inf", 1]},
        "reported": [[0.1, 0.2], [0.3, None]],
        "at_most": 0.05,
        "group": "Table 1",
    }
    (tmp_path / "claims.yml").write_text(yaml.safe_dump([entry], sort_keys=False))
    claims = read_claims(tmp_path / "claims.yml")
    assert list(claims) == ["T-SR-inf", "T-SR-1", "T-DE-inf"]
    cell = claims["T-DE-inf"]
    assert (cell.reported, cell.place) == (0.3, "Table 1, DE, epsilon = inf")
    verdict = found(cell, 0.01, shown=0.4)  # the bound decides, not the reported value
    assert (verdict["verdict"], verdict["shown"]) == (REPRODUCED, 0.4)
    assert judge(cell, 0.3, {}, shown=0.3).verdict == NOT_REPRODUCED
    entry["reported"] = [[0.1, 0.2]]
    (tmp_path / "claims.yml").write_text(yaml.safe_dump([entry], sort_keys=False))
    with pytest.raises(ClaimError, match="reported must have the shape"):
        read_claims(tmp_path / "claims.yml")


NETWORK = {"model": "resnet18", "dataset": ["cifar10", "svhn"], "epochs": 200}
HIT, MISS = runs([0.5, 0.51, 0.52]), runs([0.9, 0.91, 0.92])


@pytest.mark.parametrize(
    ("kind", "value", "run", "word"),
    [
        ("statistical", HIT, NETWORK | {"dataset": "svhn"}, REPRODUCED),
        ("statistical", HIT, NETWORK | {"model": "mlp"}, NOT_COMPARABLE),
        ("statistical", MISS, NETWORK | {"dataset": "digits"}, NOT_COMPARABLE),
        (
            "statistical",
            runs([0.9, 0.91, 0.92]),
            {"dataset": "svhn", "epochs": 200},
            NOT_COMPARABLE,
        ),
        ("statistical", MISS, NETWORK | {"epochs": 9}, NOT_COMPARABLE),
        ("exact", 0.5, NETWORK | {"model": "mlp"}, NOT_COMPARABLE),
        ("trend", HIT, NETWORK | {"model": "mlp"}, REDUCED),
        ("trend", MISS, NETWORK | {"model": "mlp"}, NOT_REPRODUCED),
    ],
)
def test_a_number_of_another_network_is_shown_and_not_judged(kind, value, run, word):
    across = {} if kind == "exact" else {"across": "seeds"}
    claim = make(kind=kind, full_scale=NETWORK, **NEAR, **across)
    verdict = judge(claim, value, run)
    assert verdict.verdict == word
    assert verdict.value is not None


def test_what_cannot_be_checked_is_shown_with_the_reason():
    claim = make(cannot="the counts are not printed", reported=0.5)
    verdict = found(claim, 0.9)
    assert (verdict["verdict"], verdict["value"]) == (CANNOT, 0.9)
    assert unsettled(claim, "no data", {}).reason == "the counts are not printed"
    # Of another network on the paper's data a number is not comparable, even if a run keeps none.
    claim = make(full_scale=NETWORK, **NEAR)
    for run, word in (
        (NETWORK | {"model": "mlp", "dataset": "svhn"}, NOT_COMPARABLE),
        (NETWORK | {"model": "mlp", "dataset": "digits"}, CANNOT),
        (NETWORK, CANNOT),
    ):
        verdict = unsettled(claim, "trained here: another", run)
        assert (verdict.verdict, verdict.value) == (word, None)
        once = {"parameters": run, "verdicts": [verdict.as_dict()]}
        assert judged_anew({"A": claim}, once) == once


def test_a_setting_that_costs_nothing_must_be_the_papers():
    claim = make(**CHANCE, only_at={"outlier_clipping_norm": 10.0})
    for run, word in (
        ({"outlier_clipping_norm": 10.0}, NOT_REPRODUCED),
        ({"outlier_clipping_norm": 1.0}, UNDECIDED),
        ({}, UNDECIDED),
    ):
        verdict = judge(claim, runs([-1.0, -1.1, -1.2]), run)
        assert verdict.verdict == word
        assert bool(verdict.reason) == (word == UNDECIDED)
    assert scale_text(verdict.reason) == "clipping norm an unknown number instead of 10"


@pytest.mark.parametrize("values", [[1.0, 1.1, 1.2], [-1.0, -1.1, -1.2]])
def test_a_trend_at_other_settings_than_the_papers_decides_neither_way(values):
    """A smaller network or fewer runs do not hinder that; nor do settings in a claim of our own."""
    printed = {"clipping_norm": 10.0, "momentum": 0.0, "epochs": 200}
    claim = make(**CHANCE, full_scale={"model": "resnet18", "n_seeds": 5} | printed)
    small = {"model": "mlp", "n_seeds": 3}
    decided = REDUCED if values[0] > 0 else NOT_REPRODUCED
    assert judge(claim, runs(values), small | printed).verdict == decided
    for name, other in (("clipping_norm", 0.1), ("momentum", 0.9), ("epochs", 10.0)):
        verdict = judge(claim, runs(values), small | printed | {name: other})
        assert verdict.verdict == UNDECIDED
        assert name in verdict.reason
    ours = make(**CHANCE, ours=True, full_scale={"model": "resnet18"})
    assert judge(ours, runs(values), small | {"clipping_norm": 0.1}).verdict == decided


def test_a_line_of_a_kernel_says_why_a_number_decides_nothing():
    """Who runs a chapter with own parameters reads that line, not the ledger."""
    claim = make(**CHANCE, full_scale={"clipping_norm": 10.0})

    def line(of, run, values=(1.0, 1.1, 1.2)):
        return render.verdict_text(of, judge(of, runs(list(values)), run).as_dict())

    assert "clipping_norm = 0.1 instead of 10.0" in line(claim, {"clipping_norm": 0.1})
    assert line(claim, {"clipping_norm": 10.0}).endswith("(ours 1.1)")
    printed = make(cannot="Its numbers are lost")
    assert line(printed, {}).endswith("(ours 1.1, Its numbers are lost)")
    missing = unsettled(make(reported=0.5), "no data", {}).as_dict()
    assert render.verdict_text(make(reported=0.5), missing).endswith("(paper 0.5, no data)")


def test_of_two_runs_the_one_with_the_papers_settings_decides():
    """Where it has an interval; a single training gives way to a run that decides."""
    full = {"n": 5, "model": "resnet18", "dataset": "cifar10"}
    claim = make(**CHANCE, full_scale=full)
    near, far = {"model": "mlp", "dataset": "cifar10"}, {"model": "mlp", "dataset": "digits"}
    many, one = runs([-1.0, -1.1, -1.2]), runs([1.0])
    for nearer, word, run in (
        (runs([1.0, 1.1, 1.2]), REDUCED, "recorded run (standard.p1)"),
        (one, NOT_REPRODUCED, "recorded run (standard)"),
    ):
        records = {
            name: {
                "parameters": given,
                "verdicts": [judge(claim, value, given).as_dict()],
                "values": {},
                "figures": {},
            }
            for name, given, value in (("standard", far, many), ("standard.p1", near, nearer))
        }
        done = SimpleNamespace(verdicts=[judge(claim, one, {}).as_dict()])
        settled_here = Page(done, records, {"A": claim}).verdicts["A"]
        assert (settled_here.verdict, settled_here.run) == (word, run)


def test_audit_names_everything_that_is_wrong():
    claims = {
        "A": make(at_least=0),
        "B": make(id="B", at_least=0),
        "C": make(id="C", chapter="gone", at_least=0),
        "D": make(id="D", chapter="two", at_least=0),
    }
    given = {"one": [{"id": i} for i in ("A", "A", "Z", "D")], "two": [{"id": "D"}]}
    with pytest.raises(ClaimError) as caught:
        audit_verdicts(claims, given)
    for part in ("A twice", "claim Z", "belongs to two", "leaves B unchecked", "C names"):
        assert part in str(caught.value)
    audit_verdicts({"A": claims["A"]}, {"one": [{"id": "A"}]})


MISSED = {"value": 0.7, "verdict": NOT_REPRODUCED, "reason": "", "n": 5, "interval": [0.6, 0.8]}
HELD = MISSED | {"value": 0.5, "verdict": REPRODUCED}
OPEN = HELD | {"verdict": UNDECIDED}
NONE = {"value": None, "verdict": CANNOT, "reason": "no data"}


@pytest.mark.parametrize(
    ("recorded", "run", "otherwise"),
    [
        ({}, "this build", ()),
        ({"standard": None}, "this build", ()),
        ({"standard": NONE}, "this build", ()),
        ({"standard": OPEN | {"interval": None}}, "this build", ()),  # which kept no interval
        ({"standard": HELD | {"interval": None, "n": 1}}, "this build", ()),
        ({"standard": OPEN}, "recorded run (standard)", ()),
        ({"standard": MISSED, "gpu": HELD}, "recorded run (gpu)", ("recorded run (standard)",)),
        ({"standard": MISSED, "standard.b": HELD | {"verdict": REDUCED}},
         "recorded run (standard)", ("recorded run (standard.b)",)),
        ({"standard": HELD, "standard.b": HELD | {"verdict": REDUCED}},
         "recorded run (standard)", ()),
        ({"standard": MISSED, "standard.b": HELD | {"verdict": NOT_COMPARABLE}},
         "recorded run (standard)", ()),
        ({"standard": HELD, "standard.b": OPEN}, "recorded run (standard)", ()),
        ({"standard": MISSED, "standard.b": NONE}, "recorded run (standard)", ()),
    ],
)  # fmt: skip
def test_a_verdict_is_of_the_largest_run_that_decides_and_names_those_that_say_otherwise(
    recorded, run, otherwise
):
    of = settled(HELD, recorded)
    assert (of.run, of.otherwise) == (run, otherwise)
    page = claim_html(make(**CHANCE), HELD, recorded)
    assert page.count("says otherwise") == len(otherwise)


def test_pages_escape_what_claims_say_and_show_an_open_interval():
    claim = make(**CHANCE)
    verdict = found(claim, Evidence(1.0, 0.5, math.inf, 3))
    line, page = claim_html(claim, verdict), ledger_html({"A": claim}, {"A": verdict})
    for each in (line, page):
        assert "It is &lt;so&gt;." in each
        assert "<so>" not in each
    assert "[0.5, ∞]" in page
    assert "href='reproduces.html#claim-A'" in line


def test_conditions_that_were_changed_say_so_first():
    claims = {"A": make(revised=True, **NEAR), "B": make(id="B", **NEAR)}
    page = ledger_html(claims, {i: found(c, 0.5) for i, c in claims.items()})
    said = "1 of 2 conditions were set or changed after numbers were known."
    assert page.startswith(f"<p><strong>{said}")
    row, other = (page.split(f"id='statement-S-{i}'")[1] for i in "AB")
    why = "Condition set or changed after numbers were known."
    claim = row.split("id='claim-A'")[1].split("id='statement-S-B'")[0]
    assert claim.index(f"<strong>{why}</strong>") < claim.index("It is &lt;so&gt;.")
    assert why not in other


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.97251, "", "0.973"), (3.124, "epsilon", "ε = 3.12"), (1474, "trials", "1,470 trials"),
        (0.0, "", "0"), (-0.034567, "", "-0.0346"), (1e-12, "", "1 × 10⁻¹²"), (100.0, "", "100"),
        (2_345_678, "", "2.35 × 10⁶"), (math.inf, "", "∞"), (-math.inf, "", "-∞"),
        (math.nan, "", "–"), (None, "trials", "–"), (999.6, "", "1,000"), (12.0, "", "12"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits_and_units(value, unit, text):
    assert number_text(value, unit).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("given", "full", "words"),
    [
        ({"dataset": "digits", "models": ["mlp"], "n_seeds": 2, "epochs": 0.0},
         {"dataset": "cifar10", "models": ["resnet18"], "n_seeds": 5, "epochs": 200},
         "an MLP on digits instead of a ResNet-18 on CIFAR-10, 2 instead of 5 seeds, "
         "a fixed number of steps instead of 200 epochs"),
        ({"points": 20000, "model_seeds": [0]}, {"points": 50000, "model_seeds": [0, 1, 2]},
         "20,000 instead of 50,000 points, 1 instead of 3 models"),
        ({"margin": 0.01}, {"margin": 0.0, "n_seeds": 5},
         "margin 0.01 instead of 0, an unknown number instead of 5 seeds"),
        ({"unheard": 1}, {"unheard": 2}, "unheard = 1 instead of 2"),
    ],
)  # fmt: skip
def test_scales_are_said_in_words(given, full, words):
    assert scale_text(judge(make(at_least=0, full_scale=full), 1, given).reason) == words


def test_the_ledger_of_the_book_is_well_formed(root):
    claims = read_claims(root / "book" / "claims.yml")
    assert claims
    for claim in claims.values():
        assert claim.id.startswith(claim.paper + "-")
        assert len(claim.short or claim.claim) <= 72, claim.id  # fits on a line
        assert claim.measures or claim.reported is not None, claim.id
        assert set(claim.full_scale) | set(claim.only_at) <= NAMED, claim.id
    for claim in claims.values():  # P1 prints how it trains: whoever trains otherwise is not P1
        if claim.paper == "P1" and {"model", "models"} & {*claim.full_scale}:
            assert claim.ours != ({*TRAINING} <= {*claim.full_scale}), claim.id
    cells = [claim for claim in claims.values() if claim.group == "P1, Table 2"]
    assert len(cells) == 96
    for claim in cells:
        assert claim.tolerance == pytest.approx(min(0.01, max(0.003, claim.reported / 4))), claim.id


def test_no_record_decides_by_chance_alone(root):
    """What stands in the records, which are small, is what the ledger says; no sign decides.

    After a change of a condition ``python -m lib.book judge`` writes their verdicts anew.
    """
    claims = read_claims(root / "book" / "claims.yml")
    for path in (root / "book/records/standard").glob("*.json"):
        text = path.read_text()
        assert len(text) <= 300_000, path.name
        run = json.loads(text)
        assert judged_anew(claims, run)["verdicts"] == run["verdicts"]
        for each in run["verdicts"]:
            claim = claims[each["id"]]
            assert each["verdict"] in WORDS
            if claim.across and each["verdict"] in DECIDED:
                # A hit by the value alone needs the claim's runs; a miss is beyond its own error.
                hit = each["verdict"] in (REPRODUCED, REDUCED)
                assert each["n"] >= ((claim.fewest or 2) if hit else 2)


def test_a_number_is_quoted_of_the_largest_run_unless_another_is_named():
    run, signs = {"values": {"n": 1000, "old": 2}}, {"values": {"n": 500}}
    done = SimpleNamespace(profile="quick", values={"n": 7, "new": 3})
    records = {"standard": run | {"figures": {}}, "standard.signs": signs}
    app = SimpleNamespace(
        companion_pages={
            "one": Page(done, records, {}, values_quoted={"n"}),
            "two": Page(done, {}, {}, values_quoted={"n"}),
            "old": Page(done, records, {}, values_quoted={"n", "new"}),  # older than a number
            "own": Page(done, records, {}, values_quoted={"n"}, build=True),
        }
    )
    assert _value(app, "one.n:,") == _value(app, "one@standard.n:,") == "1,000"
    assert _value(app, "one@standard.signs.n") == "500"
    assert _value(app, "own.n:,") == _value(app, "two.n:,") == "7"
    assert _value(app, "own@standard.n:,") == "1,000"
    assert (_value(app, "old.n"), _value(app, "old.new")) == ("7", "3")  # none of the two is mixed
    assert _value(app, "one.n:,", own=True) == "7"
    for name in ("one@gpu.n", "one@standard.no", "one@build.n", "nothing.n"):
        with pytest.raises(KeyError, match=name):
            _value(app, name)
    with pytest.raises(ValueError, match="n:z"):
        _value(app, "one@standard.n:z")
