# %% [markdown]
# # The Bayesian DP audit: how private is it really?
#
# An {term}`audit` attacks many models, trained with or without a certain record: how far can one
# rely on its lower bound on the privacy loss $\epsilon$?
#
# **Answer.** Not at all if it is the largest over many thresholds, which is partly luck: the
# largest Bayesian bound is above the truth in up to {value}`audit.best_bayesian:.0%` of the audits.
#
# ```{result} selection
# ```
#
# Dots well to the right of the dotted line err too often.
#
# **Do this.** Choose the threshold on other training runs
# ({py:obj}`~lib.audit.held_out_lower_bound`), or pay for the choice
# ({py:obj}`~lib.audit.union_lower_bound`). Report a one-sided {term}`Clopper-Pearson` bound
# ([step by step](#what-to-do)).
#
# ## What holds, and what does not
#
# - *Holds.* The posterior of $\epsilon$ is one integral. Given the same counts, its interval is the
#   narrowest at all that we tried.
# - *Holds.* Where the two error rates differ, the lower bound has about the coverage that it
#   promises: {value}`audit.bayesian_example:.0%` for {value}`audit.level:.0%` in P3's worked
#   example.
# - *Caution.* Where both error rates are equal, the Bayesian bound errs too often even at a fixed
#   threshold, here with {value}`audit.most_trials:,` trials. At a nominal
#   {value}`audit.level:.0%` it holds in {value}`audit.bayesian_equal:.0%` of the audits at small
#   rates. At those of P3's Figure 4 it holds in {value}`audit.bayesian_equal_most:.0%`.
# - *Caution.* Near $\epsilon = 0$ the Bayesian bound is too high even at a fixed threshold. At 0 it
#   never holds where $\delta$ is tiny, since the posterior has hardly any mass there. A small
#   positive bound is no evidence against perfect privacy.
# - *Caution.* The largest of many bounds is not a bound. The Bayesian one errs far more often than
#   the {value}`audit.allowed:.0%` that the level allows. Clopper-Pearson's errs in
#   {value}`audit.best_cp:.0%` here, but nothing guarantees that.
# - *Two slips.* P3's footnote on the minimum over a rectangle does not hold. The 96.3% and 99.8%
#   that it gives for Jeffreys' rectangle belong to Clopper-Pearson's.
#
# ## What to do
#
# ```{list-table} Which audit, and when
# :header-rows: 1
#
# * - You can
#   - Audit
#   - What it takes, and what it shows
# * - read the steps of your own training
#   - one run from inside, with gradient canaries
#     ({doc}`lib.audit.white_box </reference/white_box>`)
#   - It costs a run and shows the most. Its tests of single steps and of the mechanism's form find
#     mistakes in noise, clipping and sampling.
# * - retrain, but only see models
#   - many models, each with or without one record
#   - It needs no hypothesis about the training, but thousands of models to refute a large claim.
# * - only see one model
#   - canaries that were put in beforehand by secret coins ({py:obj}`lib.audit.one_run_epsilon`)
#   - It gives a bound, and a small one. Without such canaries there is none.
# ```
#
# 1. *Design.* Let fair coins that the attack does not see decide who is a member.
#    {py:obj}`lib.audit.trials_needed` says how many training runs an error-free attack needs to
#    refute a claim. Real attacks need many times more ([how many](audit_trainings.py)).
# 2. *Check the audit.* Run it on a training run with a planted mistake. An audit that misses gross
#    mistakes proves nothing ([how](audit_trainings.py)).
# 3. *Report* the corrected bound. Show the Bayesian interval as a description.
# 4. *Where labels alone are private,* guess each canary's label outright:
#    {py:obj}`lib.audit.top_label_bound` ([why](canaries.py)).
# 5. *A bound of 0* does not show that the model is private. Say which $\epsilon$ the audit could
#    have detected: {py:obj}`lib.audit.error_free_bound` gives the most that so many trials can
#    show.

# %% tags=["parameters"]
delta: float = 1e-5  # (0, 1) of all guarantees and audits
level: float = 0.9  # (0, 1) of intervals
coverage_trials: list[int] = [100, 1000]  # [4, 10000] trials in the study of coverage
selection_trials: int = 256  # [8, 10000] trials in the study of thresholds
selection_repetitions: int = 400  # [10, 1000000] audits in the study of thresholds
seed: int = 0  # [0, 1000000] of data, models and coins

# %%
from lib.book.session import open_chapter

chapter = open_chapter("audit", globals())

import math

from lib import audit
from lib.audit.counts import rate_interval
from lib.book import interactive
from lib.runs import stored_table
from lib.studies.audit import figures
from lib.studies.audit import tables as studies

chapter.note("Data: counts printed in P3, and simulated trials.")

# %% [markdown]
# ## The idea
#
# ```{drawing} p3-game
# ```
#
# An {term}`accountant` proves an *upper* bound on $\epsilon$. An audit attacks the trained models
# and shows a *lower* one: no mechanism with a smaller $\epsilon$ would let the attack succeed so
# often. P3 {cite}`zanella2023bayesian` computes a posterior for $\epsilon$ from the attack's
# errors, instead of two separate confidence intervals. Its system also chooses the points to
# attack, trains the models and attacks them ([the next page](audit_trainings.py)).
#
# ## Differential privacy as a limit on tests
#
# Someone who sees the model guesses whether the {term}`challenge point` was in the training set. A
# *false positive* (FP) says "in" although it was out, a *false negative* (FN) "out" although it was
# in. Training is $(\epsilon, \delta)$-private (Eq. {eq}`eq-dp`) exactly if *every* such test has
#
# $$
# \begin{aligned}
# \mathrm{FPR} + e^\epsilon\, \mathrm{FNR} &\ge 1 - \delta , \\
# \mathrm{FNR} + e^\epsilon\, \mathrm{FPR} &\ge 1 - \delta ,
# \end{aligned}
# $$ (eq-region)
#
# and the same for one minus the rates: the pair lies in the {term}`privacy region`. So a pair of
# error rates outside the region of $\epsilon$ refutes $\epsilon$, and
#
# $$
# \hat\epsilon = \max\Bigl\{0, \log\frac{1 - \delta - \mathrm{FPR}}{\mathrm{FNR}},
#    \log\frac{1 - \delta - \mathrm{FNR}}{\mathrm{FPR}}\Bigr\}
# $$ (eq-epsilon-hat)
#
# is the smallest that it does not refute (for attacks better than chance).
#
# ## From counts to an interval
#
# The rates are unknown: an attack is tried a few hundred times, and its errors are counted. Three
# methods turn the four counts into an interval:
#
# - **{term}`Clopper-Pearson`** and **{term}`Jeffreys`**: an interval for each rate at half the
#   error probability, then the least and the largest $\epsilon$ over the rectangle.
# - **{term}`Bayesian <credible interval>`** (P3): each rate has a Jeffreys prior,
#   $\mathrm{Beta}(\frac12, \frac12)$. So the posterior of the FNR is
#   $\mathrm{Beta}(\mathrm{FN} + \frac12, \mathrm{TP} + \frac12)$, that of the FPR
#   $\mathrm{Beta}(\mathrm{FP} + \frac12, \mathrm{TN} + \frac12)$. The posterior probability of the
#   privacy region of $\epsilon$ is the distribution function of $\epsilon$; its quantiles are the
#   interval.
#
# The paper integrates over the region numerically in two dimensions. One is enough: with $I$ the
# distribution function of the FPR's posterior and $[\mathrm{lo}_\epsilon, \mathrm{hi}_\epsilon]$
# the bounds that Eq. {eq}`eq-region` sets to the FPR at a given FNR,
#
# $$
# F(\epsilon) = \mathrm{E}_{\mathrm{FNR}}\bigl[ I(\mathrm{hi}_\epsilon(\mathrm{FNR}))
#   - I(\mathrm{lo}_\epsilon(\mathrm{FNR})) \bigr] .
# $$ (eq-posterior)

# %%
example = audit.AttackCounts(tp=65, fp=25, tn=75, fn=35)
table = studies.interval_table({"P3's example": example}, 0.05, 0.95)
chapter.table(
    table,
    "example",
    "P3's example: FN, TP, FP, TN = 35, 65, 25, 75, delta = 0.05, level 95%",
    {**dict.fromkeys(["low", "high", "width"], ".4f"), "against Clopper-Pearson": "+.0%"},
)

# %%
for method in audit.METHODS:
    row = table.set_index("method").loc[method]
    chapter.check(f"P3-S3-example-{method}-low", row["low"])
    chapter.check(f"P3-S3-example-{method}-high", row["high"])

# %% [markdown]
# ## P3's numbers, one by one

# %%
chapter.figure(
    figures.plot_privacy_regions([0.5, 1.0, 3.0], 0.05),
    "regions",
    alt="Nested lens-shaped regions around the falling diagonal of the unit square.",
    caption="Figure 2 of P3: privacy regions for delta = 0.05. They grow with epsilon.",
    theory=True,
)

# %%
perfect = audit.AttackCounts(tp=1000, fp=0, tn=1000, fn=0)
for claim, method, side in (
    ("P3-S3-perfect-cp-two-sided", "clopper-pearson", "two-sided"),
    ("P3-S3-perfect-cp-one-sided", "clopper-pearson", "lower"),
    ("P3-S3-perfect-jeffreys", "jeffreys", "lower"),
):
    chapter.check(claim, audit.epsilon_interval(perfect, 1e-5, 0.9, method, side)[0])

# %% [markdown]
# ### A footnote that does not hold
#
# P3 warns (footnote 1) of the counts TP 90, FP 0, TN 100 and FN 10. The smallest $\epsilon$ over
# the Clopper-Pearson rectangle, it says, is not at the far corner but 1.736, at a point with FPR
# = 0. That value comes from one of the two logarithms alone; the other is infinite there. A test
# that never errs on one side, and on the other in fewer than $1 - \delta$ of the cases, is outside
# *every* privacy region of finite $\epsilon$. So it cannot have the minimum. By the definition
# through regions the minimum is at the corner.

# %%
footnote = audit.AttackCounts(tp=90, fp=0, tn=100, fn=10)
smallest = audit.epsilon_interval(footnote, 1e-5, 0.9, "clopper-pearson")[0]
fnr_end = rate_interval(footnote.fn, footnote.positives, (1 - 0.9) / 4, "clopper-pearson")[1]
chapter.check("P3-S2-corner", smallest)
chapter.check("P3-S2-footnote", smallest)
chapter.values(
    corner=smallest,
    one_term=math.log((1 - 1e-5) / fnr_end),
    fnr_end=fnr_end,
    inside="Yes" if audit.privacy_region(smallest, 1e-5).contains(0.0, fnr_end) else "No",
)

# %% [markdown]
# The corner gives {value}`audit.corner:.3f`. The single term gives {value}`audit.one_term:.3f`, the
# number printed. Its point has FPR 0 and FNR {value}`audit.fnr_end:.3f`. Is that point in the
# privacy region of the corner's $\epsilon$? {value}`audit.inside`.
#
# ### What the rectangle holds
#
# P3 illustrates why rectangles are wasteful: the Jeffreys rectangle has 96.3% of the posterior, the
# area between the two regions that enclose it 99.8%.

# %%
masses = {
    m: (studies.rectangle_mass(example, 0.95, m), studies.enclosed_mass(example, 0.05, 0.95, m))
    for m in ("jeffreys", "clopper-pearson")
}
chapter.check("P3-S3-rectangle-mass", masses["jeffreys"][0])
_ = chapter.check("P3-S3-enclosed-mass", masses["jeffreys"][1])

# %%
chapter.values(
    rectangle_jeffreys=masses["jeffreys"][0],
    enclosed_jeffreys=masses["jeffreys"][1],
    rectangle_cp=masses["clopper-pearson"][0],
    enclosed_cp=masses["clopper-pearson"][1],
)

# %% [markdown]
# The argument holds, but the numbers belong to another rectangle. Two independent Jeffreys
# intervals of 97.5% have $0.975^2 = $ {value}`audit.rectangle_jeffreys:.2%` of the posterior,
# whatever the counts. Here {value}`audit.enclosed_jeffreys:.1%` lies between the regions. The
# printed pair is that of *Clopper-Pearson*: {value}`audit.rectangle_cp:.1%` and
# {value}`audit.enclosed_cp:.1%`.
#
# ### A posterior where intervals fail
#
# ```{margin}
# **The authors' counts** are TP 487, TN 1, FP 512 and FN 0. The limits agree with the printed ones
# within the tolerance of the authors' root search.
# ```
#
# In the authors' counts for their Figure 1 the attack says "in" in all trials but one, and its
# single "out" is right. Clopper-Pearson and Jeffreys say nothing; the posterior says something.

# %%
first = audit.AttackCounts(tp=487, fp=512, tn=1, fn=0)
chapter.figure(
    figures.plot_posterior(first, 1e-5, 0.9, 10.0),
    "posterior",
    alt="A broad density of epsilon between 0 and 8; below it intervals, two of them endless.",
    caption=(
        "Figure 1 of P3: posterior of epsilon from the authors' counts, and 90% intervals by "
        "the three methods; dotted: the accountant's epsilon = 10."
    ),
    theory=True,
)
low, high = audit.epsilon_interval(first, 1e-5, 0.9)

# %%
trivial = [
    m
    for m in ("jeffreys", "clopper-pearson")
    if audit.epsilon_interval(first, 1e-5, 0.9, m) == (0.0, math.inf)
]
chapter.check("P3-F1-low", low)
chapter.check("P3-F1-high", high)
chapter.check("P3-F1-others-trivial", len(trivial))
chapter.values(first_low=low, first_high=high)

# %% [markdown]
# The interval goes from {value}`audit.first_low:.3f` to {value}`audit.first_high:.3f`, nearly all
# of it from the prior. Set TN to 0: an attack that always says "in" gets nearly the same.

# %%
interactive.show(chapter, interactive.epsilon_posterior(first, 1e-5, 0.9))

# %% [markdown]
# ### How the posterior concentrates
#
# With more trials the band between the two regions shrinks. The first picture has two positive and
# two negative trials, one error each, and gives P3's first interval. The others continue with
# trials drawn from an attack with FNR = FPR = 0.35.

# %%
growing = studies.growing_counts(0.35, [4, 40, 400, 4000], seed=0)
chapter.figure(
    figures.plot_convergence(growing, 0.01, 0.95),
    "convergence",
    alt="Four unit squares with shaded bands on both sides of the diagonal, narrower each time.",
    caption="Figure 7 of P3: the joint posterior (gray) and the band of the 95% interval.",
    theory=True,
)

# %%
low, high = audit.epsilon_interval(growing[0], 0.01, 0.95)
chapter.check("P3-F7-low", low)
chapter.check("P3-F7-high", high)
chapter.not_run(
    [claim for panel in "bcd" for claim in chapter.claims(f"P3-F7-{panel}")],
    "P3 does not print the counts of this plot",
)
chapter.values(first_trials_low=low, first_trials_high=high)

# %% [markdown]
# ## How many trials does it take?
#
# An attack has FPR = FNR = 0.4. How many trials make a 90% interval of half-width 0.15?

# %%
needed = studies.trials_needed(0.4, 0.15, delta)
curves = studies.widths_by_trials(0.4, range(50, 2001, 50), delta)
chapter.figure(
    figures.plot_widths(curves, 0.15, float(audit.epsilon_point(0.4, 0.4, delta))),
    "widths",
    alt="Three pairs of curves that approach each other; the Bayesian pair is the narrowest.",
    caption="Figure 4 of P3: interval ends by number of trials; gray: within 0.15 of the truth.",
)
chapter.check("P3-F4-clopper-pearson", needed["clopper-pearson"])
chapter.check("P3-F4-jeffreys", 1 - needed["jeffreys"] / needed["clopper-pearson"])
chapter.check("P3-F4-bayesian", needed["bayesian"])
_ = chapter.check("P3-F4-saving", 1 - needed["bayesian"] / needed["clopper-pearson"])

# %%
chapter.values(
    needed_bayesian=needed["bayesian"],
    needed_jeffreys=needed["jeffreys"],
    needed_cp=needed["clopper-pearson"],
)

# %%
grid = studies.width_grid([round(0.05 * k, 2) for k in range(1, 20)], 1000, delta)
small_rates = [0.002, 0.004, 0.006]
small = studies.width_grid(small_rates, 1000, delta)

# %%
for method, name in (("jeffreys", "jeffreys"), ("clopper-pearson", "cp")):
    column = grid[f"below {method}"]
    chapter.check(f"P3-F5-{name}-least", column.min())
    chapter.check(f"P3-F5-{name}-most", column.max())
_ = chapter.check(
    "P3-F5-narrowest", min(grid["below jeffreys"].min(), grid["below clopper-pearson"].min())
)

# %%
chapter.values(
    small_from=small_rates[0],
    small_to=small_rates[-1],
    jeffreys_least=grid["below jeffreys"].min(),
    jeffreys_most=grid["below jeffreys"].max(),
    cp_narrower_least=grid["below clopper-pearson"].min(),
    cp_narrower_most=grid["below clopper-pearson"].max(),
    small_jeffreys_least=small["below jeffreys"].min(),
    small_jeffreys_most=small["below jeffreys"].max(),
    small_cp_least=small["below clopper-pearson"].min(),
    small_cp_most=small["below clopper-pearson"].max(),
)

# %% [markdown]
# The Bayesian interval needs {value}`audit.needed_bayesian:,` trials. Jeffreys' needs
# {value}`audit.needed_jeffreys:,`, Clopper-Pearson's {value}`audit.needed_cp:,`. Over the whole
# grid the Bayesian interval is the narrowest:
#
# ```{list-table} How much narrower the Bayesian interval is
# :header-rows: 1
#
# * - Error rates
#   - than Jeffreys'
#   - than Clopper-Pearson's
# * - the whole grid
#   - {value}`audit.jeffreys_least:.0%` to {value}`audit.jeffreys_most:.0%`
#   - {value}`audit.cp_narrower_least:.0%` to {value}`audit.cp_narrower_most:.0%`
# * - {value}`audit.small_from` to {value}`audit.small_to`
#   - {value}`audit.small_jeffreys_least:.0%` to {value}`audit.small_jeffreys_most:.0%`
#   - {value}`audit.small_cp_least:.0%` to {value}`audit.small_cp_most:.0%`
# * - as P3 prints
#   - 20% to 32%
#   - 36% to 52%
# ```
#
# P3's numbers are for a range of rates that our copy of its Figure 5 does not show. Ours are
# closest to them where the rates are very small.
#
# ## Are the intervals right?
#
# A narrower interval is better only if it still covers the truth as often as it says. For given
# true error rates the probability of every table of counts is known, so the actual {term}`coverage
# <coverage of an interval>` is a sum, not a simulation. Here it is for the lower bound at
# {value}`audit.level:.0%`, over many kinds of attacks:

# %%
near = 0.49  # almost a coin
rates = [(0.5, 0.5), (near, near), (0.4, 0.4), (0.3, 0.3), (0.2, 0.2), (0.1, 0.1), (0.02, 0.02)]
rates += [(0.3, 0.4), (0.2, 0.3), (0.1, 0.4), (0.1, 0.2), (0.05, 0.5), (0.02, 0.6), (0.02, 0.3)]
covered = stored_table(studies.coverage_table, rates, coverage_trials, delta, level)
chapter.values(level=level)
chapter.table(
    covered,
    "coverage",
    f"Probability that the lower bound ({level:.0%}) is not above the truth",
    {"epsilon": ".3f", **dict.fromkeys(audit.METHODS, ".3f")},
)

# %%
chapter.drawn(figures.draw_coverage)
largest = covered[covered["trials"] == max(coverage_trials)]
unequal = largest[largest["fpr"] != largest["fnr"]]
equal = largest[(largest["fpr"] == largest["fnr"]) & (largest["fpr"] < near)]

# %%
chapter.values(
    most_trials=max(coverage_trials),
    bayesian_typical=unequal["bayesian"].median(),
    bayesian_equal=equal["bayesian"].min(),
    bayesian_equal_most=equal["bayesian"].max(),
    bayesian_example=studies.actual_coverage(0.25, 0.35, 200, 0.05, level)["bayesian"],
    cp_typical=unequal["clopper-pearson"].median(),
    cp_least=largest["clopper-pearson"].min(),
    jeffreys_least_coverage=largest["jeffreys"].min(),
    near=near,
    bayesian_near_zero=covered.loc[covered["fpr"] == near, "bayesian"].min(),
    bayesian_at_zero=covered.loc[covered["epsilon"] == 0, "bayesian"].max(),
)

# %% [markdown]
# Where one of the two logarithms clearly dominates, the paper is right. The Bayesian bound has the
# coverage that it promises: {value}`audit.bayesian_typical:.3f` in the median at
# {value}`audit.most_trials:,` trials. The rectangles are conservative; Clopper-Pearson's coverage
# is {value}`audit.cp_typical:.3f`.
#
# But P3's Figure 4 has equal rates, and there the Bayesian bound covers less. $\epsilon$ is the
# larger of two logarithms, and the larger of two equal ones is overestimated when both are
# estimated with error. So the coverage is {value}`audit.bayesian_equal:.3f` (at the smallest rates)
# to {value}`audit.bayesian_equal_most:.3f`. Jeffreys' rectangle falls to
# {value}`audit.jeffreys_least_coverage:.3f`, Clopper-Pearson's never below
# {value}`audit.cp_least:.3f`.
#
# *Near* $\epsilon = 0$ the number of trials decides. With rates of {value}`audit.near` and the
# fewest trials of the table the Bayesian bound holds in {value}`audit.bayesian_near_zero:.3f` of
# the audits, with many trials far more often. *At* 0 the coverage is
# {value}`audit.bayesian_at_zero:.0%`. With $\delta = $ {value}`audit.delta:g` the posterior has
# hardly any mass there, so its lower bound is always positive.
#
# ## Choosing the best threshold
#
# An attack gives a score, and every threshold on the score is a test. P3 sweeps all $N + 1$
# thresholds and reports the largest lower bound, computed from the same trials that chose it. To
# see how much that matters we audit a mechanism of known $\epsilon$: a Gaussian mechanism with
# sensitivity over noise $\mu$. With the normal distribution function $\Phi$, its optimal attacks
# have the {term}`trade-off function`
#
# $$
# \mathrm{FNR} = \Phi\bigl(\Phi^{-1}(1 - \mathrm{FPR}) - \mu\bigr) .
# $$ (eq-gaussian)
#
# The threshold may be *fixed* in advance, the *best* of all, the best with a *union* bound
# ({term}`Bonferroni` over all thresholds), or chosen on {term}`held-out` trials. With
# $\underline\epsilon_j(\alpha)$ the lower bound at threshold $j$ that fails with probability
# $\alpha$, the best of all and the union bound are
#
# $$
# \max_j \underline\epsilon_j(\alpha) \quad\text{and}\quad
# \max_j \underline\epsilon_j\Bigl(\frac{2 \alpha}{N}\Bigr) .
# $$ (eq-union)
#
# A bound fails if one of two limits does, each with probability $\alpha / 2$, and all thresholds
# together have only $N$ such limits, one for each score.

# %%
selected = stored_table(
    studies.selection_study,
    [0.0, 0.3, 1.0], selection_trials, selection_repetitions, 0.01, level, seed=seed,
)  # fmt: skip

# %%
chapter.table(
    selected,
    "selection",
    f"Lower bounds ({level:.0%}) of a mechanism of known epsilon, and how often they exceed it",
    {"epsilon": ".2f", "median": ".2f", "exceeds": ".3f"},
    aside=True,
)
chapter.drawn(figures.draw_selection)
exceeds = selected.set_index(["method", "choice", "mu"])["exceeds"].sort_index()

# %%
chapter.values(
    best_bayesian=exceeds["bayesian", "best"].max(),
    best_bayesian_03=exceeds["bayesian", "best", 0.3],
    best_cp=exceeds["clopper-pearson", "best"].max(),
    held_bayesian=exceeds["bayesian", "held-out"].max(),
    fixed_bayesian=exceeds["bayesian", "fixed", 0.0],
    safe_cp=max(
        exceeds["clopper-pearson", "union"].max(), exceeds["clopper-pearson", "held-out"].max()
    ),
)

# %% [markdown]
# These bounds are one-sided, and the level allows {value}`audit.allowed:.0%`. P3 takes the lower
# limits of two-sided intervals (its Eq. 4), which allow half of that. There, too, the best Bayesian
# bound errs several times as often as allowed, at small $\epsilon$.
#
# The best Bayesian bound exceeds the truth in up to {value}`audit.best_bayesian:.1%` of the audits,
# at $\mu = 0$.
# There even the bound at a fixed threshold does, in {value}`audit.fixed_bayesian:.0%`: the Bayesian
# bound is too high near $\epsilon = 0$. The best of the sweep by Clopper-Pearson, conservative as
# that is, errs about as often as allowed: in {value}`audit.best_cp:.0%`. Corrected by a union bound
# or by held-out trials it exceeds the truth in at most {value}`audit.safe_cp:.1%`.
#
# Held-out trials remove only the bias of the choice. In this figure, whose $\delta$ is large, the
# Bayesian bound on them exceeds the truth in up to {value}`audit.held_bayesian:.0%`. Where
# $\epsilon = 0$ and $\delta$ is as small as {value}`audit.delta:g`, it always does. **So this book
# never reports a swept bound alone, and calls only Clopper-Pearson's corrected ones valid.**

# %%
chapter.values(allowed=1 - level, delta=delta)

# %% [markdown]
# ## How fast, and how exact?
#
# The authors publish their program as `privacy-estimates`. [Compared with other
# software](maintainers.md) has both on the same counts. The limits differ by the tolerance of that
# program ($10^{-2}$ in $\epsilon$, $5 \cdot 10^{-3}$ in probability). Ours are exact to about
# $10^{-10}$ in probability.
#
# ## What is new here
#
# - The posterior is one integral (Eq. {eq}`eq-posterior`), takes milliseconds, and allows counts
#   of 0.
# - How often the intervals cover the truth is computed, not assumed.
# - Two slips of the paper: the footnote's minimum and the masses of a rectangle.
# - The bias of the sweep over thresholds is measured on a mechanism of known $\epsilon$.
#
# ## What the paper leaves open
#
# - *What a credible interval promises.* It holds its level on average over the prior, not for each
#   mechanism. The paper does not say so.
# - *The choice of the threshold.* The reported bound is the largest of $N + 1$, uncorrected.
#
# ## Exercises
#
# *Try it.* Copy this cell. Set `fp` to 0, and watch which intervals lose their end.

# %% tags=["try-it"]
from lib.audit import AttackCounts, epsilon_interval

counts = AttackCounts(tp=65, fp=25, tn=75, fn=35)
for method in ("bayesian", "jeffreys", "clopper-pearson"):
    low, high = epsilon_interval(counts, 0.05, 0.95, method)
    print(f"{method}: epsilon from {low:.2f} to {high:.2f}")

# %% [markdown]
# 1. With four times the trials and the same error rates, by what factor does each interval shrink?
#
#    :::{dropdown} Solution
#    Both shrink as one over the square root of the number of trials: four times the trials halve
#    the width. The Bayesian interval keeps its lead by about the same factor. Ten times the
#    precision takes a hundred times the models.
#    :::

# %% tags=["solution"]
from lib.audit import AttackCounts, epsilon_interval

for times in (1, 4, 100):
    counts = AttackCounts(tp=65 * times, fp=25 * times, tn=75 * times, fn=35 * times)
    for method in ("bayesian", "clopper-pearson"):
        low, high = epsilon_interval(counts, 0.05, 0.95, method)
        print(f"{200 * times:>6,} trials, {method}: width {high - low:.2f}")

# %% [markdown]
# 2. The attack tosses a coin. At which $\delta$ does the posterior put half of its mass at
#    $\epsilon = 0$?
#
#    :::{dropdown} Solution
#    The privacy region of $\epsilon = 0$ is a band: the sum of the rates is within $\delta$ of 1.
#    With a tiny $\delta$ it is nearly a line, which has no mass. It has half once $\delta$ is about
#    two thirds of the sum's standard error, 0.1 here. So whether a coin looks private also depends
#    on $\delta$ and on the number of trials.
#    :::

# %% tags=["solution"]
from lib.audit import AttackCounts, epsilon_posterior

coin = AttackCounts(tp=25, fp=25, tn=25, fn=25)
for delta in (1e-5, 0.01, 0.05, 0.07, 0.1):
    mass = epsilon_posterior(coin, delta).mass_at_zero
    print(f"delta = {delta:g}: {mass:.2f} of the mass is at epsilon = 0")

# %% [markdown]
# 3. How large an $\epsilon$ can ten times as many trials show, if the attack never errs?
#
#    :::{dropdown} Solution
#    The bound grows by $\log 10$ at each step: an error rate of 0 in $n$ trials shows that it is
#    below a few times $1/n$, and $\epsilon$ is minus the logarithm of that. Ten thousand models
#    cannot refute a claim of $\epsilon = 8$, however bad the training is.
#    :::

# %% tags=["solution"]
from lib.audit import error_free_bound

for trials in (100, 1_000, 10_000, 100_000):
    bound = error_free_bound(trials // 2, trials // 2, delta=1e-5)
    print(f"{trials:>7,} trials: at most {bound:.1f}")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/audit.py out.ipynb -f params/quick/audit.yml -p delta 0.01
# ```
#
# ## Summary
#
# The Bayesian interval is narrow, cheap to compute, and describes well what an attack found. A
# valid lower bound takes Clopper-Pearson, and a threshold that was chosen on other trials or paid
# for. The next page asks [what an audit of trained models sees](audit_trainings.py).

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers(digits=2))
