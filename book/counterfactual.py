# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Counterfactual abstainers: how good would it be if it had to answer?
#
# Two services classify images. During the free trial each may abstain on what it likes; the paid
# versions always answer. Which one do you buy? The scores that you see are those of the answers
# that the services chose to give. How good would each be if it had to answer?
#
# **The idea.** P4 {cite}`choe2023counterfactually` treats {term}`abstentions <abstention>` as
# *missing data* and asks for the {term}`counterfactual score`: how well each service would have
# done, had it not been allowed to abstain at all. What a service withheld on one image is estimated
# from what it answered on similar ones, and an answer counts for more where answers are rare.
#
# This chapter makes that decision, repeats the simulations of the paper with all three estimators
# and learners, takes the method to real images whose labels are known, and ends with a report on
# two services of your own.

# %% tags=["parameters", "hide-input"]
points: int = 2000  # [100, 1000000] points of a simulated data set
linear_repetitions: int = 200  # [1, 1000000] of experiment 1 with linear learners
forest_repetitions: int = 200  # [1, 1000000] with random forests
super_repetitions: int = 30  # [0, 1000000] with the super learner
independent_repetitions: int = 60  # [1, 1000000] without cross-fitting
independent_learners: list[str] = ["linear", "forest"]  # {linear, forest, super} learners for these
power_learner: str = "forest"  # {linear, forest, super} learner of experiment 2
power_sizes: list[int] = [200, 800]  # [20, 1000000] sample sizes, ascending
power_shifts: list[float] = [0.0, 0.1, 0.2, 0.4]  # [0, 1] shifts of B's boundary, from 0 up
power_repetitions: int = 25  # [1, 1000000] of experiment 2
positivity_learner: str = "forest"  # {linear, forest, super} learner by positivity level
epsilons: list[float] = [0.1, 0.15, 0.2, 0.3, 0.5]  # (0, 0.5] positivity levels, ascending
positivity_repetitions: int = 25  # [1, 1000000] at each level
streams: int = 500  # [1, 1000000] streams that confidence sequences watch
images: str = "cifar10-jpeg"  # {cifar10-jpeg, cifar10, cifar100} real images beside the digits
image_train: int = 5000  # [100, 50000] images that classifiers learn from
image_points: int = 5000  # [100, 10000] images that they are compared on
linear_draws: int = 50  # [1, 100000] draws of abstentions, linear learners
super_draws: int = 1  # [0, 100000] draws, super learner
services: str = ""  # any path of a CSV file with two services of your own; empty: the example
services_learner: str = "super"  # {linear, forest, super} learner for the services
margin: float = 0.03  # [0, 1000000] the smallest difference of scores that matters to you
seed: int = 0  # [0, 1000000] of everything

# %% tags=["hide-input"]
from lib.book.session import open_chapter

chapter = open_chapter("counterfactual", globals())


import numpy as np

from lib import data
from lib.book import evidence, interactive
from lib.counterfactual import (
    breakdown_share,
    clipping_sensitivity,
    confidence_sequence,
    contamination_bounds,
    estimate_from_nuisances,
)
from lib.report import ModelPredictions, read_predictions
from lib.report import services as trials
from lib.report.figures import plot_contamination
from lib.runs import stored_table
from lib.studies.counterfactual import figures, scenarios, simulation
from lib.studies.counterfactual import tables as studies

files = data.image_files(images)
with_images = all(data.available(name) for name in files)
LABELS = {
    "cifar10-jpeg": "CIFAR-10 re-encoded as JPEG",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
}
if with_images:
    chapter.note(
        "Data: simulations, scikit-learn's digits (8 x 8), and "
        f"{LABELS[images]}, checked against its SHA-256. P4's VGG-16 features are not here: what "
        "is compared on images is an analogue."
    )
else:
    chapter.note(
        "Data: simulations and scikit-learn's digits (8 x 8). Larger images "
        f"({LABELS[images]}) cannot be had on this machine: claims that need them are not checked "
        "in this build. The README says how to get the data."
    )

# %% [markdown]
# ## Two services after a free trial
#
# In this example a point is an input with two features, and a service scores 1 where its answer is
# right. For a point on which it abstained, there is no score. A difference of less than
# {value}`counterfactual.margin` does not matter to us.

# %%
drawn = simulation.simulate(points, rng=seed)
trial = ModelPredictions(
    test_features=drawn.X,
    feature_names=("x0", "x1"),
    test_scores=drawn.scores[0],
    test_abstained=drawn.abstained[0],
    other_scores=drawn.scores[1],
    other_abstained=drawn.abstained[1],
)
bought = trials.compare_services(trial, learner=services_learner, margin=margin, rng=seed)
table = trials.comparison_table(bought)
by_service = table.set_index("service").T
chapter.table(
    by_service.rename_axis("quantity").reset_index(),
    "trial",
    "What the trial shows, and what it says about the paid versions",
    dict.fromkeys(by_service, ".3f"),
)
chapter.note(f"Decision: {bought.decision}. {bought.reason}")
trial_truth = simulation.true_difference()
chapter.values(margin=margin, trial_truth=trial_truth)
seen = table.iloc[-1]
chapter.values(
    volatile=True,
    seen_decision=trials.decide(seen["selective low"], seen["selective high"], margin),
    decision=bought.decision,
    selective_difference=seen["selective score"],
    selective_low=seen["selective low"],
    selective_high=seen["selective high"],
    trial_value=bought.difference.value,
    trial_low=bought.difference.interval[0],
    trial_high=bought.difference.interval[1],
)

# %% [markdown]
# By the scores seen (the {term}`selective scores <selective score>`) A is ahead by
# {value}`counterfactual.selective_difference:.3f`, in a 95% interval from
# {value}`counterfactual.selective_low:.3f` to {value}`counterfactual.selective_high:.3f`:
# *{value}`counterfactual.seen_decision`*. But each abstains mostly where it is weak, and B is
# weaker there. With abstentions accounted for the difference is
# {value}`counterfactual.trial_value:.3f`, from {value}`counterfactual.trial_low:.3f` to
# {value}`counterfactual.trial_high:.3f`: *{value}`counterfactual.decision`*. The truth, which only
# the simulation knows, is {value}`counterfactual.trial_truth:.3f`. (This is one draw; others may be
# less clear.)
#
# ## What is estimated, and when it can be
#
# A classifier abstains ($R = 1$) on an input $X$ with the {term}`propensity` $\pi(x) = P(R = 1 \mid
# X = x)$; its score $S$ is seen where $R = 0$. The target is
#
# $$
# \psi = \mathrm{E}[S] , \quad\text{or for two}\quad \Delta = \psi_A - \psi_B .
# $$ (eq-target)
#
# It is identified if
#
# - **{term}`missing at random`**: $S$ and $R$ are independent given $X$, which holds if $X$ is all
#   that the classifier sees and the test data are not among its training data, and
# - **{term}`positivity`**: $\pi(x) \le 1 - \epsilon$ for some $\epsilon > 0$. Where it never
#   answers, nothing is known.
#
# Then $\psi = \mathrm{E}[\mu_0(X)]$ with $\mu_0(x) = \mathrm{E}[S \mid R = 0, X = x]$. With fitted
# {term}`nuisance functions <nuisance function>` $\hat\mu_0$ and $\hat\pi$ three estimators suggest
# themselves: the {term}`plug-in` and {term}`IPW` (inverse propensity weighting),
#
# $$
# \frac1n \sum_i \hat\mu_0(X_i) \quad\text{and}\quad
# \frac1n \sum_i \frac{(1 - R_i)\, S_i}{1 - \hat\pi(X_i)} ,
# $$ (eq-plug-in)
#
# and the {term}`doubly robust` mean $\hat\psi$ of the influence values
#
# $$
# \hat\mu_0(X_i) + \frac{1 - R_i}{1 - \hat\pi(X_i)}\,\bigl(S_i - \hat\mu_0(X_i)\bigr) ,
# $$ (eq-dr)
#
# whose bias is a *product* of the errors of both,
#
# $$
# \mathrm{E}[\hat\psi] - \psi = \mathrm{E}\Bigl[ \frac{\pi(X) - \hat\pi(X)}{1 - \hat\pi(X)}\,
#   \bigl(\hat\mu_0(X) - \mu_0(X)\bigr) \Bigr] :
# $$ (eq-dr-bias)
#
# it vanishes if one of the two is right, and is small if both are nearly so. Both are fitted on one
# half of the data and used on the other, and vice versa ({term}`cross-fitting`); an interval
# follows from the variance of the influence values. Propensities above $1 - \epsilon$ count as
# that.
#
# ## Experiment 1: do the intervals hold the truth?
#
# Inputs are uniform on the unit square, and labels are $1[x_0 + x_1 \ge 1]$ with 15% of them
# flipped. A has the right boundary, B a curve; each abstains with probability 0.8 near its own
# boundary and 0.2 elsewhere.

# %%
chapter.figure(
    figures.plot_classifiers(drawn),
    "classifiers",
    alt="Points of the square with A's straight and B's curved boundary; crosses are near both.",
    caption="Boundaries (lines), right and wrong answers, and abstentions of A and B.",
)

# %% [markdown]
# Three learners fit $\pi$ and $\mu_0$: linear models, random forests, and the {term}`super
# learner`, a stack of logistic (or ridge) regression, 5 nearest neighbours, a kernel support vector
# machine and a random forest. As in P4, an interval misses if it does not hold the difference of
# the two mean scores *on the same points*, had nobody abstained.

# %%
counts = {
    "linear": linear_repetitions,
    "forest": forest_repetitions,
    "super": super_repetitions,
}
first = simulation.run_cells(simulation.cells_of_experiment_1(counts, points, seed=seed))
reported = chapter.reported("P4, experiment 1")
printed = {
    tuple(name.removeprefix("P4-E1-").split("-", 1)): value for name, (value, _) in reported.items()
}
chapter.figure(
    figures.plot_miscoverage(first, printed),
    "miscoverage",
    alt="Nine shares of missing intervals with their own intervals, and P4's values as diamonds.",
    caption=(
        "Share of 95% intervals that miss, with its own exact 95% interval; diamonds: P4's values "
        "from 1,000 repetitions; dashed: 5%."
    ),
)
chapter.table(
    studies.coverage_table(first),
    "experiment_1",
    "Experiment 1: misses of the sample's and of the population's difference",
    dict.fromkeys(["misses sample", "misses population", "width", "bias", "spread"], ".3f"),
)
cells = chapter.check_cells(
    "P4, experiment 1",
    evidence.counted(studies.claims_of_cells(first, reported, "P4-E1-")),
    "Experiment 1: miscoverage (decides: distance in standard errors)",
)

# %%
by_cell = first.set_index(["learner", "estimator"])
widths = chapter.reported("P4, experiment 1, width")
wide = {
    name: evidence.point(
        *by_cell.loc[tuple(name.removeprefix("P4-W1-").split("-", 1)), ["width", "repetitions"]]
    )
    if tuple(name.removeprefix("P4-W1-").split("-", 1)) in by_cell.index
    else "no repetitions with this learner in this profile"
    for name in widths
}
width_cells = chapter.check_cells("P4, experiment 1, width", wide, "Experiment 1: mean width")
chapter.values(
    volatile=True,
    agreeing=sum(v.value is not None and v.value <= 3 for v in cells),
    agreeing_widths=sum(v.verdict.startswith("reproduced") for v in width_cells),
)
chapter.values(
    linear_dr=by_cell.loc[("linear", "dr"), "miscoverage"],
    linear_bias=by_cell.loc[("linear", "dr"), "bias"],
    forest_dr=by_cell.loc[("forest", "dr"), "miscoverage"],
    forest_dr_population=by_cell.loc[("forest", "dr"), "population_miscoverage"],
    forest_dr_bias=by_cell.loc[("forest", "dr"), "bias"],
    forest_dr_spread=by_cell.loc[("forest", "dr"), "spread"],
    forest_dr_error=by_cell.loc[("forest", "dr"), "stderr"],
)
for name, column in (
    ("P4-E1-valid", "miscovered"),
    ("P4-E1-valid-population", "population_miscovered"),
):
    flexible = first[(first["estimator"] == "dr") & first["learner"].isin(["forest", "super"])]
    counted = list(zip(flexible[column], flexible["repetitions"], strict=True))
    chapter.check(name, evidence.largest(evidence.share, counted))
if super_repetitions:
    ratio = by_cell.loc[("super", "dr"), "width"] / by_cell.loc[("super", "ipw"), "width"]
    verdict = chapter.check("P4-E1-half", evidence.point(ratio, super_repetitions))
else:
    chapter.not_run(["P4-E1-half"], "the super learner is not run")

# %% [markdown]
# {value}`counterfactual.agreeing` of the nine shares are within three standard errors of the
# paper's (which from fewer than 200 repetitions decides nothing), and
# {value}`counterfactual.agreeing_widths` of the nine widths within 0.003. Linear
# models are wrong for both functions, so that the doubly robust interval, too, is in the wrong
# place (bias {value}`counterfactual.linear_bias:.3f`) and misses in
# {value}`counterfactual.linear_dr:.3f` of the repetitions; with forests in
# {value}`counterfactual.forest_dr:.3f`. Against the *population's* difference, for which the
# interval is built, these miss in
# {value}`counterfactual.forest_dr_population:.3f`: the estimates spread by
# {value}`counterfactual.forest_dr_spread:.4f`, the mean standard error is
# {value}`counterfactual.forest_dr_error:.4f` (and the bias
# {value}`counterfactual.forest_dr_bias:.4f`). The sample's difference, which P4 counts against, is
# the easier target.
#
# **Where IPW differs.** With cross-fitting the weights of one half err in the opposite direction to
# those of the other, and the errors cancel: IPW then varies *less* than its standard error says.
# Shares like the printed ones come out if the functions are learned from *fresh* data. Below, first
# those of each half from a fresh sample of the size of the other half, then those of all points
# from one fresh sample that is as large as the one evaluated, as if the functions had been trained
# beforehand:

# %%
fresh = dict.fromkeys(independent_learners, independent_repetitions)
apart = simulation.run_cells(
    simulation.cells_of_experiment_1(fresh, points, seed=seed, nuisances="fresh halves")
)
chapter.table(
    studies.coverage_table(apart),
    "independent",
    "The same with nuisance functions from fresh samples instead of cross-fitting",
    dict.fromkeys(["misses sample", "misses population", "width", "bias", "spread"], ".3f"),
)
fresh_reported = chapter.reported("P4, experiment 1, fresh samples")
fresh_cells = chapter.check_cells(
    "P4, experiment 1, fresh samples",
    evidence.counted(studies.claims_of_cells(apart, fresh_reported, "P4-F1-")),
    "The same shares, against those of the estimates from fresh samples",
)
whole = simulation.run_cells(
    simulation.cells_of_experiment_1(fresh, points, seed=seed, nuisances="fresh sample")
)
chapter.table(
    studies.coverage_table(whole),
    "fresh_sample",
    f"The same with nuisance functions from one fresh sample of {points:,} points",
    dict.fromkeys(["misses sample", "misses population", "width", "bias", "spread"], ".3f"),
)
whole_cells = chapter.check_cells(
    "P4, experiment 1, one fresh sample",
    evidence.counted(
        studies.claims_of_cells(
            whole, chapter.reported("P4, experiment 1, one fresh sample"), "P4-G1-"
        )
    ),
    "The same shares, against those of the estimates from one fresh sample",
)
by_apart, by_whole = (each.set_index(["learner", "estimator"]) for each in (apart, whole))
shown, last = independent_learners[0], independent_learners[-1]
chapter.values(
    apart_ipw=by_apart.loc[(shown, "ipw"), "miscoverage"],
    apart_spread=by_apart.loc[(shown, "ipw"), "spread"],
    whole_ipw=by_whole.loc[(shown, "ipw"), "miscoverage"],
    cross_spread=by_cell.loc[(shown, "ipw"), "spread"],
    cross_ipw=by_cell.loc[(shown, "ipw"), "miscoverage"],
    printed_ipw=printed[shown, "ipw"],
    apart_learner=studies.LEARNER_TITLES[shown],
    last_learner=studies.LEARNER_TITLES[last],
    last_cross=by_cell.loc[(last, "dr"), "spread"],
    last_apart=by_apart.loc[(last, "dr"), "spread"],
    last_cross_misses=by_cell.loc[(last, "dr"), "population_miscoverage"],
    last_apart_misses=by_apart.loc[(last, "dr"), "population_miscoverage"],
)
chapter.values(
    volatile=True,
    fresh_agreeing=sum(v.value is not None and v.value <= 3 for v in fresh_cells),
    fresh_run=sum(v.value is not None for v in fresh_cells),
    whole_agreeing=sum(v.value is not None and v.value <= 3 for v in whole_cells),
    whole_run=sum(v.value is not None for v in whole_cells),
)

# %% [markdown]
# With {value}`counterfactual.apart_learner` learners IPW now misses in
# {value}`counterfactual.apart_ipw:.3f` (fresh halves) and {value}`counterfactual.whole_ipw:.3f`
# (one fresh sample) of the repetitions instead of {value}`counterfactual.cross_ipw:.3f`, where P4
# prints {value}`counterfactual.printed_ipw:.3f`; with fresh halves its estimates spread by
# {value}`counterfactual.apart_spread:.3f` instead of {value}`counterfactual.cross_spread:.3f`. Of
# the cells that were run {value}`counterfactual.fresh_agreeing` of
# {value}`counterfactual.fresh_run` agree with fresh halves, and
# {value}`counterfactual.whole_agreeing` of {value}`counterfactual.whole_run` with one fresh sample.
# We do not know that this is what was done: the authors' public code cross-fits.
#
# The doubly robust estimate is not indifferent to it either. With
# {value}`counterfactual.last_learner` learners it spreads by {value}`counterfactual.last_cross:.4f`
# cross-fitted and by {value}`counterfactual.last_apart:.4f` with fresh samples, and misses the
# population's difference in {value}`counterfactual.last_cross_misses:.3f` and
# {value}`counterfactual.last_apart_misses:.3f` of the repetitions.
#
# ### Less and less overlap
#
# One draw, with forests, for every level of positivity: what happens to the intervals?

# %% tags=["hide-input"]
interactive.show(chapter, interactive.positivity(seed=seed))

# %% [markdown]
# ## Experiment 2: power
#
# B is now A with its boundary shifted by $\mu$, so that the true difference is $0.7\,(\mu - \mu^2 /
# 2)$. The test rejects "no difference" where the doubly robust interval does not hold zero.

# %%
second = simulation.run_cells(
    simulation.cells_of_experiment_2(
        power_shifts, power_sizes, power_learner, power_repetitions, seed=seed
    )
)
powers = second[second["estimator"] == "dr"]
chapter.figure(
    figures.plot_power(powers),
    "power",
    alt="Shares of rejections rise with the shift of the boundary, faster with more points.",
    caption=(
        "Share of rejections by shift and number of points, with exact 95% intervals; dashed: 5%."
    ),
)
power = simulation.power_table(second)
chapter.table(power, "power", "Share of rejections", dict.fromkeys(power.columns, ".3f"))
misses = simulation.power_table(second, column="population_miscoverage")
chapter.table(
    misses,
    "power_misses",
    "Share of intervals that miss the population's difference",
    dict.fromkeys(misses.columns, ".3f"),
)
still = powers[powers["shift"] == 0]
moved = power[(power.index > 0) & (power.iloc[:, 0] < 0.9)]
tests = int(still["repetitions"].sum())
chapter.check("P4-E2-level", evidence.share(still["rejected"].sum(), tests))
top = round(power.iloc[-1, -1] * power_repetitions)
chapter.check("P4-E2-power", evidence.share(top, power_repetitions))
# The mean gain of independent fractions; one of 0 or 1 is not taken to be sure.
ends = (moved.iloc[:, [0, -1]].to_numpy() * power_repetitions + 1) / (power_repetitions + 2)
error = np.sqrt((ends * (1 - ends)).sum() / power_repetitions) / max(1, len(moved))
gain = (moved.iloc[:, -1] - moved.iloc[:, 0]).mean()
chapter.check(
    "P4-E2-grows",
    evidence.Evidence(gain, gain - 1.96 * error, gain + 1.96 * error, power_repetitions),
)
chapter.values(false_alarms=still["rejected"].sum() / still["repetitions"].sum())

# %% [markdown]
# Without a shift {value}`counterfactual.false_alarms:.3f` of the tests reject.
#
# ## Positivity
#
# The same as in experiment 1, at several levels of $\epsilon$: the less often a classifier answers
# near its boundary, the less is known there.

# %%
levels = simulation.run_cells(
    simulation.cells_of_positivity(
        epsilons, positivity_learner, positivity_repetitions, points, seed=seed
    )
)
chapter.figure(
    figures.plot_positivity(levels),
    "positivity",
    alt="Doubly robust miscoverage by epsilon, and widths that shrink as epsilon grows.",
    caption="Share of intervals that miss (top; dashed: 5%) and mean width (bottom).",
)
least = levels[(levels["estimator"] == "dr") & (levels["epsilon"] == epsilons[0])].iloc[0]
most = levels[(levels["estimator"] == "dr") & (levels["epsilon"] == epsilons[-1])].iloc[0]
chapter.check("P4-positivity", evidence.share(least["miscovered"], least["repetitions"]))
chapter.values(
    least_epsilon=epsilons[0],
    least_miscoverage=least["miscoverage"],
    least_width=least["width"],
    most_epsilon=epsilons[-1],
    most_width=most["width"],
)

# %% [markdown]
# At $\epsilon = $ {value}`counterfactual.least_epsilon` the doubly robust interval misses in
# {value}`counterfactual.least_miscoverage:.3f` of the repetitions, and it is
# {value}`counterfactual.least_width:.3f` wide, against {value}`counterfactual.most_width:.3f` at
# $\epsilon = $ {value}`counterfactual.most_epsilon`. (The clipping level is the true $\epsilon$,
# which nobody tells an evaluator.)
#
# ## How far can the estimate be trusted?
#
# Four questions to the estimate of the opening: do the propensities overlap, are they calibrated,
# how much rests on few points, and how much depends on the clipping level? (If none is given,
# $\epsilon = 5 / (\sqrt n \log n)$.)

# %%
found = bought.difference
chapter.figure(
    figures.plot_propensities(found.diagnostics),
    "propensities",
    alt="Histograms of propensities of answered and abstained points, which overlap for both.",
    caption="Estimated propensities to abstain: both kinds of points must be found at each.",
)
diagnostics = trials.diagnostics_table(bought)
chapter.table(diagnostics, "diagnostics", "Diagnostics of the estimate", {"A": ".3f", "B": ".3f"})
clips = clipping_sensitivity(found, [0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4])
chapter.table(
    clips,
    "clipping",
    "The estimate by clipping level",
    {"clip": "g", "effective_sample_size": ".0f"}
    | dict.fromkeys(["value", "low", "high", "stderr", "clipped"], ".3f"),
)
chapter.values(
    volatile=True,
    clip=found.clip,
    clip_lowest=clips["value"].min(),
    clip_highest=clips["value"].max(),
    effective=min(one.effective_sample_size for one in found.diagnostics),
)

# %% [markdown]
# The estimate is clipped at $\epsilon = $ {value}`counterfactual.clip:.3f`. Over these levels it
# moves between {value}`counterfactual.clip_lowest:.3f` and
# {value}`counterfactual.clip_highest:.3f`; the weighted answers are worth
# {value}`counterfactual.effective:.0f` points.
#
# **If scores are not missing at random.** Suppose that on an unknown share of the points the
# withheld scores may be anything, and that which points these are does not depend on abstention
# given $X$. After Bonvini and Kennedy {cite}`bonvini2022sensitivity` the estimate becomes a pair of
# bounds. (A service that has seen some of the test data in training, and answers just those, breaks
# this assumption, too: then the same share does more harm.) With {term}`contamination` of a share
# $\gamma$ and scores in $[0, 1]$ the lower bound on $\psi$ is
#
# $$
# \mathrm{E}[\mu_0(X)] - \max_{0 \le c \le 1,\; \mathrm{E}[c(X)] \le \gamma}
#   \mathrm{E}\bigl[ c(X)\, \pi(X)\, \mu_0(X) \bigr] ,
# $$ (eq-contamination)
#
# where $c(x)$ is the share of contaminated points at $x$; the upper one follows by exchanging the
# ends of the scale, the bounds on $\Delta$ by spoiling both scores.

# %%
bounds = contamination_bounds(found, [k / 50 for k in range(26)])
broken = breakdown_share(found)
chapter.figure(
    plot_contamination(bounds, trial_truth),
    "contamination",
    alt="Bounds that open like a funnel as the share of contaminated points grows, and cross zero.",
    caption=(
        "Bounds on the difference by the share of points on which scores are not missing at random."
    ),
)
chapter.values(volatile=True, broken=broken)

# %% [markdown]
# Under this model the interval excludes zero up to a share of {value}`counterfactual.broken:.1%` of
# the points.
#
# ## Abstention by a rule
#
# A classifier that answers where its confidence is above a threshold, as most that are deployed do,
# never answers below: positivity fails by construction. A model of the propensity that sees only
# the features need not show it, and the interval is then tight and wrong. Below, the threshold
# leaves out a tenth to three tenths of the points. The confidence itself gives the rule away, if
# anybody looks; what remains are {term}`bounds <identified set>`: the answers' part, and anything
# from 0 to 1 for the rest. Reports on [your own model](your_model.py) look, with every acceptance
# score and feature, and then state bounds and no estimate.

# %%
rules = stored_table(studies.rules_table, [0.1, 0.2, 0.3], rng=seed)
chapter.table(
    rules.drop(columns="seen"),
    "rules",
    "Abstention below a threshold: truth, doubly robust interval, and interval for the bounds",
    dict.fromkeys(rules.columns.drop(["data", "seen"]), ".3f"),
    csv=rules,
)
inside = {
    ends: int(((rules[low] <= rules["truth"]) & (rules["truth"] <= rules[high])).sum())
    for ends, low, high in (("point", "low", "high"), ("bounds", "bound low", "bound high"))
}
chapter.values(
    volatile=True,
    rules=len(rules),
    rules_missed=len(rules) - inside["point"],
    rules_bounded=inside["bounds"],
)

# %% [markdown]
# In {value}`counterfactual.rules_missed` of {value}`counterfactual.rules` runs the doubly robust
# interval misses the truth; the bounds hold it in {value}`counterfactual.rules_bounded`.
#
# ## Looking at the data while they arrive
#
# An interval that is valid at one sample size is not valid if one looks after every point and stops
# when it likes the answer. The asymptotic {term}`confidence sequence` of P4's appendix is (for many
# points) valid at all times at once:
#
# $$
# \hat\psi_n \pm \sqrt{\widehat{\mathrm{Var}}_n}\,
#    \sqrt{\frac{2(n\rho^2 + 1)}{n^2\rho^2} \log\frac{\sqrt{n\rho^2 + 1}}{\alpha}} .
# $$ (eq-sequence)
#
# $\rho > 0$ chooses the sample size at which it is tight. The slide's layout of this formula
# differs: it has a variance where $\rho$ belongs, and nothing below.

# %%
truth = studies.told(drawn)
known = estimate_from_nuisances(truth, clip=0.2)
sequence = confidence_sequence(known.influence, start=100)
chapter.figure(
    figures.plot_sequence(sequence, studies.pointwise_interval(known.influence, 100), trial_truth),
    "sequence",
    alt="A band around the estimate that narrows with the points, wider than dashed lines inside.",
    caption=(
        "The confidence sequence (band) and pointwise 95% intervals (dashed); line: the "
        "population's difference."
    ),
)
watched = studies.sequence_study(streams, points, 100, rng=seed)
chapter.check("P4-sequence", evidence.share(watched["sequence"], streams))
chapter.values(
    sequence_missed=watched["sequence"] / streams,
    pointwise_missed=watched["pointwise"] / streams,
    slide_missed=watched["slide"] / streams,
)

# %% [markdown]
# In {value}`counterfactual.pointwise_missed:.0%` of the streams the pointwise interval misses the
# truth at some time between 100 points and the end, the sequence in
# {value}`counterfactual.sequence_missed:.1%`, the slide's formula taken literally in
# {value}`counterfactual.slide_missed:.0%`. Nuisance functions are the true ones here: what is
# checked is the sequence. Cross-fitted ones know later points, so that a sequence over them is a
# look back.
#
# ## Other metrics
#
# The pair of selective score and {term}`coverage` does not say which classifier is better;
# {term}`Chow's score` makes one number of it by a price of abstention; Condessa's
# {term}`classification quality` counts right answers and abstentions on wrong ones. Its sum with
# the counterfactual score is observable, so that it can be estimated, too.

# %%
reward = 0.5
metrics = studies.metrics_comparison(drawn, found, reward)
chapter.table(
    metrics,
    "metrics",
    f"Metrics, with half-widths of 95% intervals (an abstention earns {reward})",
    dict.fromkeys(metrics.columns[1:], ".3f"),
)

# %% [markdown]
# ## Real images, with the truth beside
#
# The labels of real images are known to us, so we can hide scores and look whether the intervals
# hold what was hidden. As in P4's experiment the score is {term}`Brier's <Brier score>` (larger is
# better) and abstention is by {term}`softmax response` (SR) or Gini impurity, at a threshold or
# with probability 1 - confidence, the confidence being clipped to [0.2, 0.8]: so $\epsilon = 0.2$,
# and the clipping level is told.
#
# - **I**: the same classifier at two thresholds (0.8 and 0.5): the true difference is 0,
# - **II**: the same classifier, SR against Gini, both stochastic: 0 again,
# - **III**: two classifiers, the second trained on a twentieth of the labels (at least 20),
#
# and on two classes alone (cats and dogs; of the digits, 3 and 5), after P4's negative example,
# with thresholds 0.6 and 0.65. Classifiers are logistic regressions, not VGG-16: an analogue of the
# experiment, not its repetition. Draws repeat abstentions and folds on the same images; where
# abstention is deterministic only the folds differ.

# %%
datasets = {"digits": (900, 897)} | ({images: (image_train, image_points)} if with_images else {})
draws = {"linear": linear_draws, "super": super_draws}
runs = scenarios.scenario_runs(datasets, draws, seed)
ones = scenarios.scenario_table(runs)
shown_ones = ones[ones["learner"] == ("super" if super_draws else "linear")]
chapter.figure(
    figures.plot_scenarios(shown_ones),
    "scenarios",
    alt="For each scenario a 95% interval, the true difference and that of the selective scores.",
    caption="One draw of each scenario: 95% interval, truth and difference of selective scores.",
)
numbers = ["coverage A", "coverage B", "selective difference", "true difference", "low", "high"]
chapter.table(
    ones.drop(columns=["A", "B"]),
    "scenarios",
    "One draw of each scenario; the download says which classifiers",
    dict.fromkeys(numbers, ".3f"),
    csv=ones,
)
many = scenarios.draws_table(runs)
chapter.table(
    many.drop(columns=["A", "B"]),
    "draws",
    "All draws: how many intervals miss the truth, with fitted and with told propensities",
    {"missed, told": ".0f", "mean error": ".4f", "mean width": ".4f"},
    csv=many,
)

# %%
if with_images:
    linear = many[(many["learner"] == "linear") & (many["data"] == images)].set_index("scenario")
    missed = linear["missed"] / linear["draws"]
    for name in ("I", "II"):
        chapter.check(f"P4-S-{name}", evidence.share(linear["rejected"][name], linear_draws))
    rightly = sum(
        int((run.arrays["rejects"][k].astype(bool) & (run.arrays["covers"][k] == 1)).sum())
        for job, run in runs
        for k, scenario in enumerate(job.scenarios)
        if (job.dataset, job.learner, scenario.name) == (images, "linear", "III")
    )
    chapter.check("P4-S-III", evidence.share(rightly, linear_draws))
    chapter.check("P4-S-negative", evidence.share(linear["missed"]["I, pair"], linear_draws))
    chapter.note(
        f"On {LABELS[images]}, with linear learners: the interval of scenario III misses the truth "
        f"in {missed['III']:.0%} of the draws (mean error {linear.loc['III', 'mean error']:+.3f}) "
        f"and that of II, where the truth is 0, in {missed['II']:.0%}, although abstention is "
        "stochastic and missing at random. With the true propensities they miss in "
        f"{linear.loc['III', 'missed, told'] / linear_draws:.0%} and "
        f"{linear.loc['II', 'missed, told'] / linear_draws:.0%}: so the fits of propensity and "
        "score are both off by too much. Whether more points or richer learners would do is not "
        "tested here; the draws with the super learner are in the table. In scenario I, where "
        f"abstention is deterministic, it misses in {missed['I']:.0%}, and the positivity warning "
        f"came in {linear.loc['I', 'warned'] / linear_draws:.0%} of these draws: no warning is no "
        "evidence of positivity."
    )
else:
    chapter.not_run(chapter.claims("P4-S-"), f"{images} is not here")
digits = many[(many["data"] == "digits") & (many["learner"] == "linear")].set_index("scenario")
chapter.values(
    volatile=True,
    digits_draws=digits.loc["I", "draws"],
    digits_one=digits.loc["I", "missed"],
    digits_two=digits.loc["II", "missed"],
    digits_three=digits.loc["III", "missed"],
    digits_two_told=digits.loc["II", "missed, told"],
    digits_three_told=digits.loc["III", "missed, told"],
    digits_three_error=digits.loc["III", "mean error"],
)

# %% [markdown]
# On the digits, of {value}`counterfactual.digits_draws` draws with linear learners the interval
# misses in {value}`counterfactual.digits_one` (I), {value}`counterfactual.digits_two` (II) and
# {value}`counterfactual.digits_three` (III); if the services tell their propensities, in
# {value}`counterfactual.digits_two_told:.0f` (II) and {value}`counterfactual.digits_three_told:.0f`
# (III). That is the practical lesson: *ask for the propensities*. An auditor who may require a
# minimal level of positivity, as P4 proposes, may as well require that they are logged.
#
# ## Audit your own two services
#
# Write a CSV file with the columns `score_a`, `abstained_a`, `score_b`, `abstained_b`; every other
# column is a feature. Features must include what abstention and scores both depend on: nothing
# corrects for what is left out. A score may be empty where its service abstained. Then
#
# ```sh
# papermill book/counterfactual.py out.ipynb -p services my_trial.csv -p margin 0.02
# ```
#
# and read on here. Without a file, the report below is on the example of the opening.

# %%
own = read_predictions(services) if services else trial
report = trials.compare_services(own, learner=services_learner, margin=margin, rng=seed)
own_table = trials.comparison_table(report)
own_by_service = own_table.set_index("service").T
chapter.table(
    own_by_service.rename_axis("quantity").reset_index(),
    "services",
    f"{'Your' if services else 'Example'} services: {len(own.test_scores)} points, "
    f"{len(own.features)} features",
    dict.fromkeys(own_by_service, ".3f"),
)
chapter.table(
    trials.diagnostics_table(report), "services_diagnostics", "Diagnostics",
    {"A": ".3f", "B": ".3f"},
)  # fmt: skip
chapter.note(f"Decision: {report.decision}. {report.reason}")
for text in report.warnings:
    chapter.note(f"Mind: {text}.")

# %% tags=["hide-input"]
run = chapter.recorded("standard")
if run is not None:
    chapter.note(chapter.describe_record("standard"))
    kept = {one["id"] for one in run["verdicts"] if one["verdict"].startswith("reproduced")}
    ways = {
        "cross-fitting": "",
        "fresh halves": ", fresh samples",
        "one fresh sample": ", one fresh sample",
    }
    shares = {way: chapter.reported(f"P4, experiment 1{name}") for way, name in ways.items()}
    chapter.note(
        "In it, of the nine shares of experiment 1, agree with P4's: "
        + ", ".join(f"{len(kept & set(cells))} with {way}" for way, cells in shares.items())
        + "."
    )
    for name, what in (
        ("experiment_1", "of experiment 1"),
        ("independent", "with nuisance functions from fresh halves"),
        ("fresh_sample", "with nuisance functions from one fresh sample"),
    ):
        kept_table = chapter.recorded_table("standard", name)
        if kept_table is not None:
            chapter.table(kept_table, f"recorded_{name}", f"Recorded run {what}")
    chapter.table(
        chapter.recorded_table("standard", "power"),
        "recorded_power",
        "Recorded run of experiment 2",
    )

# %% [markdown]
# ## What is new here
#
# - Where the paper's shares for IPW come from is narrowed down: with nuisance functions from one
#   fresh sample {value}`counterfactual.whole_agreeing` of the {value}`counterfactual.whole_run`
#   cells that were run agree with the paper, with cross-fitting
#   {value}`counterfactual.agreeing` of nine.
# - The intervals are held against the *population's* difference, too, which they are built for:
#   with forests they miss it in {value}`counterfactual.forest_dr_population:.3f` of the
#   repetitions, the sample's in {value}`counterfactual.forest_dr:.3f`.
# - An estimate comes with what could be wrong with it: overlap, effective sample size, other
#   clipping levels, and bounds under contamination (Eq. {eq}`eq-contamination`), which the paper
#   only points to.
# - The confidence sequence is put right (Eq. {eq}`eq-sequence`) and tried on streams: it misses in
#   {value}`counterfactual.sequence_missed:.1%`, the formula of the slide in
#   {value}`counterfactual.slide_missed:.0%`.
# - The sum of classification quality and counterfactual score is observable, so that quality can be
#   estimated without the withheld answers.
# - On images whose truth is known the fits are the weak part: on the digits the intervals of
#   scenarios II and III miss in {value}`counterfactual.digits_two` and
#   {value}`counterfactual.digits_three` of {value}`counterfactual.digits_draws` draws, with told
#   propensities in {value}`counterfactual.digits_two_told:.0f` and
#   {value}`counterfactual.digits_three_told:.0f`.
#
# ## What the paper leaves open
#
# - *Who guarantees positivity.* P4 proposes to require it of services. Fitted propensities that
#   overlap are no evidence that the true ones do.
# - *The clipping level.* In the simulations it is the true $\epsilon$, which nobody tells an
#   evaluator.
# - *When nuisance functions are good enough.* Eq. {eq}`eq-dr-bias` has two unknown errors. The rate
#   conditions of the theory cannot be checked on the data at hand.
# - *What the interval is for.* Miscoverage is counted against the sample's difference, the easier
#   target.
# - *Looking while fitting.* A confidence sequence needs nuisance functions that do not know later
#   points.
# - *Abstentions that are not coin tosses*, such as a chatbot's "I cannot say that", and forecasters
#   that abstain over time: the talk names both as future work.
#
# ## Exercises
#
# 1. No difference is too small to matter. Would the scores seen decide then?
#    ```sh
#    papermill book/counterfactual.py out.ipynb -f params/quick/counterfactual.yml \
#        -p margin 0
#    ```
# 2. Give experiment 2 linear learners. What is lost?
#    ```sh
#    papermill book/counterfactual.py out.ipynb -f params/quick/counterfactual.yml \
#        -p power_learner linear
#    ```
# 3. Hardly any answers near the boundaries. How wide do the intervals become, and do they still
#    hold the truth?
#    ```sh
#    papermill book/counterfactual.py out.ipynb -f params/quick/counterfactual.yml \
#        -y '{"epsilons": [0.02, 0.05, 0.5]}'
#    ```
# 4. Fewer points. Which of the three estimators suffers most?
#    ```sh
#    papermill book/counterfactual.py out.ipynb -f params/quick/counterfactual.yml \
#        -p points 300
#    ```
# 5. Compare two of your own models: write their scores as a CSV file, hide some at random, and see
#    whether the interval finds what you hid.
#
# ## Summary
#
# - The scores that an abstaining classifier shows are not those that it would have. In the opening
#   example they put A {value}`counterfactual.selective_difference:.3f` ahead, the doubly robust
#   estimate {value}`counterfactual.trial_value:.3f`, the truth
#   {value}`counterfactual.trial_truth:.3f`.
# - {value}`counterfactual.agreeing` of the nine cells of experiment 1 agree with the paper with
#   cross-fitting; with nuisance functions from one fresh sample
#   {value}`counterfactual.whole_agreeing` of the {value}`counterfactual.whole_run` that were run.
# - Intervals are valid if the product of two errors is small. Linear learners fail at that in
#   experiment 1, and on real images; with the true propensities told, the intervals of scenarios II
#   and III on digits miss in {value}`counterfactual.digits_two_told:.0f` and
#   {value}`counterfactual.digits_three_told:.0f` of {value}`counterfactual.digits_draws` draws.
#
# All numbers of this page that do not depend on the machine:

# %% tags=["hide-cell", "expect-numbers"]
print(chapter.numbers(digits=3))
