# %% [markdown]
# # One outlier: is a private model sure of a wrong answer?
#
# A private model must not depend on any one patient, so it may be wrong about one who is unlike all
# others: is it at least unsure then?
#
# **Answer.** No, it is sure: with [P1's](papers.md) {term}`clipping norm` and the smallest
# {term}`privacy budget`, {value}`outlier.misclassified_strict:.0%` of the private models are wrong
# about the outlier.
#
# ```{result} wrong_confidence
# ```
#
# Each dot is a model. With privacy it is sure, whether it is right or wrong.
#
# **Do this.** Do not trust confidence on rare cases: a private model may be sure there and wrong.
# Repeat private training before you judge a model on single points.
#
# ## What holds, and what does not
#
# - *Holds.* Without privacy a logistic regression tells the outlier from the majority.
# - *Cannot be checked.* P1 shows all private models wrong about the outlier, in one training run of
#   each, and gives neither learning rate nor steps. Of ours, at its clipping norm, any of four
#   learning rates makes {value}`outlier.wrong_most:.0%` at most wrong. That is over the three
#   budgets together, so some seeds look as in P1's figure.
# - *Cannot be checked* either: that confidence in the wrong class grows as the budget shrinks. With
#   a clipping norm of 1 the rate decides whether it does.

# %% tags=["parameters"]
repetitions: int = 200  # [20, 10000] training runs at each budget
outlier_clipping_norm: float = 10.0  # (0, 1000] clipping norm of the private ones; P1's
seed: int = 0  # [0, 1000000] of the first

# %%
from lib.book.session import open_chapter

chapter = open_chapter("outlier", globals())

import numpy as np

from lib.book import evidence
from lib.runs import stored_table
from lib.studies.interplay import outlier
from lib.studies.interplay import outlier_figures as figures

chapter.note("Data: simulated, a thousand points and one outlier, as in P1.")

# %% [markdown]
# ## P1's picture
#
# A thousand points around the origin form the majority, and a single one near $(10, 0)$ belongs to
# another class (P1 {cite}`rabanser2023training`, section 3.3). Logistic regression is trained with
# and without privacy. P1 shows one such run; here it is repeated.

# %%
norm = outlier_clipping_norm
study = outlier.OutlierRun(outlier.BUDGETS, repetitions, seed, norm).study()
chapter.table(
    figures.boundaries(study),
    "boundaries",
    "First repetition: boundaries, where w1 x1 + w2 x2 + b = 0, and the outlier",
    dict.fromkeys(["w1", "w2", "b", "outlier x1", "outlier x2"], ".3f"),
    aside=True,
)

# %%
chapter.drawn(figures.draw_boundaries)

# %%
table = outlier.outlier_table(study)
chapter.table(
    table,
    "outlier",
    "The outlier by budget",
    {
        **dict.fromkeys(["wrong confidence", "standard error", "at a new outlier"], ".3f"),
        "outlier misclassified": ".1%",
        "test accuracy": ".4f",
    },
    aside=True,
)

# %%
dots = figures.confidences(study)
chapter.table(
    figures.quantiles(dots),
    "confidences",
    f"Confidence in the wrong class: quantiles of {figures.SHOWN} models, which the download has",
    dict.fromkeys(["5%", "25%", "50%", "75%", "95%"], ".3f"),
    csv=dots,
    aside=True,
)

# %%
chapter.drawn(figures.draw_wrong_confidence)

# %%
private = table[np.isfinite(table["epsilon"])]
aligned, overall = outlier.growth_of_wrong_confidence(study), outlier.overall_growth(study)
wrong = dict(zip(study.epsilons, (study.wrong_confidence >= 0.5).sum(1), strict=True))
chapter.check("P1-F1-separates", evidence.share(wrong.pop(np.inf), repetitions))
_ = chapter.check(
    "P1-F1-misclassifies",
    evidence.least(evidence.share, [(n, repetitions) for n in wrong.values()]),
)

# %%
chapter.values(
    norm=norm,
    strictest=float(private["epsilon"].iloc[-1]),
    wrong_largest=private["wrong confidence"].iloc[0],
    wrong_smallest=private["wrong confidence"].iloc[-1],
    misclassified_strict=private["outlier misclassified"].iloc[-1],
)
# Differences of nearly equal means: another processor's rounding moves them visibly.
chapter.values(aligned_z=aligned, overall_z=overall, volatile=True)

# %% [markdown]
# These private models have a clipping norm of {value}`outlier.norm:g` and a learning rate of 1. The
# noise and the starting point decide where a boundary falls. The mean confidence in the wrong class
# is {value}`outlier.wrong_largest:.3f` at the largest private budget and
# {value}`outlier.wrong_smallest:.3f` at the smallest. From budget to budget it grows by at least
# {value}`outlier.overall_z:.1f` standard errors. P1 looks at *aligned utility*: at repetitions in
# which all private models are wrong. There it grows by at least {value}`outlier.aligned_z:.1f`
# standard errors (a negative number means that it shrinks).
#
# ## Another learning rate, another clipping norm
#
# P1 gives neither learning rate nor number of steps, and shows one training run. Here are four
# rates at its clipping norm, and at a norm of 1. *Aligned* counts seeds that look like P1's
# picture. Noise grows with the norm: with a large one, noise decides where the boundary falls,
# whatever the rate. With a small norm and a small rate nearly all seeds look like P1's picture, but
# there confidence *falls* as the budget shrinks.

# %%
repeated = max(20, repetitions // 4)
sweep = stored_table(outlier.rate_sweep, outlier.BUDGETS, repeated, seed + 1, norm)
chapter.table(
    sweep,
    "outlier_rates",
    "Mean wrong confidence, fraction of private models that are wrong, and z of the growth",
    {name: ".3f" for name in sweep.columns if name.startswith("epsilon")}
    | {"wrong": ".0%", "z, aligned": ".1f", "z, all": ".1f"},
)

# %%
# A z is the least over the steps between budgets: each row stands for so many comparisons.
judged = sweep[sweep["clipping norm"] == norm]
runs_of = {"z, aligned": judged["aligned"], "z, all": [repeated] * len(judged)}
for claim, column in (("overconfidence", "z, aligned"), ("overconfidence-all", "z, all")):
    pairs = list(zip(judged[column], runs_of[column], strict=True)) * (len(outlier.BUDGETS) - 2)
    chapter.check(f"P1-F1-{claim}", evidence.least(evidence.standardized, pairs))
chapter.values(wrong_least=judged["wrong"].min(), wrong_most=judged["wrong"].max())

# %% [markdown]
# ## What the paper leaves open
#
# - *The learning rate and the number of steps.*
# - *Another outlier.* The confidence at an outlier that is drawn anew is in the first table.
#
# ## Exercises
#
# *Try it.* Without the outlier a tenth of the models would call it right, by luck. Copy this cell,
# or open the page by its rocket, change that tenth or a budget, and watch how many more can be
# right.

# %% tags=["try-it"]
from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier, trade_off

luck, rate, steps = 0.1, 0.128, 1600
for epsilon in (7.0, 1.0):
    sigma = find_noise_multiplier(epsilon, 1e-3, rate, steps)
    curve = trade_off(PrivacyLedger((SampledGaussian(rate, sigma, steps),)))
    print(f"epsilon {epsilon:g}: at most {1 - curve.fnr(luck):.0%} are right")

# %% [markdown]
# 1. Clipped, an outlier adds at most the clipping norm $C$ to a step, and the noise is $\sigma C$.
#    Over a hundred steps, how often does noise outweigh what the outlier added? Does $C$ matter?
#
#    :::{dropdown} Solution
#    $C$ cancels: what counts is the square root of the number of steps, over $\sigma$. At the
#    smallest budget noise wins in two of five cases; a coin would in half. This sketch has full
#    batches. In the page's training runs the majority pulls, too.
#    :::

# %% tags=["solution"]
from scipy.stats import norm

from lib.privacy import find_noise_multiplier

for epsilon in (7.0, 3.0, 1.0):
    sigma = find_noise_multiplier(epsilon, 1e-4, sample_rate=1.0, steps=100)
    ratio = 100 / (100**0.5 * sigma)  # a hundred steps, over a random walk of as many
    print(f"epsilon {epsilon:g}: noise outweighs the outlier in {norm.cdf(-ratio):.0%}")

# %% [markdown]
# 2. Half of the repetitions are wrong. How many repetitions does it take to know that fraction to
#    within 3 points?
#
#    :::{dropdown} Solution
#    The interval narrows with the square root of the number, so about a thousand are needed. One
#    picture, as in P1's Figure 1, is a single toss of this coin.
#    :::

# %% tags=["solution"]
from scipy.stats import binomtest

for n in (80, 160, 1000):
    low, high = binomtest(n // 2, n).proportion_ci()
    print(f"{n // 2} of {n} wrong: between {low:.0%} and {high:.0%}")

# %% [markdown]
# 3. The outlier occurs twice, or ten times. What does the guarantee promise all copies together?
#
#    :::{dropdown} Solution
#    More than twice, or ten times, the $\epsilon$ of one. The guarantee is for single records: a
#    group that agrees is seen. That is also why a class with enough members is learned at all.
#    :::

# %% tags=["solution"]
from lib.privacy import PrivacyLedger, SampledGaussian, group_guarantee

ledger = PrivacyLedger((SampledGaussian(sample_rate=0.1, noise_multiplier=4.0, steps=100),))
for records in (1, 2, 5, 10):
    print(f"{records} records: epsilon {group_guarantee(ledger, 1e-5, records):.2f}")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/outlier.py out.ipynb -f params/quick/outlier.yml -p outlier_clipping_norm 1.0
# ```
#
# ## Further pages
#
# - {doc}`interplay` asks what privacy does to the ranking of real data.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers(digits=2))
