# %% [markdown]
# # Suitability over time
#
# How does one notice that a model is no longer suitable, if data keep arriving and only a few are
# labeled, months later?
#
# **Answer.** By an alarm from estimates that labels of a few random rows correct: in the median it
# comes {value}`suitability_time.uniform_delay:.0f` months after the drop.
#
# ```{result} watch
# ```
#
# Below the dashed line the model is no longer suitable, and an alarm should come soon after. This
# is one of many simulated streams.
#
# **Do this.** Have some rows labeled each month, drawn at random. Give these, and the estimates of
# all rows, to {py:obj}`~lib.suitability.ActiveMonitor`. After an alarm, label more of the rows that
# follow, and decide by those. [More](#what-to-do).
#
# ```{margin}
# **The alarm** takes the filter's estimates for all rows, and corrects them where there is a label.
# Its error rate holds however wrong the estimates are. It comes only slightly sooner than one from
# labels alone, and choosing which rows to label hardly pays here.
# ```
#
# ## What holds, and what does not
#
# - *Holds.* Estimates and labels of random rows together caught the drop in
#   {value}`suitability_time.uniform_caught:.0%` of the streams. In most of them a first year
#   slightly beyond the margin passes unnoticed; the second is far beyond.
# - *Holds.* False alarms were rare, in {value}`suitability_time.uniform_false:.1%` of the streams.
# - *Caution.* The median alarm came {value}`suitability_time.uniform_delay:.0f` months after the
#   drop. Labels alone took {value}`suitability_time.labels_delay:.0f` months.
# - *Does not hold.* Choosing which rows to label hardly pays here. For equal precision
#   {value}`suitability_time.chosen_ratio:.0%` of the labels are needed. The median alarm comes
#   after {value}`suitability_time.active_delay:.0f` months.
# - *Holds, in a simulation* whose estimates are right, and nearly all close to 0 or 1. There a
#   model that is right in {value}`suitability_time.high:.0%` of all cases needs
#   {value}`suitability_time.high_ratio:.0%` of the labels; vaguer estimates gain less.
# - *Caution.* Of the monitors, that of estimates alone was the fastest here, as it waits for no
#   label. But nothing bounds its error: the estimates overstate the accuracy of the last year by
#   {value}`suitability_time.overstated:.3f`.
# - *Caution.* CBPE at the same margin raises a false alarm in
#   {value}`suitability_time.cbpe_false:.0%` of the streams. By nannyml's own rule it notices the
#   drop in {value}`suitability_time.rule_caught:.0%`.
# - *Caution.* A drift test does not ask about accuracy. KSDrift raises an alarm in
#   {value}`suitability_time.ks_false:.1f` of {value}`suitability_time.good_months:.0f` suitable
#   months.
#
# ## What to do
#
# - Choose rows by doubt ({py:obj}`lib.suitability.labelling_probabilities`; by strata if the test
#   data are labeled) if the model is nearly always right and its estimates say where not. Never
#   label only the doubtful rows: keep the floor.
# - {py:obj}`lib.suitability.active_accuracy` gives an interval that is valid even with ten labels.

# %% tags=["parameters"]
model_seeds: list[int] = [0, 1, 2]  # {0, 1, 2} seeds of the authors' ERM models
streams: int = 15  # [2, 1000] draws of the months and of the labels for each model
margin: float = 0.03  # (0, 1) largest acceptable drop in accuracy, m in Definition 3.1
rate: float = 0.1  # (0, 1] fraction of rows that are labeled
deciding_rate: float = 0.4  # (0, 1] the same after an alarm
floor: float = 0.5  # (0, 1] no row is labeled with less than so much of its rate
lag: int = 3  # [0, 24] months until labels come
months: int = 12  # [1, 12] in a year
false_every: int = 120  # [1, 10000] months between false alarms, on average and at least
alpha: float = 0.05  # (0, 0.5) of intervals and decisions
repetitions: int = 1000  # [100, 100000] repetitions of each simulation
seed: int = 0  # [0, 4294967295] seed of all draws

# %%
from lib.book.session import open_chapter

chapter = open_chapter("suitability_time", globals())

import numpy as np
import pandas as pd

from lib import suitability
from lib.runs import stored_table
from lib.studies.beyond import time_figures
from lib.studies.beyond import watch as studies
from lib.studies.beyond.skill import confidence_skill
from lib.studies.suitability.alarms import active_errors, simulate_alarms, simulate_monitoring
from lib.studies.suitability.opening import TITLES, find_data
from lib.studies.suitability.simulations import sequential_errors
from lib.studies.suitability.study_runs import load_study

main, _, notes = find_data(["fmow"], model_seeds)
title = TITLES[main]
chapter.note(notes[0])
plan = studies.Plan(margin, false_every, rate, deciding_rate, floor, lag, months, alpha, seed)
rng = np.random.default_rng(seed)

# %% [markdown]
# ## The idea
#
# The filter's estimates say something about every row, but nobody knows how wrong they are. Labels
# tell the truth about a few. So take the estimates for all rows, and correct them where there is a
# label. The result is right on average however wrong the estimates are, and varies less than the
# labels alone. A test that allows looking every month can monitor it. An alarm every other month
# will be switched off; one that never comes is worse.
#
# ## A row, with its label or without
#
# Let $f$ be the estimated correctness of a row, and $y$ its correctness. The row is labeled with
# probability $\pi$, and $\xi = 1$ if it is. Then
#
# $$
# x = f + \frac{\xi}{\pi} (y - f)
# $$ (eq-active-row)
#
# has the mean of $y$ whatever $f$ is: a {term}`prediction-powered` estimate, *active* if $\pi$
# depends on the row {cite}`zrnic2024active`. For a given number of labels it varies least with $\pi
# \propto \sqrt{E[(y - f)^2 \mid f]}$, which for calibrated estimates is $\sqrt{f(1 - f)}$. No $\pi$
# is below a floor fixed beforehand, so $x$ is bounded. On bounded observations one can bet, without
# a normal approximation:
#
# ```python
# import numpy as np
# from lib.suitability import ActiveMonitor
# rng, p = np.random.default_rng(0), np.full(1000, 0.1)  # how likely each row is to be labeled
# monitor = ActiveMonitor(0.85, least_probability=0.1)
# for month in range(12):
#     estimates, chosen = rng.beta(9, 1, 1000), rng.random(1000) < p
#     correct = rng.random(chosen.sum()) < 0.9 - 0.02 * month  # what their labels say
#     print(monitor.update(estimates, chosen, correct, p))
# ```
#
# While it *watches*, an {term}`e-detector` takes the rows. As long as the accuracy is at least that
# of the test data less the margin, an alarm takes at least a chosen number of rows on average.
#
# An alarm is a reason to look, not a verdict: the months before it were selected for being bad. So
# the monitor then *decides* by the rows that follow, of which more are labeled. It has two
# e-processes, one against SUITABLE and one against UNSUITABLE. Both assume independent rows, or
# that accuracy given all earlier rows.
#
# ## The years of FMoW
#
# The authors' signals cover 2002 to 2017. Up to 2012 they are in distribution: one half of these
# fits the estimator, the other is the test data. The model is in use from 2013 on.
#
# ```{margin}
# **Months.** The files have only years, so "months" are equal random parts of a year. Without these
# files, increasingly rotated digits stand in for them.
# ```

# %%
deployed = {s: studies.Deployment(load_study(main, seed=s), plan, rng) for s in model_seeds}
first = deployed[model_seeds[0]]
truth = first.truth()

# %%
chapter.table(
    truth,
    "periods",
    f"{title}, first model: rows, true and estimated accuracy, and whether the drop is within "
    f"{margin:g}",
    {"rows": ",", "accuracy": ".3f", "estimated": ".3f"},
    aside=True,
)

# %%
drawn = studies.one_draw(first, rng)

# %% [markdown]
# ## Against CBPE and alibi-detect
#
# All methods see the same months.
#
# | method | alarm |
# |---|---|
# | chosen labels, random labels | the monitor above, with $\pi$ by doubt and with equal $\pi$ |
# | labels alone, estimates alone | {py:obj}`lib.suitability.Monitor` |
# | {term}`CBPE`, our margin | the mean calibrated confidence falls below the same margin |
# | CBPE, its own rule | it leaves three standard deviations of ten reference chunks' accuracy |
# | FETDrift | Fisher's exact test of a month's labels against the test data's, at 5% |
# | KSDrift | Kolmogorov-Smirnov, each signal, Bonferroni's correction, at 5% a month |
# | FETDriftOnline, CVMDriftOnline | for streams: the last labels, or estimates, against those |
#
# The first four have at most one false alarm in {value}`suitability_time.years:.0f` years on
# average; for *estimates alone* that holds only while the estimates are right. CBPE is calibrated
# on the test data; its own rule is nannyml's. The last four are alibi-detect's. After each label,
# or the estimates of as many rows, its stream detectors compare the last
# {value}`suitability_time.short` and {value}`suitability_time.long` with the test data. These are
# those of a month and of half a year on average. After an alarm we restart the detectors.
#
# ```{margin}
# **Thresholds.** Without a change the stream detectors have the monitor's expected run time, up to
# {value}`suitability_time.threshold_error:.0%` (the standard error is at most that). Thresholds are
# quantiles of simulated streams, {value}`suitability_time.simulated` for each label of that run
# time.
#
# **Our own code.** alibi-detect 0.13 requires NumPy 1, nannyml 0.13 an AutoML package. A test runs
# both packages' code beside ours where it can be imported: all agree except for rounding and the
# simulation.
# ```

# %%
found = pd.concat(
    [studies.compare(one, streams, rng).assign(seed=s) for s, one in deployed.items()]
)
methods = studies.summary(found)
chapter.table(
    methods.drop(columns=["decided", "wrong"]).rename(index=studies.METHODS).reset_index(),
    "methods",
    f"{title}, {len(model_seeds)} models, {streams} streams each: false alarms a stream, streams "
    "with one, streams whose drop was caught; median months until then, and labels",
    {"false alarms": ".2f", "labels": ",.0f", "delay": ".0f"}
    | dict.fromkeys(["streams with one", "caught"], ".2f"),
)

# %%
chapter.drawn(time_figures.draw_methods)

# %%
if first.every > 1:
    chapter.note(f"Detectors for streams see one of {first.every} labels: more take too long.")
calm = np.random.default_rng(seed)
harmless = pd.concat([studies.harmless(d, repetitions // 10, calm) for d in deployed.values()])
harmless = harmless.groupby(level=0, sort=False).mean()
chapter.table(
    harmless.rename(index=studies.METHODS).reset_index(),
    "harmless",
    f"Streams of {months * len(first.periods)} months that are suitable all along: how many have "
    "an alarm where nothing changes, and at exactly the least accuracy",
    dict.fromkeys(harmless.columns, ".2f"),
    aside=True,
)

# %%
active, alone, uniform = (methods.loc[name] for name in ("active", "labels", "uniform"))
chapter.table(
    studies.draw_table(first, drawn),
    "draw",
    "One stream, a row a month: the accuracy, what each year's labels say, and the alarm",
    dict.fromkeys(["accuracy", "estimated", "low", "high", "least"], ".3f"),
    aside=True,
)
chapter.drawn(time_figures.draw_watch)

# %%
online = methods.loc[["fet_online", "cvm_online"]]
calm = harmless.loc[["labels", *online.index]]
good_months = months * np.mean([d.truth()["suitable"].sum() for d in deployed.values()])
chapter.values(
    active_false=active["streams with one"],
    active_delay=active["delay"],
    decided=uniform["decided"],
    wrong=uniform["wrong"],
    uniform_false=uniform["streams with one"],
    uniform_caught=uniform["caught"],
    uniform_delay=uniform["delay"],
    labels_delay=alone["delay"],
    cbpe_false=methods.loc["cbpe", "streams with one"],
    rule_caught=methods.loc["cbpe_alert", "caught"],
    ks_false=methods.loc["ks", "false alarms"],
    good_months=good_months,
    fet_false=online["streams with one"].iloc[0],
    fet_delay=online["delay"].iloc[0],
    cvm_false=online["streams with one"].iloc[1],
    cvm_delay=online["delay"].iloc[1],
    labels_calm=calm["no change"].iloc[0],
    fet_calm=calm["no change"].iloc[1],
    cvm_calm=calm["no change"].iloc[2],
    labels_least=calm["least accuracy"].iloc[0],
    fet_least=calm["least accuracy"].iloc[1],
    short=first.windows[0],
    long=first.windows[1],
    ert=first.ert / first.every,
    simulated=studies.SIMULATED,
    threshold_error=first.threshold_error,
    comparisons=first.ert
    / first.every
    * (len(first.test[1]) + 2 * first.windows[-1] - 1) ** 2
    / 1e12,
    most_alarms=min(months * len(first.periods) / false_every, 1),
    years=false_every / 12,
    overstated=truth["estimated"].iloc[-1] - truth["accuracy"].iloc[-1],
)

# %% [markdown]
# Delays are counted from the month in which the last suitable period ended. They include the
# {value}`suitability_time.lag` months by which labels are late. Fast methods pay with false alarms,
# since the first drop is hardly beyond the margin. With random rows the median verdict of
# UNSUITABLE came {value}`suitability_time.decided:.0f` months after the drop. It came for suitable
# data in {value}`suitability_time.wrong:.1%` of the streams.
#
# The stream detectors are fast. FETDriftOnline noticed the drop after
# {value}`suitability_time.fet_delay:.0f` months, with false alarms in
# {value}`suitability_time.fet_false:.0%` of the streams. CVMDriftOnline took
# {value}`suitability_time.cvm_delay:.0f` months, with false alarms in
# {value}`suitability_time.cvm_false:.0%`. But they have no margin, and an expected run time is a
# mean: it does not bound the probability of an alarm in a stream.
#
# Nor does it hold unless nothing changes. Where nothing did, FETDriftOnline raised an alarm in
# {value}`suitability_time.fet_calm:.0%` of the streams and CVMDriftOnline in
# {value}`suitability_time.cvm_calm:.0%`. Labels alone did in
# {value}`suitability_time.labels_calm:.0%`. At exactly the lowest suitable accuracy it was
# {value}`suitability_time.fet_least:.0%` for FETDriftOnline, and
# {value}`suitability_time.labels_least:.0%` for labels alone. There theory also bounds the
# probability, by {value}`suitability_time.most_alarms:.0%` for streams as long as these.
#
# ## Does choosing rows pay?
#
# The table has the variance that each label contributes, for equally many labels. They are used
# alone, or with estimates: drawn at random, by strata, or by the estimate's doubt.
#
# ```{margin}
# **Strata** are ten quantiles of the estimate, with Neyman's allocation by the errors seen on the
# test data {cite}`fisch2024stratified`.
# ```

# %%
values = studies.label_values(first)
chapter.table(
    values,
    "label_values",
    f"{title}, first model: variance by one label; the smaller, the fewer labels are needed",
    dict.fromkeys(values.columns.drop("period"), ".3f"),
    aside=True,
)

# %%
gains = studies.gain_by_accuracy([0.6, 0.8, 0.9, 0.95, 0.99], floor, rng)
chapter.table(
    gains,
    "gains",
    "Labels needed over those with estimates and random labels, by accuracy, in a population "
    "whose estimates are right",
    dict.fromkeys(["labels alone", "chosen"], ".2f") | {"accuracy": "g"},
    aside=True,
)
chapter.values(
    lag=lag,
    chosen_ratio=(values["doubt"] / values["random"]).iloc[1:].mean(),
    estimate_ratio=(values["random"] / values["labels alone"]).iloc[1:].mean(),
    high=gains["accuracy"].iloc[-2],
    high_ratio=gains["chosen"].iloc[-2],
)

# %% [markdown]
# The estimates themselves save more than choosing does: with them, random sampling needs only
# {value}`suitability_time.estimate_ratio:.0%` of the labels. At an accuracy like this doubt is
# nearly everywhere, and $\sqrt{f(1 - f)}$ nearly constant. And a small $\pi$ has a price: $x$ may
# be larger, so bets must be smaller.
#
# ## Do the levels hold?
#
# The table tests {py:obj}`lib.suitability.active_accuracy`, and the monitor at exactly the lowest
# suitable accuracy, with 300 rows of which a tenth is labeled. Each should err in at most 5%.
# Alarms count within a twentieth of the run length, where Doob's inequality allows 5%.

# %%
levels = stored_table(
    active_errors, 300, 0.1, repetitions=max(repetitions // 5, 20), rng=np.random.default_rng(seed)
)
chapter.table(
    levels,
    "levels",
    "Rates of error by what the estimates are: interval by betting and by the normal limit, false "
    "alarm, and false decisions",
    dict.fromkeys(levels.columns.drop("estimates"), ".3f"),
    aside=True,
)
chapter.values(normal_worst=levels["normal interval"].max(), betting_worst=levels["interval"].max())

# %% [markdown]
# Betting errs in at most {value}`suitability_time.betting_worst:.1%`. The normal interval of
# {cite}`zrnic2024active` misses in up to {value}`suitability_time.normal_worst:.0%` where errors
# are rare: a sample without errors has a variance of 0. The price is width: where the normal
# interval would do, betting's is wider.
#
# ## How soon, by the size of the drop?
#
# How soon does {py:obj}`lib.suitability.Monitor` notice a drop, after 1,000 suitable observations?

# %%
alarms = pd.concat(
    [
        stored_table(
            simulate_alarms,
            (0.0, 0.02, 0.05, 0.1, 0.6), margin=0.0, run_length=10_000, labels=watched,
            longest=50_000, repetitions=max(repetitions // 25, 5),
            rng=np.random.default_rng(seed),
        ).assign(watched="labels" if watched else "estimates")
        for watched in (False, True)
    ]
)  # fmt: skip

# %%
chapter.table(
    alarms[["watched", "drop", "early", "detected", "delay", "latest"]],
    "alarms",
    "Alarms with a mean of at least 10,000 observations until a false one, 5,000 test data, margin "
    "0: median and longest delay in observations (50,000: none seen)",
    {"drop": "g", "delay": ",.0f", "latest": ","} | dict.fromkeys(["early", "detected"], ".2f"),
    aside=True,
)

# %% [markdown]
# A small drop takes hundreds of estimates, or thousands of labels, which vary more.
#
# ## What is no alarm
#
# The paper proposes Benjamini and Hochberg's procedure over a rolling window of batches, each of
# which may be suitable or not (A.3.2).

# %%
windows = simulate_monitoring(
    (1, 8, 20, None), share_unsuitable=0.9, repetitions=max(repetitions // 5, 20), rng=rng
)
chapter.table(
    windows.assign(window=windows["window"].astype(object).fillna("all")),
    "monitoring",
    "False discovery rate of decisions as batches arrive, nine in ten exactly at the margin; level "
    "0.05",
    dict.fromkeys(windows.columns.drop("window"), ".3f"),
    aside=True,
)
chapter.values(newest_fdr=windows["fdr"].iloc[0], longest_fdr=windows["fdr"].iloc[-1])

# %% [markdown]
# The procedure controls the false discovery rate of one family that is judged once. Repeated with
# each batch it does not keep that rate. Where nine of ten batches are at the margin, the rate is
# {value}`suitability_time.longest_fdr:.2f` with all batches in the window, and
# {value}`suitability_time.newest_fdr:.2f` with only the newest. And a test that has once accepted
# is no alarm: an e-process ({py:obj}`lib.suitability.EProcess`) that said SUITABLE still says so
# after the accuracy has collapsed.

# %% [markdown]
# ## Looking more than once
#
# Testing accumulating data five times at 5% inflates the error rate, to
# {value}`suitability_time.uncorrected:.0%` in the simulation below. The boundaries of Pocock and of
# O'Brien and Fleming keep the level (A.3.3). An {term}`e-process` {cite}`waudby2024estimating`
# needs no plan: one may look after every sample and stop at will.
#
# ```{margin}
# **The boundaries** are computed by numerical integration, and agree with published tables, such as
# 2.413 and $2.040\sqrt{5/k}$ for five looks, two-sided 5%. Our text of the paper has lost its
# formulas, so they are not checked.
# ```

# %%
designs = {
    kind: suitability.SequentialDesign(5, 0.05, kind, sides=2)
    for kind in ("pocock", "obrien-fleming")
}
chapter.check("P2-A33-pocock", designs["pocock"].critical[0])
_ = chapter.check("P2-A33-obrien-fleming", designs["obrien-fleming"].critical[-1])

# %%
sequential = sequential_errors(
    [0.05, 0.02], repetitions=repetitions, rng=np.random.default_rng([seed, 1])
)
errors_of = sequential[sequential["drop"] == 0.05].set_index("procedure")
power_of = sequential[sequential["drop"] == 0.02].set_index("procedure")
chapter.table(
    errors_of[["rate", "low", "high"]]
    .assign(power=power_of["rate"], mean_n=power_of["mean_n"])
    .reset_index(),
    "sequential",
    f"Up to five batches of 200, margin 0.05, {repetitions:,} repetitions: type-I error at the "
    "margin with its 95% interval; power and mean number of user samples at a drop of 0.02",
    dict.fromkeys(["rate", "low", "high", "power"], ".3f") | {"mean_n": ".0f"},
)
chapter.drawn(time_figures.draw_looks)

# %%
chapter.values(uncorrected=errors_of.loc["uncorrected", "rate"])

# %% [markdown]
# ## Whose estimate is better?
#
# Labels also say which of two estimates to trust: the filter's, or the model's own confidence.
# Winkler's skill score compares forecasts row by row
# ({py:obj}`lib.counterfactual.forecasts.winkler_score`): it is at most 1, and on average below 0
# where the confidence is worse. A one-sided e-process
# ({py:obj}`lib.counterfactual.forecasts.one_sided_e_process`) monitors the monthly means, here with
# all labels of a month. Where labels come late, months that are {value}`suitability_time.lag` apart
# form a sequence of their own, and each sequence must show it.
#
# ```{margin}
# P4's talk names these as its authors' further work.
# ```

# %%
skill = confidence_skill(first, np.random.default_rng([seed, 2]))
chapter.values(skill=skill["skill"].mean())
decided = skill.loc[skill["evidence"] >= 1 / alpha, "month"]
late = skill.loc[skill["p, late"] <= alpha, "month"]

# %%
chapter.values(
    skill_month=int(decided.min()) if len(decided) else 0,
    skill_late=int(late.min()) if len(late) else 0,
    skill_months=len(skill),
)

# %% [markdown]
# The mean skill of the confidence, against the filter's estimate, is
# {value}`suitability_time.skill:.2f`. With labels at once it takes
# {value}`suitability_time.skill_month` of {value}`suitability_time.skill_months` months to show
# that the confidence is worse. With late labels it takes {value}`suitability_time.skill_late`
# (0: it is not shown). That costs more than the lag, since several sequences must agree where one
# would do.
#
# ## What this page leaves out
#
# - Real months. The order of rows within a year is random, so nothing drifts within a year.
# - Late labels are assumed to come whatever they say. If wrong predictions are looked at first, no
#   method here holds.
# - CVMDriftOnline on every row, MMDDriftOnline and LSDDDriftOnline. Thresholds take more simulated
#   streams than the run time has values. For the {value}`suitability_time.ert:,.0f` here
#   alibi-detect's CVMDriftOnline makes at least {value}`suitability_time.comparisons:.2g` times
#   $10^{12}$ comparisons.
# - After an alarm the accuracy is assumed constant. It may recover while the monitor decides.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Change the drop, which comes after a
# year, and watch in how many months the monitor is in which state.

# %% tags=["try-it"]
import numpy as np

from lib.suitability import ActiveMonitor

drop, rng, said = 0.15, np.random.default_rng(0), []
monitor, p = ActiveMonitor(0.85, least_probability=0.1), np.full(1000, 0.1)
for month in range(36):
    chosen, right = rng.random(1000) < 0.1, rng.random(1000) < 0.9 - drop * (month >= 12)
    said.append(monitor.update(rng.beta(9, 1, 1000), chosen, right[chosen], p).state)
print({state: said.count(state) for state in ("watching", "deciding", "unsuitable")})

# %% [markdown]
# 1. After how many labels is accuracy shown to be above a threshold, if you may look after each?
#
#    :::{dropdown} Solution
#    The smaller the distance, the more labels. The evidence is the capital of a bet, so one may
#    watch it: if accuracy is not above the threshold, at most one in twenty streams ever
#    reaches 20.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.suitability import EProcess

right = np.random.default_rng(0).random(5000) < 0.85
for threshold in (0.7, 0.75, 0.8):
    evidence = EProcess(threshold)
    n = next(i for i, x in enumerate(right, 1) if evidence.update([x]) >= 20)
    print(f"at least {threshold:g}: shown after {n:,} labels")

# %% [markdown]
# 2. Label fewer rows. How does the interval widen?
#
#    :::{dropdown} Solution
#    About as one over the square root of the fraction. Here all estimates are the same, so they
#    help little; the better they tell right from wrong, the fewer labels are needed. A thirtieth,
#    here about 165 labels, shows only a large drop.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.suitability import active_accuracy

rng, said = np.random.default_rng(0), np.full(5000, 0.85)
right = rng.random(5000) < said
for rate in (1.0, 0.1, 0.033):
    chosen, p = rng.random(5000) < rate, np.full(5000, rate)
    _, (low, high) = active_accuracy(said, chosen, right[chosen], p, least_probability=rate)
    print(f"labels of {rate:.1%}: between {low:.3f} and {high:.3f}")

# %% [markdown]
# 3. Which row is labeled more often: one that the model is sure of, or a doubtful one?
#
#    :::{dropdown} Solution
#    The doubtful one, and the more so the lower the floor. A floor of 1 gives all an equal chance.
#    The floor keeps every row's chance away from 0: weights stay bounded, and confidently wrong
#    estimates are noticed.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.suitability import labelling_probabilities

reference = np.random.default_rng(0).beta(8, 2, 2000)
for floor in (0.1, 0.5, 1.0):
    chances = labelling_probabilities([0.5, 0.9, 0.99], 0.1, reference, floor=floor)
    print(f"floor {floor:g}:", chances.round(3).tolist())

# %% [markdown]
# Rerun:
# ```sh
# papermill book/beyond/suitability_time.py out.ipynb -f params/quick/suitability_time.yml \
#     -p lag 0
# ```
#
# ## Further pages
#
# - [Suitability filters](../suitability.py): the test that needs no labels.
# - [What the guarantee is worth](../suitability_guarantee.py): labels, samples and cheats.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers())
