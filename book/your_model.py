# %% [markdown]
# # Your own model
#
# Is your classifier any good, can its confidence be trusted, when should it answer, may it be used
# on other data, and what does it give away?
#
# **Answer.** One command tells, from a file of its predictions: it answers
# {value}`your_model.questions` questions on the example of this page, each with a verdict.
#
# ```{result} verdicts
# ```
#
# **Do this.** In a clone, without PyTorch; `--example` in the place of a file makes this example.
#
# ```sh
# pip install .
# companion-report my.csv --check            # your file: how it is read
# companion-report my.csv --out report.html  # your report, one page to hand on
# ```
#
# Neither the model nor its data are needed. Where the file lacks what a question needs, the report
# says what to add. [The table below](#what-to-do) says what follows from a verdict.

# %% tags=["parameters"]
predictions: str = ""  # any file of your model's predictions, such as CSV; empty: an example
out: str = ""  # any folder for tables (CSV) and figures (SVG), or a name in .html; empty: none
alpha: float = 0.05  # (0, 0.5) intervals: level 1 - alpha, of suitability 1 - 2 alpha; tests: alpha
margin: float = 0.05  # (-1, 1) largest acceptable drop in accuracy on the user's data
target: float = 0.95  # (0, 1] accuracy to reach by abstaining
delta: float = 1e-5  # [0, 1) of the audit, if the file states none
learner: str = "forest"  # {forest, linear, super} of the counterfactual estimates
seed: int = 0  # [0, 1000000] of the example and of simulations: it decides no verdict
audit_design: str = "one run"  # {one run, independent} how the membership scores came about
drawn_files: int = 10  # [2, 1000] simulated files for each way to abstain

# %%
from lib.book.session import open_chapter

chapter = open_chapter("your_model", globals())

import tempfile
from pathlib import Path

import pandas as pd
from IPython.display import Markdown

from lib import report
from lib.data.untrusted import short
from lib.report.exports import require_exportable
from lib.report.studies import drawn_abstention
from lib.runs import stored_table
from lib.studies import report_figures

if out:  # before any work
    require_exportable(Path(out))
if predictions:
    given = report.read_predictions(report.find_file(predictions))
    chapter.note(f"Data: your file {short(predictions)}.")
else:
    with tempfile.TemporaryDirectory() as folder:
        example = report.example_predictions(Path(folder, "example.npz"), seed=seed)
        given = report.read_predictions(example)
    chapter.note(
        "Data: an example. A linear classifier of scikit-learn's digits, whose training points "
        "were chosen by coins, abstains at random, the likelier the less sure it is; the user's "
        "images are blurred; a privacy is claimed for it that is not true (so few rows need not "
        "show it)."
    )

# %% [markdown]
# ## What the file may hold
#
# Most files can stay as they are: CSV, TSV, JSON, Parquet, Feather, NPZ or NPY, and from Python
# `lib.report.report(frame)`. Columns are found by their names and by what they hold.
#
# - *Outputs*: a column per class, such as `p_cat` and `p_dog`: probabilities, their logarithms,
#   logits, percentages or votes. Or one probability or logit, of the second class. Or a prediction,
#   with or without its confidence. Or a row per class, with an `id` of the example. Several models
#   may stand side by side.
# - *Labels*: words, numbers from 0 or 1, or one-hot, under any name if the prediction's is
#   `predicted_` and that name. Where a label is unknown, or no answer was given, the cell is empty,
#   -1, or a word such as `unlabeled` or `abstain`.
# - *Part*: a column `split` or `part` says `val`, `test` or `production`; without one all rows are
#   test data.
# - *Membership*: a column such as `is_member`, and a score or a loss.
# - *Groups of rows*: a column such as `patient_id` makes intervals count patients, not rows.
#
# A report begins with how the file was read. If two readings are possible, it stops and shows both,
# with their accuracy: `--map label=class,probabilities=P(*)` says which. Pickled data are never
# read.
#
# The report's own format has room for everything: arrays in an NPZ file, or one row per example in
# a CSV file. There `part` may also be `holdout`, `user`, `member` or `nonmember`, and cells that a
# part does not use stay empty. Leave out what you do not have.

# %%
chapter.table(
    report.needs(),
    "needs",
    "What each analysis needs, and what would tell more; counterfactual analyses also need "
    "test_features or the propensities",
)

# %% [markdown]
# Divide at random, half and half, the labeled data that the model was not trained on. *Test* rows
# say how good the model is; *holdout* rows fit the estimator behind the suitability test. (A
# threshold alone needs no holdout: in a file of its own all labeled rows may be `test`.) In a CSV
# file for these two analyses a row of each part might be
#
# ```text
# part,logit_0,logit_1,logit_2,label
# holdout,2.1,-0.3,0.4,0
# test,0.2,1.7,0.1,1
# user,0.9,0.8,-1.2,
# ```
#
# `lib/report/examples/tables.py` divides a labeled file this way, and adds a file of the user's. If
# you have two labeled files, call the one that you trust more `test`.
#
# Probabilities are replaced by their logarithms, and the report says so. Only signals that depend
# on the level of the logits, such as their mean, then say less.

# %%
chapter.table(
    pd.DataFrame(report.FORMAT, columns=["array (NPZ)", "columns (CSV)", "shape", "what it holds"]),
    "format",
    "One format for everything",
)

# %% [markdown]
# - *User* rows come from where the model might be used. If only some test or user rows have labels,
#   these must be drawn at random.
# - *Groups* are what you want to compare, such as clinics or languages. The accuracy of each is
#   shown, with intervals that hold jointly.
# - *Features* are what abstaining and being right depend on: inputs, embeddings, a confidence. If
#   your model abstains at random with known probabilities, give these propensities.
# - Where the model abstained, its logits may be unknown (NaN, or empty cells). Then nothing shows
#   why it abstained, and without propensities there are only bounds. The estimates never use labels
#   of such rows. If all rows have labels, the labels decide, and the estimate stands beneath.
# - *Membership scores* are your attack's: the log probability of the true class will do. Members
#   and non-members must be drawn alike. From one pool of points, let a fair coin decide whether
#   each is trained on; the attack must not see the coins. A training set and a hold-out set from
#   elsewhere, or from another year, differ even if nothing was learned. No bound on this page holds
#   for them.
#
# ## What this file allows

# %%
found = report.run_report(
    given,
    alpha=alpha,
    margin=margin,
    target=target,
    delta=delta,
    learner=learner,
    seed=seed,
    audit_design=audit_design,
)
report.show(chapter, found, "verdicts")
chapter.table(found.overview, "overview", "Analyses, and what they lack", aside=True)
chapter.values(analyses=len(report.ANALYSES), done=len(found.analyses))
chapter.values(questions=sum(len(each.findings) for each in found.analyses.values()))
chapter.values(target=target, fewest=report.collect.fewest_rows(target, alpha))
for name, analysis in found.analyses.items():
    # A forest's splits may depend on rounding.
    chapter.values(volatile=name in ("counterfactual", "comparison"), **analysis.values)
if out:
    files = found.export(out)
    chapter.note(f"Files written to {Path(out).resolve()}: {len(files)}.")

# %% [markdown]
# It allows {value}`your_model.done` of {value}`your_model.analyses` analyses. They answer
# {value}`your_model.questions` questions.
#
# ## What to do
#
# 1. Take the file that you have, or [write one](#how-to-write-the-file). `--check` says how it is
#    read, and which analyses it allows.
# 2. Choose the margin and the target before you look. If some user rows have labels, decide whether
#    labels or estimates count, and write it down: the kinder of two tests errs more often than
#    either. Labels assume less. Suitability and a threshold each err with probability at most
#    $\alpha$, even on the same rows; halve $\alpha$ if both are to hold.
# 3. Read the bound before the estimate, and the assumption below each.
# 4. The table [What to collect next](#what-to-collect-next) says what would decide the rest.
#
# Options say what no column can: `--margin`, the acceptable drop, `--target`, the accuracy to reach
# by abstaining, and `--audit-design`, how the membership scores were obtained. This page is such a
# report as a notebook, with the options as parameters: `papermill book/your_model.py report.ipynb
# -p predictions my.npz`.
#
# The first words of a verdict on suitability say what to do:
#
# | it begins | since | do this |
# |---|---|---|
# | SUITABLE by the labeled user rows | labels show it | use the model there |
# | SUITABLE, if the estimates hold | they show it, and no signal has moved | try it, label some |
# | UNCONFIRMED | the estimates show it, but signals have moved | first label user rows at random |
# | INCONCLUSIVE | it is not shown | collect the rows that the next steps name, or label some |
# | UNSUITABLE by the labeled user rows | labels show too large a drop | do not use it there |
#
# Where user and test rows have labels, these decide, and the verdict says so: *by the labeled user
# rows*. The estimates' own verdict stands beneath.
#
# A threshold for abstaining holds for new data like the *test* rows. Its level allows for the
# choice among the four scores. For the user's data, put labeled user rows in place of the test
# rows, in a file of its own. To promise a target of {value}`your_model.target:.0%` takes
# {value}`your_model.fewest` labeled rows if every answer is right, and more if some are wrong.
#
# ## Accuracy and calibration
#
# Is the model better than always answering the most common class, also class by class? Is it right
# as often as it is sure?

# %%
if "quality_bins" in report.show(chapter, found, "quality", figures=False):
    chapter.drawn(report_figures.draw_reliability)

# %% [markdown]
# ## Selective classification
#
# How accurate is the model, and how much more so if it answers only where it is sure? A coverage
# chosen because it reaches the target on these rows misses it on others about half of the time. So
# the verdict states the largest coverage at which the target is *guaranteed*
# ({py:obj}`lib.selective.guaranteed_threshold`), and beside it the larger plug-in. The chapters on
# [the interplay of privacy and abstention](interplay.py) and on [the accuracy-normalized
# score](normalized_score.py) say what the numbers mean.

# %%
if "selective_scores" in report.show(chapter, found, "selective", figures=False):
    chapter.drawn(report_figures.draw_coverage)

# %% [markdown]
# ## Suitability
#
# May the model be used on the user's data, which have few labels or none? [The suitability
# filter](suitability.py) decides. Its intervals have the level $1 - 2\alpha$, so each limit is a
# bound at the level $1 - \alpha$.

# %%
if "suitability" in report.show(chapter, found, "suitability", figures=False):
    chapter.drawn(report_figures.draw_tipping)

# %% [markdown]
# ## Privacy
#
# How much privacy does the attack leave? Which lower bound on $\epsilon$ holds depends on how the
# scores were obtained, and `audit_design` must say that beforehand:
#
# - `one run`: all scores come from one training run, and a fair coin decided for every point
#   whether it was a member. The attack guesses only its surest points, as many in as out, at five
#   fractions fixed beforehand (1% to 30% of the points). The bound counts right guesses and pays
#   for trying five. Where the numbers of members and non-members fit no fair coins, it is not used.
# - `independent`: every score comes from a training run of its own, with members drawn at random.
#   The largest of the bounds at all thresholds counts, at a level that pays for that choice.
#
# The verdict uses the bound of that design alone, and states its condition. Each other row of the
# table has its own. The best of all thresholds is biased: [the audit chapter](audit.py) shows by
# how much.

# %%
if "audit_bounds" in report.show(chapter, found, "audit", figures=False):
    chapter.drawn(report_figures.draw_bounds)

# %% [markdown]
# ## If it had to answer always
#
# A model that abstains where it is unsure looks better than it is. The [doubly robust
# estimate](counterfactual.py) says how accurate it would be without abstaining, if it could have
# answered anywhere. A model that answers above a threshold of its confidence never answers below:
# nothing is known there, so the report gives bounds, no estimate. It therefore first compares
# abstention with every acceptance score and feature in the file. If none separates it, the scores
# join the covariates, and a table says how the bounds widen if abstention depends on more than
# these. Labels of abstained rows, if given, decide.

# %%
if "counterfactual_contamination" in report.show(chapter, found, "counterfactual", figures=False):
    chapter.drawn(report_figures.draw_contamination)

# %% [markdown]
# Do its intervals cover the truth where abstention *is* random? That is tried on simulated files of
# 500 rows. Their unknown propensities go from 0.1 to 0.9. They fall with the model's confidence,
# jump at a confidence, or follow a feature.

# %%
drawn = stored_table(drawn_abstention, ["linear", "forest"], repetitions=drawn_files, seed=seed)
chapter.table(
    drawn.rename(columns={"points": "with an estimate"}),
    "drawn_abstention",
    "Fraction of reports that give an estimate, coverage of its 95% interval with an interval of "
    f"its own, and mean width, by what the propensity depends on; {drawn_files} files each",
    {"with an estimate": ".2f"} | dict.fromkeys(["coverage", "low", "high", "width"], ".3f"),
    aside=True,
)
widths = drawn.pivot(index="propensity", columns="learner", values="width")
chapter.values(
    volatile=True,
    least_drawn_coverage=drawn["coverage"].min(),
    forest_wider=(widths["forest"] / widths["linear"]).min(),
)

# %% [markdown]
# Coverage is {value}`your_model.least_drawn_coverage:.2f` or more. Forests are the default, as they
# assume least about abstention. In designs as simple as these `-p learner linear` makes intervals
# narrower, by a factor of at least {value}`your_model.forest_wider:.1f`. Isotonic regression
# calibrates its propensities where they follow no logistic curve.

# %% [markdown]
# ## Against a competitor
#
# Which of the two would be right more often, if both always had to answer? The difference is
# estimated like the accuracy above, from the same rows.

# %%
_ = report.show(chapter, found, "comparison", figures=False)

# %% [markdown]
# ## What to collect next
#
# This is what would decide the questions that the file leaves open, as far as a calculation can
# tell. Numbers of rows assume the rates and variances seen here: they are orders of magnitude.

# %%
chapter.table(found.next_steps, "next_steps", "What more data would tell", aside=True)

# %% [markdown]
# ## How to write the file
#
# From PyTorch:

# %%
Markdown(f"```python\n{report.example_source('pytorch')}```")

# %% [markdown]
# From scikit-learn, with a simple membership attack. It trains the model itself, on half of a pool
# chosen by coins. The hold-out set cannot serve as non-members, since no coin divided the two.

# %%
Markdown(f"```python\n{report.example_source('scikit_learn')}```")

# %% [markdown]
# Both are files in `lib/report/examples/`, run by the tests. `hugging_face.py` there does the same
# for Hugging Face, `tables.py` for labeled tables.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Make the model sharper or duller, and
# watch how much it may answer at the target.

# %% tags=["try-it"]
import numpy as np

from lib.report import ModelPredictions, run_report

sharpness, rng = 2.0, np.random.default_rng(0)
labels = rng.integers(3, size=400)
logits = rng.normal(size=(400, 3)) + sharpness * np.eye(3)[labels]
found = run_report(ModelPredictions(test_logits=logits, test_labels=labels), target=0.95)
print(*found.analyses["selective"].verdict.split(". "), sep="\n")

# %% [markdown]
# 1. Nine of ten rows are right in every part of your ranking. How many labeled rows does a promise
#    of 85% take?
#
#    :::{dropdown} Solution
#    More than 400: the bound must exclude 85% with 95% confidence, and pays for the choice among
#    many thresholds. From then on everything can be answered. If too few rows yield no threshold,
#    that is no verdict on the model.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import guaranteed_threshold

for n in (100, 400, 1600):
    correct = np.arange(n) % 10 < 9  # nine of ten are right, in each part of the ranking
    found = guaranteed_threshold(correct, np.linspace(1, 0, n), target=0.85)
    print(f"{n:>6,} rows: answered {found.coverage or 0:.0%}")

# %% [markdown]
# 2. Your file has membership scores of one training run, and three of four guesses are right. What
#    would more points show?
#
#    :::{dropdown} Solution
#    The bound climbs to the log-odds of that rate, $\log 3 \approx 1.1$, and never beyond. A claim
#    of $\epsilon = 1$ is refuted if the bound exceeds 1 and fair coins decided who was a member. A
#    Bayesian bound above 1 refutes nothing, nor does the best of many thresholds, unless the level
#    pays for the choice.
#    :::

# %% tags=["solution"]
from lib.audit import one_run_epsilon

for n in (200, 1000, 10_000):
    print(f"{n:>6,} points: at least {one_run_epsilon(n * 3 // 4, n, n, 1e-5):.2f}")

# %% [markdown]
# 3. `audit_design` says whether trials are independent or points of one training run. Is the bound
#    for one run much lower, at the same rate of right guesses?
#
#    :::{dropdown} Solution
#    Not here: the bound for one run counts all right guesses together, while the other splits its
#    error between two rates. They differ in when they hold. The bound for one run needs secret fair
#    coins that decided who is a member. The other needs independent training runs, which a file of
#    one model never has.
#    :::

# %% tags=["solution"]
from lib.audit import AttackCounts, epsilon_interval, one_run_epsilon

counts = AttackCounts(tp=375, fp=125, tn=375, fn=125)
low, _ = epsilon_interval(counts, 1e-5, 0.95, "clopper-pearson", side="lower")
print(f"1,000 independent trials: at least {low:.2f}")
print(f"1,000 points of one training: at least {one_run_epsilon(750, 1000, 1000, 1e-5):.2f}")

# %% [markdown]
# ## Summary
#
# - One file, {value}`your_model.analyses` analyses: each runs if its columns are there, and
#   otherwise says what it lacks.
# - Every bound on this page rests on one assumption that no file can prove, written below it.
#   Labeled rows are drawn at random, coins decide members, or abstention depends on the features
#   alone.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers(digits=3))
