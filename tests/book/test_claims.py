import json
import math
import re
from types import SimpleNamespace

import pytest
import yaml

from lib.book import render
from lib.book.claims import (
    MISSED_REDUCED,
    NOT_REPRODUCED,
    NOT_RUN,
    REDUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    ClaimError,
    Verdict,
    audit_verdicts,
    judge,
    judged_anew,
    read_claims,
)
from lib.book.evidence import Evidence, runs
from lib.book.pages import Page
from lib.book.render import Ledger, Settled, of_claim, settled
from lib.book.sphinx_ext import _value
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


def ledger_of(claims, verdicts, records, addresses) -> Ledger:
    """The verdicts by what a build and recorded runs of chapters found."""
    of = {
        i: settled(v, of_claim(records.get(claims[i].chapter, {}), i)) for i, v in verdicts.items()
    }
    return Ledger(claims, of, addresses)


def ledger_html(*parts):
    return render.ledger_html(ledger_of(*parts))


def tally_html(*parts):
    return render.tally_html(ledger_of(*parts[:-1]), parts[-1])


def claim_mark_html(claim, verdict, records, address):
    ledger = ledger_of({claim.id: claim}, {claim.id: verdict}, {"one": records}, {"one": address})
    return render.claim_mark_html(ledger, claim)


def claim_html(claim, verdict, records):
    return render.claim_html(claim, settled(verdict, records))


def cells_html(claims, verdicts, records, caption):
    of = {i: settled(verdict, records[i]) for i, verdict in verdicts.items()}
    return render.cells_html(claims, of, caption)


def verdicts_html(claims, verdicts):
    return render.verdicts_html(claims, {i: Settled(v, "this build") for i, v in verdicts.items()})


def make(**changes) -> Claim:
    return Claim(**(BASE | changes))


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
    verdict = judge(make(**bounds), value, {}).verdict
    assert verdict == (REPRODUCED if holds else NOT_REPRODUCED)


def test_value_that_is_not_finite_is_said_in_words():
    verdict = judge(make(at_most=0), math.inf, {})
    assert (verdict.verdict, verdict.value) == (NOT_REPRODUCED, None)
    assert verdict.reason == "the value is inf"


def test_scale_follows_from_the_parameters():
    claim = make(at_least=0, full_scale={"seeds": [0, 1, 2], "folds": 15})
    assert judge(claim, 1, {"seeds": [0, 1, 2], "folds": 15, "x": 3}).verdict == REPRODUCED
    reduced = judge(claim, 1, {"seeds": [0], "folds": 15})
    assert reduced.verdict == REDUCED
    assert reduced.reason == "seeds = [0] instead of [0, 1, 2]"
    missed = judge(claim, -1, {"seeds": [0], "folds": 15})
    assert missed.verdict == MISSED_REDUCED
    assert missed.reason == reduced.reason  # a miss says its scale, too
    assert judge(claim, -1, {"seeds": [0, 1, 2], "folds": 15}).reason == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "needs either"),
        ({"reported": 1.0}, "needs either"),
        ({"tolerance": 1.0}, "needs either"),
        ({"reported": 1.0, "tolerance": 0.1, "at_least": 0}, "needs either"),
        ({"at_least": 0, "kind": "hunch"}, "kind = 'hunch'"),
        ({"at_least": 0, "verdict": "reproduced"}, "unknown field verdict"),
        ({"at_least": 0, "kind": "trend"}, "is of kind trend and lacks across"),
        ({"at_least": 0, "kind": "statistical"}, "is of kind statistical and lacks across"),
        ({"at_least": 0, "across": "seeds"}, "is exact: it can have no across"),
        ({"at_least": 0, "slack": 0.1}, "is exact: it can have no slack"),
        (CHANCE | {"slack": -0.1}, "slack must be positive"),
        (CHANCE | {"slack": 0.1, "fewest": 3}, "slack must be positive and beside"),
        (CHANCE | {"leeway": -0.1}, "leeway must be positive"),
        (CHANCE | {"leeway": 0.1, "fewest": 3}, "leeway must be positive and beside"),
        (CHANCE | {"leeway": 0.1, "slack": 0.1}, "not both slack and leeway"),
        (CHANCE | {"fewest": 1}, "fewest must be an integer of at least 2, got 1"),
        (CHANCE | {"fewest": 20, "in_range": True}, "in_range needs reported, tolerance"),
    ],
)
def test_bad_entries(tmp_path, changes, message):
    path = tmp_path / "claims.yml"
    path.write_text(yaml.safe_dump([BASE | changes]))
    with pytest.raises(ClaimError, match=message):
        read_claims(path)


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
    found = claims["T-DE-inf"]
    assert (found.reported, found.place) == (0.3, "Table 1, DE, epsilon = inf")
    verdict = judge(found, 0.01, {}, shown=0.4)  # the bound decides, not the reported value
    assert (verdict.verdict, verdict.value, verdict.shown) == (REPRODUCED, 0.01, 0.4)
    assert judge(found, 0.3, {}, shown=0.3).verdict == NOT_REPRODUCED
    page = cells_html([found], {found.id: verdict.as_dict()}, {found.id: {}}, "Table <1>")
    assert "0.4" in page
    assert "1 reproduced" in page
    assert "<1>" not in page
    ledger = ledger_html(
        claims, {i: judge(c, 0.01, {}, 0.4).as_dict() for i, c in claims.items()}, {}, {"one": "x"}
    )
    assert ledger.count("companion-cells") == 1
    entry["reported"] = [[0.1, 0.2]]
    (tmp_path / "claims.yml").write_text(yaml.safe_dump([entry], sort_keys=False))
    with pytest.raises(ClaimError, match=r"reported must have the shape \(2, 2\), got \(1, 2\)"):
        read_claims(tmp_path / "claims.yml")


def test_a_cell_names_its_run_where_that_is_not_the_one_of_most():
    claims = [make(id=i, group="Table 1", reported=0.5, tolerance=0.1) for i in "ABC"]
    build = {c.id: judge(c, 0.4, {}, 0.4).as_dict() for c in claims}
    held = {c.id: {"standard": judge(c, 0.45, {}, 0.45).as_dict()} for c in claims}
    none = {"value": None, "shown": None, "verdict": NOT_RUN, "interval": None}
    named = "0.55 <small>recorded run (standard.b)</small></td>"
    said = "Ours are of the recorded run (standard) where no other run is named."
    page = cells_html(claims, build, held, "Table 1")
    assert "<small>" not in page
    assert said not in page
    held["C"] = {"standard": build["C"] | none, "standard.b": judge(claims[2], 0.55, {}).as_dict()}
    page = cells_html(claims, build, held, "Table 1")
    assert page.count("<small>") == page.count(named) == 1
    assert said in page
    # Where nothing covers a claim, the largest recorded run says why.
    held["C"] = {"standard": held["C"]["standard"] | {"reason": "no data here"}}
    assert "0.4 <small>this build</small>" in cells_html(claims, build, held, "Table 1")
    build["C"] |= none | {"reason": "no data there"}
    page = cells_html(claims, build, held, "Table 1")
    assert "No data here" in page
    assert "there" not in page


def test_missing_field_and_repeated_id(tmp_path):
    path = tmp_path / "claims.yml"
    path.write_text(yaml.safe_dump([{k: v for k, v in BASE.items() if k != "why"}]))
    with pytest.raises(ClaimError, match="lacks why"):
        read_claims(path)
    path.write_text(yaml.safe_dump([BASE | {"at_least": 0}] * 2))
    with pytest.raises(ClaimError, match="listed twice"):
        read_claims(path)
    assert read_claims(tmp_path / "none.yml") == {}


def test_audit_names_everything_that_is_wrong():
    claims = {
        "A": make(at_least=0),
        "B": make(id="B", at_least=0),
        "C": make(id="C", chapter="gone", at_least=0),
        "D": make(id="D", chapter="two", at_least=0),
    }
    found = {"one": [{"id": i} for i in ("A", "A", "Z", "D")], "two": [{"id": "D"}]}
    with pytest.raises(ClaimError) as caught:
        audit_verdicts(claims, found)
    for part in (
        "one checks A twice",
        "one checks the unknown claim Z",
        "one checks D, which belongs to two",
        "one leaves B unchecked",
        "C names the chapter gone, which the book lacks",
    ):
        assert part in str(caught.value)
    audit_verdicts({"A": claims["A"]}, {"one": [{"id": "A"}]})


def test_pages_escape_what_claims_say():
    claim = make(reported=0.5, tolerance=0.1)
    verdict = judge(claim, 0.55, {})
    missed = {"value": 0.52, "verdict": NOT_REPRODUCED, "reason": ""}
    box = claim_html(claim, verdict.as_dict(), {"gpu": missed, "standard": None})
    assert "It is &lt;so&gt;." in box
    assert "recorded run (gpu)" in box
    assert "verdict-no'>✗ not reproduced" in box  # the larger run's
    assert "title='not reproduced'>✗" in box
    for number in ("0.5<", "0.52<"):
        assert number in box
    assert "0.55" not in box  # one run a page
    assert "this build" not in box
    page = ledger_html({"A": claim}, {"A": verdict.as_dict()}, {}, {"one": "one.html"})
    assert "one.html#claim-A" in page
    assert "&lt;so&gt;" in page


@pytest.mark.parametrize("value", [0.55, 0.7])
def test_a_recorded_run_that_says_otherwise_is_named(value):
    claim = make(reported=0.5, tolerance=0.1)
    verdict = judge(claim, value, {})
    for first, other, differ in (
        (NOT_REPRODUCED, REDUCED, True), (MISSED_REDUCED, REPRODUCED, True),
        (REPRODUCED, NOT_REPRODUCED, True), (REPRODUCED, REDUCED, False),
        (NOT_REPRODUCED, MISSED_REDUCED, False), (REPRODUCED, UNDECIDED, False),
        (NOT_REPRODUCED, NOT_RUN, False),
    ):  # fmt: skip
        runs = {
            "standard": {"value": 0.7, "verdict": first, "reason": ""},
            "standard.signs": {"value": 0.5, "verdict": other, "reason": ""},
            "standard.none": None,
        }
        kept = {"one": {n: {"verdicts": [{"id": "A", **r}]} for n, r in runs.items() if r}}
        for page in (
            claim_html(claim, verdict.as_dict(), runs),
            ledger_html({"A": claim}, {"A": verdict.as_dict()}, kept, {"one": "one.html"}),
        ):
            said = "The recorded run (standard.signs) says otherwise."
            assert page.count("says otherwise") == page.count(said) == differ


ADDRESSES = {"one": "one.html", "reproduces": "reproduces.html"}


def test_a_mark_in_a_sentence_is_of_the_longest_run():
    claim = make(reported=0.5, tolerance=0.1)
    here = judge(claim, 0.55, {}).as_dict()

    def mark(**runs):
        kept = {name: {"verdicts": [{"id": "A", **run}]} for name, run in runs.items()}
        return claim_mark_html(claim, here, kept, "one.html")

    assert "href='one.html#claim-A'" in mark()
    assert "It is &lt;so&gt;." in mark()
    assert "reproduced (this build)" in mark()
    missed = {"value": 0.7, "verdict": NOT_REPRODUCED}
    held = {"value": 0.5, "verdict": REPRODUCED}
    assert "not reproduced (recorded run (standard))" in mark(standard=missed)
    assert "mark-no" in mark(standard=missed)
    assert "reproduced (recorded run (gpu))" in mark(standard=missed, gpu=held)
    assert "mark-yes" in mark(standard=missed, gpu=held)
    assert "(this build)" in mark(standard={"value": None, "verdict": NOT_RUN})
    assert "(this build)" in claim_mark_html(claim, here, {"gpu": {"verdicts": []}}, "one.html")


def test_a_tally_counts_each_claim_once_by_its_longest_run():
    claims = {i: make(id=i, reported=0.5, tolerance=0.1, place=f"cell {i}") for i in "ABC"}
    claims["D"] = make(id="D", paper="P3", reported=0.5, tolerance=0.1)
    values = {"A": 0.5, "B": 0.5, "D": 0.7}
    verdicts = {i: judge(claims[i], value, {}).as_dict() for i, value in values.items()}
    verdicts["C"] = verdicts["A"] | {"id": "C", "value": None, "verdict": NOT_RUN}
    run = {"verdicts": [{"id": "B", "value": 0.75, "verdict": NOT_REPRODUCED, "shown": None}]}
    anew = {"one": {"standard": judged_anew(claims, run)}}
    page = tally_html(claims, verdicts, anew, ADDRESSES, "P2")
    for part in (
        "✓ reproduced</span>: 1<",
        "✗ not reproduced</span>: 1<",
        "– not run in this profile</span>: 1<",
        "Of 3 conditions, 1 by a recorded run.",
        "The 1 that is not reproduced, 0 at reduced scale",
        "<a href='one.html#claim-B'>Cell B</a>: It is &lt;so&gt;. Found: 0.75; within 0.1 of 0.5.",
        "reproduces.html#p2",
    ):
        assert part in page
    assert "claim-A" not in page
    # A record is judged by the condition as it is, and by the size that its run had.
    claims["B"] = make(id="B", reported=0.8, tolerance=0.1, full_scale={"n": 9})
    anew = {"one": {"standard": judged_anew(claims, run)}}
    again = tally_html(claims, verdicts, anew, ADDRESSES, "P2")
    assert "◐ reproduced at reduced scale</span>: 1<" in again
    claims["B"] = make(id="B", reported=0.5, tolerance=0.1, full_scale={"n": 9})
    run["parameters"] = {"n": 2}
    anew = {"one": {"standard": judged_anew(claims, run)}}
    again = tally_html(claims, verdicts, anew, ADDRESSES, "P2")
    assert "✗ not reproduced at reduced scale</span>: 1<" in again
    assert "The 1 that is not reproduced, 1 at reduced scale" in again
    assert "within 0.1 of 0.5; n = 2 instead of 9." in again
    alone = tally_html(claims, verdicts, {}, ADDRESSES, "P2")
    assert "✓ reproduced</span>: 2<" in alone
    assert "details" not in alone
    with pytest.raises(ValueError, match=r"paper must be one of P1, P2, P3, P4, P5, got 'P9'"):
        tally_html(claims, verdicts, {}, ADDRESSES, "P9")


def test_undecided_is_shown_with_its_interval_wherever_verdicts_are():
    claim = make(kind="trend", across="seeds", at_least=0.0)
    verdict = judge(claim, runs([0.02, -0.01, 0.0]), {})
    assert verdict.verdict == UNDECIDED
    kept = {"standard": {"verdicts": [verdict.as_dict()]}}
    ends = "[-0.0346, 0.0413]"
    for page, times in (
        (claim_html(claim, verdict.as_dict(), {"standard": verdict.as_dict()}), 1),
        (
            cells_html(
                [claim], {"A": verdict.as_dict()}, {"A": {"standard": verdict.as_dict()}}, "cells"
            ),
            1,
        ),
        (ledger_html({"A": claim}, {"A": verdict.as_dict()}, {"one": kept}, ADDRESSES), 2),
    ):
        assert page.count(ends) == times
        assert "verdict-undecided'>? undecided" in page
    half = judge(claim, Evidence(1.0, 0.5, math.inf, 3), {})
    assert "[0.5, ∞]" in claim_html(claim, half.as_dict(), {})
    assert "?</a>" in claim_mark_html(claim, verdict.as_dict(), {}, "one.html")
    tally = tally_html({"A": claim}, {"A": verdict.as_dict()}, {}, ADDRESSES, "P2")
    assert "? undecided</span>: 1<" in tally
    assert "details" not in tally  # open is not missed


def test_a_record_without_interval_gives_way_to_a_build_that_decides():
    claim = make(kind="trend", across="seeds", at_least=0.0)
    here = judge(claim, runs([1.0, 1.1, 1.2]), {}).as_dict()
    old = {"verdicts": [judge(claim, 0.4, {}).as_dict()]}
    assert "reproduced (this build)" in claim_mark_html(claim, here, {"standard": old}, "x")
    open_too = judge(claim, 0.5, {}).as_dict()
    mark = claim_mark_html(claim, open_too, {"standard": old}, "x")
    assert "undecided (recorded run (standard))" in mark
    wide = {"verdicts": [judge(claim, runs([1.0, -1.0]), {}).as_dict()]}
    mark = claim_mark_html(claim, here, {"standard": wide}, "x")
    assert "undecided (recorded run (standard))" in mark  # an interval of a longer run counts


def test_a_verdict_is_a_line_that_opens():
    claim = make(reported=0.12345, tolerance=0.1, claim="It is long." * 20, short="It <is> short")
    box = claim_html(claim, judge(claim, 0.5, {"n": 2}).as_dict(), {})
    line, rest = box.split("</summary>")
    assert "It &lt;is&gt; short" in line
    assert ">✗</span>" in line
    assert "aria-label='not reproduced'" in line
    assert "paper 0.123 | ours 0.5" in line
    assert claim.claim not in line
    assert claim.claim in rest
    trend = make(at_least=0, measures="slope", unit="trials")
    assert ">slope: 1,230 trials<" in claim_html(trend, judge(trend, 1234, {}).as_dict(), {})
    none = claim_html(trend, Verdict("A", NOT_RUN, None, "no data").as_dict(), {})
    assert ">not run<" in none.split("</summary>")[0]
    assert "No data." in none


def test_many_verdicts_are_a_table_and_very_many_a_folded_one():
    for count in (4, 13):
        claims = [make(id=f"A{i}", at_least=0, measures="slope") for i in range(count)]
        found = {c.id: judge(c, 1.5, {}).as_dict() for c in claims}
        page = verdicts_html(claims, found)
        assert page.count("<tr id='claim-A") == count
        assert page.count("slope: 1.5") == count
        assert page.startswith("<details") == (count == 13)
    assert "13 verdicts: 13 reproduced" in page


def test_the_ledger_is_a_grid_whose_squares_lead_to_rows():
    claims = {i: make(id=i, reported=0.5, tolerance=0.1, place=f"cell {i}") for i in "ABC"}
    claims["C"] = make(id="C", reported=0.5, tolerance=0.1, group="Table 2", place="cell C")
    values = {"A": 0.5, "B": 0.9, "C": 0.5}
    page = ledger_html(
        claims, {i: judge(claims[i], v, {}).as_dict() for i, v in values.items()}, {}, ADDRESSES
    )
    grid = page.split("<ul class='companion-grid'>")[1].split("</ul>")[0]
    assert re.findall(r"class='verdict-(\S+)' href='#claim-(.)'", grid) == [
        ("yes", "A"),
        ("no", "B"),
        ("yes", "C"),
    ]
    assert re.findall(r">([^<])</a>", grid) == ["✓", "✗", "✓"]  # not by colour alone
    assert "aria-label='cell B: It is &lt;so&gt;.: not reproduced'" in grid
    for i in claims:
        assert page.count(f"<tr id='claim-{i}'") == 1
        assert f"one.html#claim-{i}" in page or i == "C"


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
        (
            {"dataset": "digits", "models": ["mlp"], "n_seeds": 2, "epochs": 0.0},
            {"dataset": "cifar10", "models": ["resnet18"], "n_seeds": 5, "epochs": 200},
            "an MLP on digits instead of a ResNet-18 on CIFAR-10, 2 instead of 5 seeds, "
            "a fixed number of steps instead of 200 epochs",
        ),
        ({"images": "digits"}, {"images": "cifar100"}, "digits instead of CIFAR-100"),
        ({"datasets": ["fmow"]}, {"datasets": ["fmow", "rxrx1"]}, "FMoW instead of FMoW and RxRx1"),
        ({"points": 20000}, {"points": 50000}, "20,000 instead of 50,000 points"),
        ({}, {"n_seeds": 5}, "an unknown number instead of 5 seeds"),
        ({"model_seeds": [0]}, {"model_seeds": [0, 1, 2]}, "1 instead of 3 models"),
        ({"model_seeds": [3]}, {"model_seeds": [0]}, "other models"),
        ({"margin": 0.01}, {"margin": 0.0}, "margin 0.01 instead of 0"),
        (
            {"power_learner": "forest"},
            {"power_learner": "super"},
            "learners for the power: random forests instead of super learners",
        ),
        ({"unheard": 1}, {"unheard": 2}, "unheard = 1 instead of 2"),
    ],
)
def test_scales_are_said_in_words(given, full, words):
    reason = judge(make(at_least=0, full_scale=full), 1, given).reason
    assert scale_text(reason) == words
    chance = make(**CHANCE | {"full_scale": full})
    assert scale_text(judge(chance, 1, given).reason) == f"{words}, no interval over seeds"


def test_other_reasons_keep_their_words_but_for_names():
    assert scale_text("the data are fashion-mnist") == "the data are Fashion-MNIST"
    assert scale_text("the linear part is too small") == "the linear part is too small"
    assert scale_text("") == ""


def test_the_ledger_of_the_book_is_well_formed(root):
    claims = read_claims(root / "book" / "claims.yml")
    assert claims
    for claim in claims.values():
        assert claim.id.startswith(claim.paper + "-")
        assert len(claim.short or claim.claim) <= 72, claim.id  # fits on a line
        assert claim.measures or claim.reported is not None, claim.id
        assert set(claim.full_scale) <= NAMED, claim.id


def test_no_record_decides_by_chance_alone(root):
    """What stands in the records, which are small, is what the ledger says; no sign decides."""
    claims = read_claims(root / "book" / "claims.yml")
    for path in (root / "book/records/standard").glob("*.json"):
        text = path.read_text()
        assert len(text) <= 300_000, path.name
        run = json.loads(text)
        assert judged_anew(claims, run)["verdicts"] == run["verdicts"]
        for found in run["verdicts"]:
            claim = claims[found["id"]]
            if claim.across and found["verdict"] not in (NOT_RUN, UNDECIDED):
                # A hit by the value alone needs the claim's runs; a miss is beyond its own error.
                hit = found["verdict"] in (REPRODUCED, REDUCED)
                assert found["n"] >= ((claim.fewest or 2) if hit else 2)


def test_a_number_is_quoted_of_the_largest_run_unless_another_is_named():
    run, signs = {"values": {"n": 1000, "old": 2}}, {"values": {"n": 500}}
    done = SimpleNamespace(profile="quick", values={"n": 7, "new": 3})
    records = {"standard": run | {"figures": {}}, "standard.signs": signs}
    pages = {
        "one": Page(done, records, {}, values_quoted={"n"}),
        "two": Page(done, {}, {}, values_quoted={"n"}),
        "old": Page(done, records, {}, values_quoted={"n", "new"}),  # older than a number
        "own": Page(done, records, {}, values_quoted={"n"}, build=True),
    }
    app = SimpleNamespace(companion_pages=pages)
    assert _value(app, "one.n:,") == _value(app, "one@standard.n:,") == "1,000"
    assert _value(app, "one@standard.signs.n") == "500"
    assert _value(app, "own.n:,") == _value(app, "two.n:,") == "7"
    assert _value(app, "own@standard.n:,") == "1,000"
    assert (_value(app, "old.n"), _value(app, "old.new")) == ("7", "3")  # none of the two is mixed
    assert _value(app, "one.n:,", own=True) == "7"
    assert _value(app, "one@standard.n:,", own=True) == "1,000"
    for name in ("one@gpu.n", "one@standard.no", "one@build.n", "nothing.n"):
        with pytest.raises(KeyError, match=f"no value '{name}'; known are"):
            _value(app, name)
    with pytest.raises(ValueError, match=r"value 'one@standard.n:z'"):
        _value(app, "one@standard.n:z")


def test_the_tolerances_of_p1s_table_2_follow_their_rule(root):
    claims = read_claims(root / "book" / "claims.yml").values()
    cells = [claim for claim in claims if claim.group == "P1, Table 2"]
    assert len(cells) == 96
    for claim in cells:
        assert claim.tolerance == pytest.approx(min(0.01, max(0.003, claim.reported / 4))), claim.id
