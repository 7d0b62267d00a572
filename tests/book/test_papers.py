"""Words of the pages held against the records: what stands and is open of the five papers."""

import functools
import io
import re
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from lib.book.claims import (
    CANNOT,
    DATA,
    LEARNER,
    NETWORK,
    NOT_COMPARABLE,
    TRAINING,
    UNDECIDED,
    differing,
    judged_anew,
    read_claims,
)
from lib.book.records import read_records

BOOK = Path(__file__).parents[2] / "book"
DECIDED = re.compile("(not )?reproduced")


claims = functools.cache(lambda: read_claims(BOOK / "claims.yml"))
records = functools.cache(lambda chapter: read_records(BOOK, chapter))


def deciding(claim_id: str) -> str:
    """The verdict of the largest recorded run that decides, else undecided."""
    found = (
        verdict["verdict"]
        for run in records(claims()[claim_id].chapter).values()
        for verdict in run["verdicts"]
        if verdict["id"] == claim_id
    )
    return next(filter(DECIDED.match, found), UNDECIDED)


def claims_under(heading: str) -> list[str]:
    paragraphs = (BOOK / "papers.md").read_text().split("\n\n")
    of_heading = [p for p in paragraphs if p.startswith(f"**{heading}.**")]
    return [each for p in of_heading for each in re.findall(r"\{claim\}`(.*?)`", p)]


@pytest.mark.parametrize("claim_id", claims_under("What stands"))
def test_what_stands_is_refuted_by_no_recorded_run_that_decides(claim_id):
    assert not deciding(claim_id).startswith("not reproduced")


def of_the_run_most_like_the_papers(claim_id: str) -> str:
    """The verdict that the page of a claim shows, where several recorded runs have an interval."""
    full = claims()[claim_id].full_scale
    alike = (*NETWORK, *DATA, *TRAINING, *LEARNER)
    full = {name: full[name] for name in alike if name in full}
    found = [
        (len(differing(full, run["parameters"] | run.get("used", {}))), verdict["verdict"])
        for run in records(claims()[claim_id].chapter).values()
        for verdict in run["verdicts"]
        if verdict["id"] == claim_id and verdict["interval"]
    ]
    return min(found, key=lambda each: each[0], default=(0, ""))[1]


def test_what_is_undecided_is_called_open_under_any_heading():
    """A claim may hold in one run and be open in that which is the most like the paper's."""
    paragraphs = (BOOK / "papers.md").read_text().split("\n\n")
    stand = [p for p in paragraphs if p.startswith("**What stands.**")]
    for sentence in re.split(r"(?<=[.?!])\s", " ".join(stand)):
        found = re.findall(r"\{claim\}`(.*?)`", sentence)
        if UNDECIDED in map(of_the_run_most_like_the_papers, found):
            assert re.search(r"\bopen\b", sentence), sentence


@pytest.mark.parametrize("claim_id", claims_under("What is open"))
def test_what_is_open_is_decided_by_no_recorded_run(claim_id):
    assert deciding(claim_id) == UNDECIDED


@pytest.mark.parametrize(
    ("claim_id", "word"),
    [(each, NOT_COMPARABLE) for each in claims_under("What is not comparable")]
    + [(each, CANNOT) for each in claims_under("What cannot be checked")],
)
def test_what_nobody_judges_is_judged_by_no_recorded_run(claim_id, word):
    runs = records(claims()[claim_id].chapter).values()
    found = [v for run in runs for v in judged_anew(claims(), run)["verdicts"]]
    words = {v["verdict"] for v in found if v["id"] == claim_id}
    assert word in words
    assert words <= {word, CANNOT}  # of a run on other data


@pytest.mark.parametrize("claim_id", claims_under("Of our own"))
def test_what_is_ours_is_no_papers(claim_id):
    assert claims()[claim_id].ours
    for heading in ("What stands", "What did not", "What is open"):
        assert claim_id not in claims_under(heading)


def test_claims_are_found_under_all_headings():
    assert len(claims_under("What stands")) > 10
    assert len(claims_under("What is open")) > 5
    for heading in ("What is not comparable", "What cannot be checked", "Of our own"):
        assert len(claims_under(heading)) > 3, heading


def test_both_pages_say_which_texts_were_read():
    for page in ("index.md", "papers.md"):
        assert (BOOK / page).read_text().count("{include} sources.txt") == 1


@pytest.mark.parametrize(
    ("run", "words", "largest"),
    [
        ("standard", "and privacy, a right one comes after most wrong ones", [0.1, 0.1, 0.1]),
        (
            "standard.cifar10",
            "a quarter, at the smallest budget already with half",
            [0.5, 0.25, 0.25],
        ),
    ],
)
def test_where_the_rare_class_turns_around_is_what_the_page_says(run, words, largest):
    assert words in " ".join((BOOK / "interplay.py").read_text().replace("\n#", " ").split())
    table = pd.read_csv(io.StringIO(records("interplay")[run]["tables"]["imbalance"]["csv"]))
    turned = table[(table["epsilon"] < 10) & (table["right first"] < 0.45)]
    assert turned.groupby("epsilon")["p0"].max().tolist() == largest


def said(page: str) -> str:
    """What a chapter says, its lines joined."""
    return re.sub(r"\n# +", " ", (BOOK / f"{page}.py").read_text())


def p_of_scores(run: dict, epsilon: float, *methods: str) -> float:
    """Welch's p-value of two scores by their training runs, of the lowest two if none is named."""
    table = pd.read_csv(io.StringIO(run["tables"]["summary"]["csv"]))
    rows = table[table["epsilon"] == epsilon].set_index("method").sort_values("score")
    runs = [
        (*rows.loc[method, ["score", "score sd"]], run["parameters"]["n_seeds"])
        for method in methods or rows.index[:2]
    ]
    return stats.ttest_ind_from_stats(*runs[0], *runs[1], equal_var=False).pvalue


@pytest.mark.parametrize("page", ["interplay", "normalized_score"])
def test_where_a_rate_was_bad_a_better_one_leaves_no_difference_beyond_chance(page):
    assert "no difference beyond chance" in said(page)
    run = records("interplay")["standard.more_validation"]
    assert p_of_scores(run, max(run["parameters"]["epsilons"]), "SR", "MCDO") > 0.05
    assert run["values"]["rate_widest"] < max(run["parameters"]["rates"])


def test_a_lead_is_within_chance_where_a_page_says_so():
    assert "Neither lead over the next method is beyond chance" in said("interplay")
    assert "on Fashion-MNIST exceeds its runs' spread" in said("interplay")
    of, strictest = records("interplay"), 1.0
    assert p_of_scores(of["standard.cifar10"], strictest) > 0.05
    assert p_of_scores(of["standard.gtsrb"], strictest) > 0.05
    assert p_of_scores(of["standard"], strictest) < 0.05
    (score, *_) = records("normalized_score").values()
    needed = pd.read_csv(io.StringIO(score["tables"]["needed"]["csv"])).query("epsilon == 1")
    assert needed.loc[needed["difference"].idxmin(), "points"] > score["values"]["at_hand"]


def test_fresh_halves_help_forests_beyond_chance_and_the_super_learner_within_it():
    page = said("counterfactual")
    assert "With the super learner such differences are within chance." in page
    assert "With forests fresh halves help, beyond chance in the recorded run" in page
    tables = records("counterfactual")["standard"]["tables"]
    ratios, *misses = (
        pd.read_csv(io.StringIO(tables[name]["csv"]))
        .query("estimator == 'doubly robust'")
        .set_index("learner")
        for name in ("efficiency", "experiment_1", "independent")
    )
    counts = [(one["misses population"] * one["repetitions"]).round() for one in misses]
    for learner, beyond in {"random forest": True, "super learner": False}.items():
        ends = ratios.loc[learner, ["fresh halves, high", "cross-fitted, low"]]
        rows = [
            [count[learner], one.loc[learner, "repetitions"] - count[learner]]
            for count, one in zip(counts, misses, strict=True)
        ]
        assert (stats.fisher_exact(rows).pvalue < 0.05) == beyond
        assert (ends.iloc[0] < ends.iloc[1]) == beyond
