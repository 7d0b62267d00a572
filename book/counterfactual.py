# %% [markdown]
# # Counterfactual abstainers: how good would it be if it had to answer?
#
# Two services may abstain in a free trial but must always answer once you pay: which one should you
# buy, if you see only the scores of the answers that they chose to give?
#
# **Answer.** Treat abstentions as missing data: in one simulated trial this finds a lead of
# {value}`counterfactual.trial_value:.3f`, where the scores seen show much less.
#
# ```{result} miscoverage
# ```
#
# With linear learners no method finds A's true lead (line). With flexible ones the {term}`doubly
# robust` estimate does, but more than the allowed 5% of its intervals miss the truth.
#
# **Do this.** Ask each service how likely it was to answer, input by input. Call
# {py:obj}`~lib.counterfactual.counterfactual_difference` with flexible learners, and read its
# diagnostics before its interval. Decide with the margin that matters to you.
#
# ## What holds, and what does not
#
# - *Holds.* The scores seen can mislead. They put A ahead by
#   {value}`counterfactual.selective_difference:.3f`; the truth is
#   {value}`counterfactual.trial_truth:.3f`.
# - *Open.* Whether the doubly robust interval keeps its level with flexible learners. With forests
#   it misses the sample's difference in {value}`counterfactual.forest_dr:.3f` of the repetitions.
#   Linear learners fail.
# - *Caution.* For the *population's* difference, on all points that could come, the interval errs
#   more often: with forests in {value}`counterfactual.forest_dr_population:.3f` of the repetitions.
# - *Caution.* More points do not help every learner. Where an edge of abstention falls on an edge
#   of the score, up to {value}`counterfactual@standard.super.missed_most:.0%` of the super
#   learner's intervals miss the population's difference. That is with the most points.
# - *Caution.* Cross-fitting, which the paper describes, reproduces {value}`counterfactual.agreeing`
#   of P4's nine rates. Models fitted to one fresh sample reproduce
#   {value}`counterfactual.whole_agreeing` of the {value}`counterfactual.whole_run` that were run.

# %% tags=["parameters"]
points: int = 2000  # [100, 1000000] points of a simulated data set
linear_repetitions: int = 100  # [1, 1000000] of experiment 1 with linear learners
forest_repetitions: int = 30  # [1, 1000000] with random forests
super_repetitions: int = 5  # [0, 1000000] with the super learner
independent_repetitions: int = 10  # [1, 1000000] without cross-fitting
independent_learners: list[str] = ["linear", "forest"]  # {linear, forest, super} learners for these
power_learner: str = "forest"  # {linear, forest, super} learner of experiment 2
power_sizes: list[int] = [200, 800]  # [20, 1000000] sample sizes, ascending
power_shifts: list[float] = [0.0, 0.1, 0.2, 0.4]  # [0, 1] shifts of B's boundary, from 0 up
power_repetitions: int = 6  # [1, 1000000] of experiment 2
positivity_learner: str = "forest"  # {linear, forest, super} learner by positivity level
epsilons: list[float] = [0.1, 0.15, 0.2, 0.3, 0.5]  # (0, 0.5] positivity levels, ascending
positivity_repetitions: int = 6  # [1, 1000000] at each level
services_learner: str = "super"  # {linear, forest, super} learner for the services
margin: float = 0.03  # [0, 1000000] the smallest difference of scores that matters to you
seed: int = 0  # [0, 1000000] of everything

# %%
from lib.book.session import open_chapter

chapter = open_chapter("counterfactual", globals())

import numpy as np

from lib.book import evidence
from lib.report import ModelPredictions
from lib.report import services as trials
from lib.studies.counterfactual import figures, simulation, stress
from lib.studies.counterfactual import tables as studies

chapter.note("Data: simulations.")

# %% [markdown]
# ## The idea
#
# P4 {cite}`choe2023counterfactually` treats {term}`abstentions <abstention>` as *missing data* and
# asks for the {term}`counterfactual score`: how well each service would have done, had it not been
# allowed to abstain at all. What a service withheld on one image is estimated from its answers on
# similar ones. An answer counts for more where answers are rare.
#
# This page makes the decision and repeats the paper's simulations. [The next
# one](counterfactual_limits.py) asks how far such an estimate can be trusted, and tries the method
# on real images whose labels are known.
#
# ## Two services after a free trial
#
# Here a point is an input with two features, and a service scores 1 where its answer is right.
# Where it abstained there is no score. A difference of less than {value}`counterfactual.margin`
# does not matter to us.

# %%
drawn = simulation.simulate(points, rng=seed)
trial = ModelPredictions(**simulation.trial_arrays(drawn))
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

# %%
trial_truth = simulation.true_difference()
chapter.values(margin=margin, trial_truth=trial_truth)
seen = table.iloc[-1]

# %%
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
# Each service abstains mostly near its own boundary. A errs equally often everywhere, so abstaining
# hides none of its errors. B errs most between its own boundary, near which it abstains, and the
# right one. So the scores seen (the {term}`selective scores <selective score>`) are those of two
# different exams.
#
# By the scores seen, A is ahead by {value}`counterfactual.selective_difference:.3f`, and the
# decision is *{value}`counterfactual.seen_decision`*. With abstentions accounted for, the
# difference is {value}`counterfactual.trial_value:.3f`, and the decision
# *{value}`counterfactual.decision`*. The table has both intervals. The truth, which only the
# simulation knows, is {value}`counterfactual.trial_truth:.3f`. This is one draw; others may be less
# clear.
#
# ## What is estimated, and when it can be
#
# ```{drawing} p4-graph
# ```
#
# A classifier abstains ($R = 1$) on an input $X$ with the {term}`propensity` $\pi(x) = P(R = 1 \mid
# X = x)$; its score $S$ is seen where $R = 0$. The target is
#
# $$
# \psi = \mathrm{E}[S] , \quad\text{or for two}\quad \Delta = \psi_A - \psi_B .
# $$ (eq-target)
#
# It is identified under two conditions:
#
# - **{term}`missing at random`**: $S$ and $R$ are independent given $X$. This holds if $X$ is all
#   that the classifier sees and the test data are not among its training data.
# - **{term}`positivity`**: $\pi(x) \le 1 - \epsilon$ for some $\epsilon > 0$. Where a classifier
#   never answers, nothing is known.
#
# The talk that we read as P4 draws the first condition as a causal graph: given $X$, the nodes $S$
# and $R$ are d-separated. A diamond marks $S$ as only partly seen.
#
# Then $\psi = \mathrm{E}[\mu_0(X)]$ with $\mu_0(x) = \mathrm{E}[S \mid R = 0, X = x]$. With fitted
# {term}`nuisance functions <nuisance function>` $\hat\mu_0$ and $\hat\pi$ there are three natural
# estimators: the {term}`plug-in` and {term}`IPW` (inverse propensity weighting),
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
#   \bigl(\hat\mu_0(X) - \mu_0(X)\bigr) \Bigr] .
# $$ (eq-dr-bias)
#
# It vanishes if one of the two is right, and is small if both are nearly so. Both are fitted on one
# half of the data and used on the other, and vice versa ({term}`cross-fitting`). The variance of
# the influence values gives an interval. Propensities above $1 - \epsilon$ are clipped to it.
#
# ## Experiment 1: do the intervals cover the truth?
#
# Inputs are uniform on the unit square, and labels are $1[x_0 + x_1 \ge 1]$ with 15% of them
# flipped. A has the right boundary, B a curve. Each abstains with probability 0.8 near its own
# boundary and 0.2 elsewhere.

# %%
chapter.figure(
    figures.plot_classifiers(simulation.simulate(20_000, rng=0)),
    "classifiers",
    alt="Points of the square with A's straight and B's curved boundary; crosses are near both.",
    caption="Boundaries (lines), right and wrong answers, and abstentions of A and B: 600 points.",
    theory=True,
)

# %% [markdown]
# Three learners fit $\pi$ and $\mu_0$: linear models, random forests, and the {term}`super
# learner`. The last stacks logistic (or ridge) regression, 5 nearest neighbors, a kernel support
# vector machine and a random forest. As in P4, an interval misses if it excludes the difference of
# the two mean scores *on the same points*, had nobody abstained.

# %%
counts = {"linear": linear_repetitions, "forest": forest_repetitions, "super": super_repetitions}
first = simulation.run_cells(simulation.cells_of_experiment_1(counts, points, seed=seed))
reported = chapter.reported("P4, experiment 1")
printed = {
    tuple(name.removeprefix("P4-E1-").split("-", 1)): value for name, (value, _) in reported.items()
}

# %%
chapter.table(
    studies.coverage_table(first),
    "experiment_1",
    "Experiment 1: misses of the sample's and of the population's difference",
    dict.fromkeys(["misses sample", "misses population", "width", "bias", "spread"], ".3f"),
)

# %%
chapter.drawn(figures.draw_miscoverage)

# %%
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

# %%
chapter.values(
    volatile=True,
    agreeing=sum(v.value is not None and v.value <= 3 for v in cells),
    agreeing_widths=sum(v.verdict.startswith("reproduced") for v in width_cells),
)

# %%
chapter.values(
    linear_dr=by_cell.loc[("linear", "dr"), "miscoverage"],
    linear_bias=by_cell.loc[("linear", "dr"), "bias"],
    forest_dr=by_cell.loc[("forest", "dr"), "miscoverage"],
    forest_dr_population=by_cell.loc[("forest", "dr"), "population_miscoverage"],
    forest_dr_bias=by_cell.loc[("forest", "dr"), "bias"],
    forest_dr_spread=by_cell.loc[("forest", "dr"), "spread"],
    forest_dr_error=by_cell.loc[("forest", "dr"), "stderr"],
)

# %%
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
# Of the nine rates {value}`counterfactual.agreeing` are within three standard errors of the
# paper's. (With fewer than 200 repetitions that decides nothing.) Of the nine widths
# {value}`counterfactual.agreeing_widths` are within 0.003.
#
# Linear models are wrong for both functions, so the doubly robust interval is in the wrong place,
# too, with a bias of {value}`counterfactual.linear_bias:.3f`. It misses in
# {value}`counterfactual.linear_dr:.3f` of the repetitions; with forests, in
# {value}`counterfactual.forest_dr:.3f`.
#
# The interval is built for the *population's* difference. With forests it misses that one in
# {value}`counterfactual.forest_dr_population:.3f` of the repetitions. The estimates spread by
# {value}`counterfactual.forest_dr_spread:.4f`. Their mean standard error is
# {value}`counterfactual.forest_dr_error:.4f`. (Their bias is
# {value}`counterfactual.forest_dr_bias:.4f`.) The sample's difference, which P4 uses, is the easier
# target.
#
# ### Where IPW differs from the paper
#
# With cross-fitting, the weights of the two halves err in opposite directions. The errors cancel,
# so IPW varies *less* than its standard error says. The authors' public code cross-fits, too, and
# its rates are near ours: .963 (linear) and .040 (forest). The paper prints .756 and .138.
#
# The public code's settings differ from ours in details: halves need not be equal, and
# scikit-learn's learners keep their defaults. In this build its linear models give:

# %%
from lib.studies.counterfactual.public_code import ipw_misses

missed = ipw_misses(linear_repetitions, points, seed=seed)
print(f"IPW misses in {missed:.2f} of {linear_repetitions:,} repetitions")

# %% [markdown]
# With linear models and forests, rates come closer to the printed ones if the functions are learned
# from *fresh* data. With the super learner they overshoot. The first table below has a fresh sample
# for each half, as large as the other half. The second has one fresh sample, as large as the data,
# as if the functions had been trained beforehand.

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

# %%
fresh_cells = chapter.check_cells(
    "P4, experiment 1, fresh samples",
    evidence.counted(studies.claims_of_cells(apart, fresh_reported, "P4-F1-")),
    "The same rates, against those of the estimates from fresh samples",
)
whole = simulation.run_cells(
    simulation.cells_of_experiment_1(fresh, points, seed=seed, nuisances="fresh sample")
)

# %%
chapter.table(
    studies.coverage_table(whole),
    "fresh_sample",
    f"The same with nuisance functions from one fresh sample of {points:,} points",
    dict.fromkeys(["misses sample", "misses population", "width", "bias", "spread"], ".3f"),
)

# %%
whole_cells = chapter.check_cells(
    "P4, experiment 1, one fresh sample",
    evidence.counted(
        studies.claims_of_cells(
            whole, chapter.reported("P4, experiment 1, one fresh sample"), "P4-G1-"
        )
    ),
    "The same rates, against those of the estimates from one fresh sample",
)
by_apart, by_whole = (each.set_index(["learner", "estimator"]) for each in (apart, whole))
shown, last = independent_learners[0], independent_learners[-1]

# %%
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

# %%
chapter.values(
    volatile=True,
    fresh_agreeing=sum(v.value is not None and v.value <= 3 for v in fresh_cells),
    fresh_run=sum(v.value is not None for v in fresh_cells),
    whole_agreeing=sum(v.value is not None and v.value <= 3 for v in whole_cells),
    whole_run=sum(v.value is not None for v in whole_cells),
)

# %% [markdown]
# Take the first learner of the tables ({value}`counterfactual.apart_learner`). Cross-fitted, IPW
# misses in {value}`counterfactual.cross_ipw:.3f` of the repetitions, where P4 prints
# {value}`counterfactual.printed_ipw:.3f`. With fresh halves it misses in
# {value}`counterfactual.apart_ipw:.3f`, with one fresh sample in
# {value}`counterfactual.whole_ipw:.3f`. With fresh halves its estimates spread by
# {value}`counterfactual.apart_spread:.3f` instead of {value}`counterfactual.cross_spread:.3f`.
#
# With fresh halves, {value}`counterfactual.fresh_agreeing` of the {value}`counterfactual.fresh_run`
# cells that were run agree with the paper. With one fresh sample it is
# {value}`counterfactual.whole_agreeing` of {value}`counterfactual.whole_run`. We do not know
# whether the paper did this: the authors' public code cross-fits.
#
# The doubly robust estimate depends on it less. Take the last learner
# ({value}`counterfactual.last_learner`). Cross-fitted, the estimate spreads by
# {value}`counterfactual.last_cross:.4f`, with fresh halves by
# {value}`counterfactual.last_apart:.4f`. Cross-fitted, it misses the population's difference in
# {value}`counterfactual.last_cross_misses:.3f` of the repetitions, with fresh halves in
# {value}`counterfactual.last_apart_misses:.3f`. With the super learner such differences are within
# chance. With forests fresh halves help, beyond chance in the recorded run (tables).
#
# ### How close to the least variance
#
# Under P4's assumptions alone, no estimator varies less, in the limit, than the true influence
# values. That is the {term}`efficiency bound`, and the theorem says that the doubly robust estimate
# reaches it.

# %%
least_variance = stress.bound_of_experiment()
ratios = stress.bound_table({"cross-fitted": first, "fresh halves": apart}, least_variance)
titles = {"learner": studies.LEARNER_TITLES, "estimator": studies.ESTIMATOR_TITLES}
chapter.table(
    ratios.assign(**{name: ratios[name].map(words) for name, words in titles.items()}),
    "efficiency",
    "Variance in multiples of the bound, with 95% intervals, and bias of the cross-fitted "
    "estimates in standard errors at the bound",
    dict.fromkeys(ratios.columns[2:], ".2f"),
)
by_ratio = ratios[ratios["estimator"] == "dr"].set_index("learner")

# %%
for learner in ("forest", "super"):
    if learner in by_ratio.index:
        ends = by_ratio.loc[learner, ["cross-fitted", "cross-fitted, low", "cross-fitted, high"]]
        found = evidence.Evidence(*ends, counts[learner])
        verdict = chapter.check(f"P4-bound-{learner}", found)
    else:
        chapter.not_run([f"P4-bound-{learner}"], "no repetitions with this learner here")
chapter.values(
    least_variance=least_variance,
    bound_forest=by_ratio.loc["forest", "cross-fitted"],
    bound_ipw=ratios.set_index(["learner", "estimator"]).loc[("forest", "ipw"), "cross-fitted"],
)

# %% [markdown]
# In experiment 1 the bound is {value}`counterfactual.least_variance:.4f`, divided by the number of
# points. With forests the doubly robust estimate varies {value}`counterfactual.bound_forest:.2f`
# times as much, and IPW {value}`counterfactual.bound_ipw:.2f` times. With the super learner it is
# at the bound, within error (table). Less than the bound is no merit: linear models vary less,
# around the wrong value (last column).
#
# ```{margin}
# **Less is possible** if scores and abstentions of A and B are *jointly* independent given $X$:
# [mixed estimation](counterfactual_limits.py).
# ```

# %% [markdown]
# ## Experiment 2: power
#
# B is now A with its boundary shifted by $\mu$, so the true difference is $0.7\,(\mu - \mu^2 / 2)$.
# The test rejects "no difference" if the doubly robust interval excludes zero.

# %%
moved = {"experiment": "shifted", "shifts": power_shifts, "seed": seed}
second = simulation.run_cells(
    {n: simulation.repetitions(n, power_learner, power_repetitions, **moved) for n in power_sizes}
)
powers = second[second["estimator"] == "dr"]

# %%
power = powers.pivot(index="shift", columns="n", values="power")
three = dict.fromkeys(power.columns, ".3f")
chapter.table(power, "power", "Rate of rejections, by number of points", three)
misses = powers.pivot(index="shift", columns="n", values="population_miscoverage")

# %%
chapter.table(
    misses,
    "power_misses",
    "Fraction of intervals that miss the population's difference, by number of points",
    dict.fromkeys(misses.columns, ".3f"),
    aside=True,
)
chapter.drawn(figures.draw_power)

# %%
still = powers[powers["shift"] == 0]
moved = power[(power.index > 0) & (power.iloc[:, 0] < 0.9)]
tests = int(still["repetitions"].sum())
chapter.check("P4-E2-level", evidence.share(still["rejected"].sum(), tests))
top = round(power.iloc[-1, -1] * power_repetitions)
_ = chapter.check("P4-E2-power", evidence.share(top, power_repetitions))

# %%
# Shifts share their draws, so that errors are added; a fraction of 0 or 1 is not taken to be sure.
ends = (moved.iloc[:, [0, -1]].to_numpy() * power_repetitions + 1) / (power_repetitions + 2)
error = np.sqrt(ends * (1 - ends) / power_repetitions).sum() / max(1, len(moved))
gain = (moved.iloc[:, -1] - moved.iloc[:, 0]).mean()
chapter.check(
    "P4-E2-grows",
    evidence.Evidence(gain, gain - 1.96 * error, gain + 1.96 * error, power_repetitions),
)
chapter.values(
    false_alarms=still["rejected"].sum() / still["repetitions"].sum(),
    power_repetitions=power_repetitions,
)
chapter.values(
    volatile=True,
    least_shift=power.index[min(1, len(power) - 1)],
    most_points=int(power.columns[-1]),
    found_least=power.iloc[min(1, len(power) - 1), -1],
    missed_most=misses.to_numpy().max(),
)

# %% [markdown]
# Without a shift {value}`counterfactual.false_alarms:.3f` of the tests reject; 5% are allowed.
# Intervals miss most at a shift of 0.2, where an edge of B's propensity falls on an edge of its
# score. [The next page](counterfactual_limits.py) shows why.
#
# With the super learner, as in P4, {value}`counterfactual@standard.super.false_alarms:.3f` of the
# tests without a shift reject. The smallest shift,
# {value}`counterfactual@standard.super.least_shift`, is found in
# {value}`counterfactual@standard.super.found_least:.0%` of the repetitions with the most points.
#
# But at a shift of 0.2 the super learner's intervals miss more often than those of forests, and
# more so with more points. At worst {value}`counterfactual@standard.super.missed_most:.0%` of them
# miss. Presumably it smooths edges, and that error shrinks more slowly than the intervals.
#
# ## Positivity
#
# The less often a classifier answers near its boundary, the less is known there. Here is one draw
# of experiment 1, with forests, for each level of positivity:

# %%
by_level = simulation.over_levels([0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5], seed=seed)
doubtful = [
    f"{level:g}"
    for level, (dr, _) in by_level.items()
    if any(one.positivity for one in dr.diagnostics)
]
chapter.figure(
    figures.plot_overlap(by_level, simulation.true_difference()),
    "overlap",
    alt=(
        "Three histograms of A's propensity to abstain, answered and abstained points: apart at "
        "0.02, overlapping at 0.3. Below, intervals around the truth, narrower to the right."
    ),
    caption=(
        "One simulated data set of 2,000 points, in which both classifiers answer with at least "
        "the probability $\\epsilon$; propensities are clipped at one minus it. "
        + f"At $\\epsilon$ = {', '.join(doubtful)} lib warns that positivity looks violated."
        * bool(doubtful)
    ),
    theory=True,
)

# %% [markdown]
# Over many draws:

# %%
how = positivity_learner, positivity_repetitions
levels = simulation.run_cells(
    {e: simulation.repetitions(points, *how, epsilon=e, seed=seed) for e in epsilons}
)
least = levels[(levels["estimator"] == "dr") & (levels["epsilon"] == epsilons[0])].iloc[0]

# %%
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
# At $\epsilon = $ {value}`counterfactual.least_epsilon` the doubly robust interval with
# forests misses the sample's difference in {value}`counterfactual.least_miscoverage:.3f` of the
# repetitions. With the super learner it does in
# {value}`counterfactual@standard.super.least_miscoverage:.3f`. The interval is
# {value}`counterfactual.least_width:.3f` wide there. At $\epsilon = $
# {value}`counterfactual.most_epsilon` it is {value}`counterfactual.most_width:.3f` wide.
#
# ```{margin}
# **The clipping level** here is the true $\epsilon$, which an evaluator does not know.
# ```

# %% [markdown]
# ## What is new here
#
# - Where the paper's rates may come from: nuisance functions from fresh data instead of
#   cross-fitting. Nothing that we tried gives the super learner's rate for IPW.
# - The intervals are also compared with the *population's* difference, which they are built for.
#
# ## What the paper leaves open
#
# - *Who guarantees positivity.* P4 proposes to require it of services. Fitted propensities that
#   overlap are no evidence that the true ones do.
# - *When nuisance functions are good enough.* Eq. {eq}`eq-dr-bias` has two unknown errors. The
#   theory's rate conditions cannot be checked on data.
# - *What the interval is for.* Miscoverage is counted for the sample's difference, the easier
#   target.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Write 0.0 in place of 0.8, and watch the
# two numbers meet.

# %% tags=["try-it"]
import numpy as np

from lib.counterfactual import counterfactual_score, selective_score

x, luck, chance = np.random.default_rng(0).random((3, 4000))  # x: how easy an input is
right, abstained = luck < x, chance < 0.9 - 0.8 * x
found = counterfactual_score(x[:, None], right, abstained, learner="linear", rng=1)
print(f"answers {selective_score(right, abstained).value:.2f}, all {found.value:.2f}")

# %% [markdown]
# 1. Let the service abstain at random, whatever the input. What becomes of the gap between the two
#    numbers?
#
#    :::{dropdown} Solution
#    It is gone, up to chance: answers are now a fair sample of all points. The gap in the cell
#    above is what abstaining on hard inputs hides. Abstention itself does not harm the comparison;
#    its dependence on difficulty does.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.counterfactual import counterfactual_score, selective_score

rng = np.random.default_rng(0)
x = rng.random((4000, 1))
right, abstained = rng.random(4000) < x[:, 0], rng.random(4000) < 0.5  # whatever the input
found = counterfactual_score(x, right, abstained, learner="linear", rng=1)
print(f"answers {selective_score(right, abstained).value:.2f}, all {found.value:.2f}")

# %% [markdown]
# 2. A service answers at random half, a tenth or a fiftieth of the points. How many times as many
#    points are needed for the same precision?
#
#    :::{dropdown} Solution
#    One over the chance of an answer, since here features tell nothing about errors. Where they do,
#    it is less. No regular estimator can do better in the limit (the efficiency bound). Where a
#    kind of point is never answered, no number of points helps.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.counterfactual import efficiency_bound

accuracy = np.full(100, 0.8)
for answered in (1.0, 0.5, 0.1, 0.02):
    bound = efficiency_bound([np.full(100, 1 - answered)], [accuracy], [np.full(100, 0.16)])
    print(f"answers {answered:.0%}: {bound / 0.16:.0f} times the points")

# %% [markdown]
# 3. Get one of the two models wrong on purpose, then the other instead. Which of the three
#    estimators survives either mistake?
#
#    :::{dropdown} Solution
#    The truth is a half. The plug-in estimate repeats a wrong outcome model, weighting (`ipw`) a
#    wrong propensity. The doubly robust one is right if either model is: to the outcome model's
#    guess it adds the weighted errors of that guess. If both are wrong, it is generally wrong, too.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.counterfactual import Nuisances, estimate_from_nuisances

rng, x = np.random.default_rng(0), np.linspace(0, 1, 20_000)
abstained, right = rng.random(x.size) < 0.9 - 0.8 * x, 1.0 * (rng.random(x.size) < x)
for name, outcome, chance in (("model", 0.7, 0.9 - 0.8 * x), ("propensities", x, 0.5)):
    known = Nuisances(abstained, right, chance + 0 * x, outcome + 0 * x)
    for kind in ("plug-in", "ipw", "dr"):
        print(f"wrong {name}, {kind}: {estimate_from_nuisances(known, estimator=kind).value:.2f}")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/counterfactual.py out.ipynb -f params/quick/counterfactual.yml \
#     -p power_learner linear
# ```
#
# ## Summary
#
# What a service answered is no fair sample of what it was asked, so its score is not that of the
# paid version. The doubly robust estimate corrects for this if similar points tell what was
# withheld and no kind of point always is. The next page asks [how far such an estimate can be
# trusted](counterfactual_limits.py), also on real images.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers(digits=3))
