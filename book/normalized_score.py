# %% [markdown]
# # The accuracy-normalized score
#
# Two physicians of unequal accuracy send on the cases that they are unsure of: which of them knows
# better *when* to ask?
#
# **Answer.** The one whose score is smaller, says [P1](papers.md): it tells how far one stays below
# the best that one's accuracy allows, and here a smaller {term}`privacy budget` raises it in
# {value}`normalized_score.growing:.0%` of the steps.
#
# ```{result} order
# ```
#
# Each score is divided by that of a random order at the same accuracy. Where a line rises, privacy
# costs order, not only accuracy. *Training dynamics* are P1's {term}`SCTD`. Open marks are of the
# softmax response at better rates: at the largest budget, at a rate of
# {value}`interplay@standard.more_validation.rate_widest:g`, it scores
# {value}`interplay@standard.more_validation.sr_widest:.4f`, where the line is of a [bad
# rate](#order-or-accuracy).
#
# **Do this.** Divide the score by that of a random order
# ({py:obj}`~lib.selective.random_order_score`). Give it a standard error
# ({py:obj}`~lib.selective.estimate`), and ask whether the points are enough
# ({py:obj}`~lib.selective.points_needed`).
#
# ## What holds, and what does not
#
# - *Holds.* A perfect order reaches the bound exactly.
# - *Not quite.* P1 says that every smaller budget makes the score worse. In its own Table 2 that is
#   so in {value}`normalized_score.growing_paper:.0%` of the steps. Most exceptions are
#   SelectiveNet's.
# - *Depends.* Is {term}`SCTD` best under a strict budget? As P1 trains, its lead over the
#   {term}`softmax response` is {value}`p1_regime.own_lead:+.4f` {claim}`P1-S4-sctd-own`. With tuned
#   rates, on the same data, it is {value}`p1_regime.tuned_lead:+.4f` {claim}`P1-S4-sctd-strict`. On
#   [the map](beyond/sctd_map.py) SCTD is ahead in {value}`sctd_map.sctd_ahead` of
#   {value}`sctd_map.settings` settings, where noise moves the parameters far.
# - *Caution.* The score is {term}`E-AURC`, known since 2019: by proof, and on every model here.
# - *Caution.* Part of the score is still accuracy, so scores at different accuracies do not
#   compare. A random order scores {value}`normalized_score.random_90:.3f` at an accuracy of 0.9. At
#   0.6 it scores {value}`normalized_score.random_60:.3f`. The figure takes
#   [that part out](#order-or-accuracy) {claim}`P1-order-lost`.
# - *Caution.* Test sets are small for this. Of {value}`normalized_score.comparisons` comparisons
#   with the softmax response {value}`normalized_score.not_enough` need more points than there are.

# %% tags=["parameters"]
dataset: str = "fashion-mnist"  # {digits, cifar10, fashion-mnist, svhn, gtsrb, gtsrb32, own} data
models: list[str] = ["mlp"]  # {linear, mlp, small_cnn, medium_cnn, resnet18} the main one first
epsilons: list[float] = [7.0, 3.0, 1.0]  # (0, 100] budgets, descending; training without joins them
n_seeds: int = 3  # [1, 50] training runs per method and budget
epochs: float = 0.0  # [0, 10000] passes over the training points; 0: as many updates as below
steps: int = 130  # [2, 1000000] updates of a training
batch_size: int = 256  # [1, 100000] expected size of a Poisson sample
clipping_norm: float = 1.0  # (0, 1000] largest norm of an example's gradient
momentum: float = 0.9  # [0, 1) of the optimizer
schedule: str = "constant"  # {constant, cosine} of the learning rate
checkpoint_every: int = 20  # [1, 100000] steps between the checkpoints that SCTD watches
rates: list[float] = [0.05, 0.15, 0.45]  # (0, 1000] learning rates to choose from
free_rates: list[float] = [0.01, 0.03, 0.1]  # (0, 1000] learning rates without privacy
first_rates: int = 0  # [0, 50] rates that a search begins with, in the middle; 0: all
rate_seeds: int = 1  # [1, 50] runs for the best rate and its neighbors, which decide
families: list[str] = [
    "plain",
    "MCDO",
    "SAT",
    "DG",
    "DE",
    "SN",
    "no entropy",
]  # {plain, MCDO, SAT, DG, DE, SN, no entropy, DE adversarial} ways of training, plain among them
hidden: int = 16  # [1, 10000] hidden units of the MLP
activation: str = "tanh"  # {tanh, relu} of the MLP
validation: int = 0  # [0, 20000] points to choose rates on; 0: a tenth, at most 3000
full_accuracies: list[float] = [0.5, 0.6, 0.7, 0.8, 0.9]  # (0, 1) of the bound experiment
device: str = "cpu"  # {cpu, cuda} where models are trained
seed: int = 0  # [0, 1000000] how the data are divided

# %%
from lib.book.session import open_chapter

chapter = open_chapter("normalized_score", globals())

import numpy as np
import pandas as pd

from lib import selective
from lib.book import evidence
from lib.studies.default_problem import at_hand, data_note, noise_source, updates
from lib.studies.interplay import by_seed, figures
from lib.studies.interplay import tables as studies
from lib.studies.interplay.experiments import ExperimentSettings, all_points, run_experiments
from lib.training import TrainingConfig

used = at_hand(dataset)
chapter.uses(dataset=used)
chapter.note(
    data_note(dataset, used, ", and simulated scores")
    + " The trained models are those of the chapter on the interplay of privacy and abstention, "
    "with the same parameters."
)

# %% [markdown]
# ## The idea
#
# Counting the errors among the cases that somebody keeps mixes skill with self-knowledge: the
# better physician comes out ahead even with cases sent on at random. Private models pose the same
# question. With less {term}`privacy budget` they are less accurate; do they, beyond that, know less
# well what they do not know?
#
# The {term}`selective accuracy` of a {term}`selective classifier` at every {term}`coverage` makes a
# curve, and its {term}`accuracy at full coverage` limits how high this curve can be. P1
# {cite}`rabanser2023training` measures the area between the curve and that limit: what the order of
# acceptance could still gain.
#
# ## The bound
#
# Let $a$ be the accuracy at full coverage. Whoever accepts a fraction $c \le a$ of the points can
# at best accept correct ones only. Beyond $c = a$ all correct points are used up, and at best $a$
# of the $c$ are correct:
#
# $$
# \overline{\mathrm{acc}}(a, c) = \begin{cases} 1 & c \le a \\ a / c & c > a. \end{cases}
# $$ (eq-bound)
#
# The {term}`accuracy-normalized score` is the area between this bound and the selective accuracy
# $\mathrm{acc}_c$ of Eq. {eq}`eq-selective`; 0 is perfect. The area under the bound is the sum of
# $\int_0^a dc$ and $\int_a^1 (a/c)\, dc$, so
#
# $$
# \begin{aligned}
# s &= \int_0^1 \bigl(\overline{\mathrm{acc}}(a, c) - \mathrm{acc}_c\bigr)\, dc \\
#   &= a - a \ln a - \int_0^1 \mathrm{acc}_c\, dc .
# \end{aligned}
# $$ (eq-score)
#
# P1 leaves three decisions open. Here the integral is the mean over $c = 1/n, 2/n, \dots, 1$ (Eq. 6
# is printed as a sum without its width). Points of equal score are accepted in random order, and
# the expected value over these orders is computed exactly. Larger scores are accepted first.
#
# ### Is the bound reached?
#
# P1 checks by simulation that the bound is reached: correct points get scores from one half of the
# unit interval, wrong ones from the other (appendix B.3).

# %%
curves, largest = studies.bound_reached(full_accuracies, 2000, seed)
chapter.check("P1-B3-bound", largest)
chapter.figure(
    figures.plot_bound_reached(curves),
    "perfect_orders",
    alt="Selective accuracy against coverage for five accuracies; dashed curves lie on the bounds.",
    caption="As Figure 6 of P1: perfect orders and the bound at several accuracies (numbers).",
    theory=True,
)

# %% [markdown]
# ## What the extremes score
#
# A perfect order scores 0. A random order has the accuracy $a$ at every coverage, in expectation.
# The worst order accepts all wrong points first; its area is $a + (1-a) \ln(1-a)$. By Eq.
# {eq}`eq-score`
#
# $$
# \begin{aligned}
# s_\mathrm{random} &= -a \ln a , \\
# s_\mathrm{worst} &= -a \ln a - (1-a) \ln(1-a) ,
# \end{aligned}
# $$ (eq-extremes)
#
# and the latter is the entropy of a coin that shows heads with probability $a$. The score of *any*
# method lies between 0 and that.

# %%
chapter.table(
    studies.closed_forms(480, 597),
    "extremes",
    "Normalized score of three orders, 480 of 597 points correct",
    {"n to infinity": ".5f", "n = 597": ".5f"},
)

# %% [markdown]
# The range depends on $a$, so *normalized* means: compared with what this accuracy allows. Scores
# at different accuracies share no scale: a method that knows nothing looks worse on the less
# accurate model.

# %%
chapter.values(
    random_90=float(selective.random_order_score(0.9)),
    random_60=float(selective.random_order_score(0.6)),
)

# %% [markdown]
# ## The same models as before
#
# Every method of P1 at every budget; the chapter {doc}`interplay` says how they are trained. P1's
# Figure 3 shades the score of SCTD; here the table has it, for all methods.

# %%
settings = {}
for model in models:
    shape = {"hidden": hidden, "activation": activation, "validation": validation}
    data, network = all_points(used, model, **shape, seed=seed)
    training = TrainingConfig(
        network,
        steps=updates(epochs, steps, batch_size, data.train),
        batch_size=batch_size,
        clipping_norm=clipping_norm,
        momentum=momentum,
        schedule=schedule,
        checkpoint_every=checkpoint_every,
        device=device,
        noise_source=noise_source(device),
    )
    settings[model] = ExperimentSettings(
        data,
        training,
        epsilons=(np.inf, *epsilons),
        n_seeds=n_seeds,
        rates=tuple(rates),
        free_rates=tuple(free_rates),
        first_rates=first_rates,
        rate_seeds=rate_seeds,
        families=tuple(families),
    )

# %%
by_model = {model: run_experiments(settings[model]) for model in models}
trained, studied = by_model[models[0]], list(by_model.values())
chapter.uses(epochs=trained.settings.epochs)
for model, each in by_model.items():
    chapter.note(f"{model}: {studies.describe(each.settings)}.")

# %%
chapter.check("P1-order-lost", evidence.least(evidence.runs, by_seed.order_lost(studied, "SR")))
of_sr = studies.order_table(trained).query("method == 'SR'").set_index("epsilon")["relative"]
chapter.values(order_free=of_sr[np.inf], order_strict=of_sr[min(epsilons)])

# %% [markdown]
# Keep the order and move the accuracy: the bound moves with it, and the score with both.

# %%
accuracies = [0.6, 0.75, 0.9]
orders = " or ".join(f"{shift:g} ({word})" for word, shift in figures.ORDERS.items())
chapter.figure(
    figures.plot_moving_bound(accuracies),
    "moving_bound",
    alt=(
        "Plots of selective accuracy against coverage, at accuracies of "
        f"{', '.join(f'{a:g}' for a in accuracies)}: in each the dashed bound, two curves below "
        "it, and a level line for a random order."
    ),
    caption=(
        f"The same two orders at {len(accuracies)} accuracies: normal scores, of right answers "
        f"higher by {orders}. Shaded is what separates a curve from its bound: the normalized "
        "score, which the numbers give. It shrinks as the accuracy grows, though no order changed."
    ),
    theory=True,
)

# %%
strictest = min(epsilons)

# %%
summaries = {model: studies.summary(each) for model, each in by_model.items()}
for model, found in summaries.items():
    chapter.table(
        studies.pivot(found, "score"),
        f"scores_{model}",
        f"Accuracy-normalized score on {used} ({model}), smaller is better",
    )

# %%
cells = by_seed.cells(chapter.reported("P1, Table 2"), used, studied, studies.normalized_scores)
chapter.check_cells(
    "P1, Table 2",
    {name: v if isinstance(v, str) else evidence.hull(v) for name, v in cells.items()},
    "P1's Table 2, cell by cell (GTSRB: ours with a third of the training frames)",
)
found = summaries[models[0]]
growing = min(studies.worsening_share(t) for t in summaries.values())
against = {
    model: studies.sctd_against_best(each, min(epsilons)) for model, each in by_model.items()
}
chapter.check("P1-S4-score-grows", evidence.least(evidence.runs, by_seed.worsening(studied)))
leads = by_seed.leads(studied, "score", by_budget=True)

# %%
chapter.check("P1-S4-sctd-lowest", evidence.least(evidence.runs, leads))
gaps = by_seed.gaps(studied, min(epsilons))
chapter.check("P1-S4-sctd-strict", evidence.least(evidence.of_mean, gaps))
growths = [(studies.area_growth(each, "SCTD"), n_seeds) for each in studied]
chapter.check("P1-F3-area-grows", evidence.least(evidence.of_mean, growths))
best_other, gap = against[models[0]]
low, high = gap.interval()
best = studies.best_methods(found)
sr, sctd = (found[found["method"] == m].set_index("epsilon")["score"] for m in ("SR", "SCTD"))

# %%
chapter.values(
    growing_paper=studies.worsening_in_paper(chapter.reported("P1, Table 2")),
    gap=gap.value,
    gap_low=low,
    gap_high=high,
    strictest=min(epsilons),
    sr_free=sr[np.inf],
    sr_strict=sr[min(epsilons)],
    sctd_strict=sctd[min(epsilons)],
)
for method in ("SR", "SCTD", "SN"):
    printed = by_seed.printed(chapter.reported("P1, Table 2"), used, method, min(epsilons))
    if printed is not None:
        chapter.values(**{f"{method.lower()}_printed": printed})

# %%
if "SN" in families:
    sn = found[found["method"] == "SN"].set_index("epsilon")["score"]
    everywhere = trained.selective[np.inf].correct[:, 0].mean()  # of the smallest target's models
    chapter.values(sn_free=sn[np.inf], sn_strict=sn[min(epsilons)], sn_least_free=everywhere)
    chapter.values(volatile=True, sn_behind=int((sn > sr).sum()))

# %%
# Where means are nearly equal, another processor's rounding may decide otherwise.
plain_rates = trained.rates.query("family == 'plain' and chosen")
chapter.values(
    volatile=True,
    growing=growing,
    best_other=best_other,
    best_strict=best[min(epsilons)],
    best_free=best[np.inf],
    sctd_ahead=int((sctd < sr).sum()),
    ties_ahead=studies.wins_with_ties_broken(trained),
    budgets=len(sr),
    rate=plain_rates.set_index("epsilon")["rate"][strictest],
)

# %% [markdown]
# Privacy makes the score worse: that of the {term}`softmax response` goes from
# {value}`normalized_score.sr_free:.4f` without it to {value}`normalized_score.sr_strict:.4f` at the
# smallest budget. But not at every step: of those to the next smaller budget
# {value}`normalized_score.growing:.0%` make a method's mean score worse. The one exception on
# Fashion-MNIST is of [a bad rate](#order-or-accuracy). P1 says *all*; in its own Table 2 it is
# {value}`normalized_score.growing_paper:.0%`.
#
# Without privacy {value}`normalized_score.best_free` is best, at the smallest budget
# {value}`normalized_score.best_strict`. P1 finds {term}`SCTD` best there. Here the best other
# method is {value}`normalized_score.best_other`: its score minus SCTD's is
# {value}`normalized_score.gap:.4f`. The interval over training runs and points reaches from
# {value}`normalized_score.gap_low:.4f` to {value}`normalized_score.gap_high:.4f`. Its level is 95%
# (by Welch and Satterthwaite; verdicts have wider ones). On other data [others
# lead](interplay.py).
#
# ### "SCTD is best under a strict budget", twice
#
# Of these models the rate was tuned, not batch, clipping norm or length. [Another
# page](beyond/p1_regime.py) trains the same network with P1's batch, epochs and clipping norm,
# without momentum, and watches a model every 50 batches. It has the softmax response alone beside
# SCTD.
#
# - *As P1 trains* {claim}`P1-S4-sctd-own`. SCTD's lead at the smallest budget is
#   {value}`p1_regime.own_lead:+.4f`. Its interval reaches from {value}`p1_regime.own_low:+.4f` to
#   {value}`p1_regime.own_high:+.4f`. The accuracy is {value}`p1_regime.own_accuracy:.3f`.
# - *As P1 trains, at each budget* {claim}`P1-T2-sctd-own`. At a budget of
#   {value}`p1_regime.loosest:g` the lead is {value}`p1_regime.loose_lead:+.4f`. Either of two
#   budgets might refute P1, so the interval that judges is wider than that of one.
# - *With tuned rates* {claim}`P1-S4-sctd-strict`, against all methods: a statement of our own. On
#   that page the lead over the softmax response is {value}`p1_regime.tuned_lead:+.4f`. The accuracy
#   is {value}`p1_regime.tuned_accuracy:.3f`.
#
# P1 prints a lead of its ResNet-18, and no learning rate. Nothing was trained at that size here;
# [the map](beyond/sctd_map.py) says what its noise predicts.
#
# ### SelectiveNet
#
# SelectiveNet's score joins the accuracies of its five models by straight lines, below the bound of
# the most accurate one. P1 says neither how it does that, nor where the gate starts. Here it starts
# at one half, or at a larger target. So trained, SelectiveNet is behind the softmax response at
# {value}`normalized_score.sn_behind` of {value}`normalized_score.budgets` budgets on Fashion-MNIST.
# On CIFAR-10 it is behind at {value}`normalized_score@standard.cifar10.sn_behind`, on GTSRB at
# {value}`normalized_score@standard.gtsrb.sn_behind`.
#
# Without privacy it fails at the small targets of CIFAR-10 and GTSRB. The models for a tenth of
# CIFAR-10 are right on {value}`normalized_score@standard.cifar10.sn_least_free:.0%` of all points,
# those for a tenth of GTSRB on {value}`normalized_score@standard.gtsrb.sn_least_free:.0%`. We read
# it so: what the gate shuts out early they hardly learn, and P1 ranks by the softmax response of
# what they learned.
#
# *Is that ours?* In part. Our gate is one linear unit. In its authors' code it has a hidden layer
# with batch normalization, which private training rules out. Their loss does not divide by the
# coverage. [Tried](training.py) without privacy on CIFAR-10 at a target of a tenth, for
# {value}`training@standard.gate.gate_steps` small batches, ours leaves models that are right on
# {value}`training@standard.gate.gate_ours:.0%` of all points. Their loss leaves
# {value}`training@standard.gate.gate_loss:.0%`. A hidden layer beside it leaves
# {value}`training@standard.gate.gate_layer:.0%`, all of theirs
# {value}`training@standard.gate.gate_theirs:.0%`. Standard deviations of two runs reach
# {value}`training@standard.gate.gate_spread:.2f`.
#
# ## Why not just stop early?
#
# Models could be compared at equal accuracy if the less private ones were stopped early. But
# privacy is spent step by step: a model that stops early is *more private than targeted*.

# %%
stopped = studies.early_stopping(trained)
chapter.table(
    stopped,
    "early_stopping",
    "Accuracy-aligned models",
    {"aligned accuracy": ".3f", "spent": ".3f", "share": ".0%"},
)

# %%
chapter.drawn(figures.draw_early_stopping)

# %%
stops = [by_seed.spent_shares(each) for each in studied]
chapter.check("P1-S3-early-stopping", evidence.largest(evidence.runs, stops))
chapter.values(
    widest=float(stopped.iloc[0]["epsilon"]),
    widest_spent=float(stopped.iloc[0]["spent"]),
    widest_step=int(stopped.iloc[0]["step"]),
)

# %% [markdown]
# The model meant for $\epsilon = $ {value}`normalized_score.widest:g` is as accurate as the most
# private one after {value}`normalized_score.widest_step` steps. It has then spent
# {value}`normalized_score.widest_spent:.2f`. How much is left
# unspent depends on how early accuracy stops growing.
#
# ## An old acquaintance: E-AURC
#
# The area under the risk-coverage curve ({term}`AURC`) is one minus the area under the
# accuracy-coverage curve. *Excess* AURC {cite}`geifman2019bias` subtracts the AURC of the same
# predictions in perfect order. On the grid $c_i = i/n$ a perfect order of $h$ correct points has
# the accuracy $\min(1, h/i)$, and the bound at $c_i$ is $\min(1, (h/n)/(i/n))$: the same number at
# every $i$. So
#
# $$
# \begin{aligned}
# s &= \frac1n \sum_i \bigl(\overline{\mathrm{acc}}(a, c_i) - \mathrm{acc}_{c_i}\bigr) \\
#   &= \frac1n \sum_i (r_i - r_i^*) = \text{E-AURC} ,
# \end{aligned}
# $$ (eq-e-aurc)
#
# where $r_i$ and $r_i^*$ are the risks of the given and of the perfect order. P1's score, proposed
# as new, *is* {term}`E-AURC` of 2019, which P1 does not cite. {term}`AUGRC`
# {cite}`traub2024overcoming` integrates the fraction of *all* points that are accepted and wrong,
# which does not overweight the first few.

# %%
metrics = studies.metric_table(trained)
chapter.table(
    metrics,
    "metrics",
    "Four metrics, means over seeds; smaller is better",
    dict.fromkeys(["normalized", "E-AURC", "AURC", "AUGRC"], ".4f"),
)
disagreements = studies.ranking_disagreements(metrics)

# %%
chapter.table(
    disagreements,
    "disagreements",
    "Pairs of methods that a metric ranks otherwise than the normalized score",
)
chapter.values(
    volatile=True, largest_gap=float((metrics["normalized"] - metrics["E-AURC"]).abs().max())
)
chapter.values(pairs=int(disagreements["pairs"].sum() // 2))

# %%
# Ranks of nearly equal means, and what small differences call for: another processor's rounding
# may move them.
chapter.values(
    volatile=True,
    aurc_odd=int(disagreements.loc[disagreements["metric"] == "AURC", "disagree"].sum()),
    augrc_odd=int(disagreements.loc[disagreements["metric"] == "AUGRC", "disagree"].sum()),
)

# %% [markdown]
# Normalized score and E-AURC, computed by two routes, differ by at most
# {value}`normalized_score.largest_gap:.0e`. Of {value}`normalized_score.pairs` pairs of methods at
# equal budgets AURC ranks {value}`normalized_score.aurc_odd` otherwise than the normalized score.
# AUGRC does so with {value}`normalized_score.augrc_odd`. Both also reward accuracy.
#
# ## Order or accuracy?
#
# So divide each score by that of a random order at the same accuracy
# ({py:obj}`lib.selective.random_order_score`): 0% is a perfect order, 100% one that knows nothing.

# %%
chapter.drawn(figures.draw_order)

# %% [markdown]
# Two lines may be worse than their methods. {term}`SAT` moves its labels when it meets a point
# after its burn-in: in P1 a hundred times, here a few times (the caption counts). And at the
# largest budget on Fashion-MNIST too few validation points chose the softmax response's rate. In a
# [run with more of them](interplay.py), the open marks, {term}`MCDO` scores
# {value}`interplay@standard.more_validation.mcdo_widest:.4f`: no difference beyond chance.
#
# ## How many points does it take?
#
# P1 gives a spread over five training runs, on one test set. That test set is a sample, too. The
# score has an {term}`influence function`. Let $u$ be the coverage at which a point is accepted, $y$
# its correctness and $A$ the area under the curve. The point's influence on $A$ is
#
# $$
# \mathrm{acc}_u - A + \int_u^1 \frac{y - \mathrm{acc}_c}{c}\, dc ,
# $$ (eq-influence)
#
# on the bound's area $-\ln(a)\,(y - a)$, and on the score the difference. The variance of the score
# is the mean square of the influence over $n$; for two methods on the same points, that of the
# difference of influences. The {term}`bootstrap` stands beside it:

# %%
sr_runs = trained.predictions["SR", min(epsilons)]
by_formula = selective.estimate(sr_runs.correct[0], sr_runs.score[0])
by_bootstrap = selective.bootstrap(sr_runs.correct[0], sr_runs.score[0], seed=seed)

# %%
chapter.table(
    pd.DataFrame(
        [
            (name, e.value, e.standard_error, e.low, e.high)
            for name, e in (("influence", by_formula), ("bootstrap", by_bootstrap))
        ],
        columns=["by", "score", "standard error", "95% from", "to"],
    ),
    "uncertainty",
    "One model's score (SR, strictest budget) and its sampling uncertainty",
    dict.fromkeys(["score", "standard error", "95% from", "to"], ".5f"),
)

# %%
needed = studies.needed_points(trained)
chapter.table(
    needed,
    "needed",
    "Evaluation points needed to tell a method from SR",
    {"difference": "+.4f", "standard error of its score": ".4f", "points": ",.0f"},
)
rest = needed[needed["method"].isin(["SAT", "MCDO", "DE"])]
rest = needed if rest.empty else rest  # a run may have none of these
chapter.values(at_hand=len(trained.labels), comparisons=len(needed))

# %%
chapter.drawn(figures.draw_needed)

# %%
chapter.values(
    volatile=True,
    not_enough=int((needed["points"] > len(trained.labels)).sum()),
    typical_points=float(rest["points"].median()),
)

# %% [markdown]
# There are {value}`normalized_score.at_hand:,` points at hand. Of
# {value}`normalized_score.comparisons` comparisons, {value}`normalized_score.not_enough` need more.
# Telling SAT, MCDO or a deep ensemble from the softmax response takes
# {value}`normalized_score.typical_points:,.0f` points in the median. More training runs on the same
# points cannot replace them.

# %% [markdown]
# ## What is new here
#
# - The score is E-AURC, by proof (Eq. {eq}`eq-e-aurc`).
# - The closed forms of Eq. {eq}`eq-extremes` say what a score is worth at an accuracy.
# - One test set gives a standard error (Eq. {eq}`eq-influence`), and the size of the test set that
#   a comparison needs.
# - What models have spent that stop early is a number.
#
# ## What the paper leaves open
#
# - *Ties.* On Fashion-MNIST SCTD leaves many points tied, so that their order moves the score
#   ({doc}`interplay`).
# - *Comparisons between accuracies.* By Eq. {eq}`eq-extremes` part of what grows as $\epsilon$
#   falls is the score of ignorance itself. P1 does not separate the two; a figure of this page
#   does.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Change 0.6 and 0.4, and with them the
# accuracy, and watch the scores of all three orders.

# %% tags=["try-it"]
import numpy as np

from lib.selective import normalized_score

sure, luck, blind = np.random.default_rng(0).random((3, 10_000))
correct = luck < 0.6 + 0.4 * sure
for name, score in (("good", sure), ("random", blind), ("perfect", correct)):
    print(f"{name} order: {normalized_score(correct, score):.3f}")

# %% [markdown]
# 1. At which accuracy can an order lose most?
#
#    :::{dropdown} Solution
#    A model that is always right, or always wrong, has nothing to order: its score is 0. A random
#    order loses most at an accuracy of $1/e$, the worst order at a half. So scores at very
#    different accuracies are compared with care: the same loss is more of what can be lost at 0.99.
#    :::

# %% tags=["solution"]
from lib.selective import random_order_score, worst_order_score

for accuracy in (0.02, 0.2, 0.37, 0.5, 0.9, 0.99):
    random, worst = random_order_score(accuracy), worst_order_score(accuracy)
    print(f"accuracy {accuracy:g}: random {random:.3f}, worst {worst:.3f}")

# %% [markdown]
# 2. Prove that no order can score more than the entropy $-a \ln a - (1 - a) \ln(1 - a)$ of the
#    accuracy $a$.
#
#    :::{dropdown} Solution
#    Swap two neighbors in the order so that the wrong answer comes first: the curve falls at one
#    coverage and stays elsewhere. So the worst order has all wrong answers first, and its curve is
#    $\max\{0, 1 - (1 - a) / c\}$. The area under that is $a + (1 - a) \ln(1 - a)$, that under the
#    bound $a - a \ln a$; the difference is the entropy. The cell has both, for an accuracy of 0.8.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import normalized_score

a = 0.8
correct = np.arange(100_000) < a * 100_000
worst = normalized_score(correct, ~correct)  # every wrong answer before every right one
print(f"{worst:.4f}", f"{-a * np.log(a) - (1 - a) * np.log(1 - a):.4f}")

# %% [markdown]
# 3. How many points tell a score from a noisier version of itself?
#
#    :::{dropdown} Solution
#    The smaller the difference, the more points, about as one over its square. But scores that are
#    nearly the same also err on the same points, and pairing takes that part of the chance away.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import points_needed

rng = np.random.default_rng(0)
sure, noise = rng.random(2000), rng.normal(size=2000)
correct = rng.random(2000) < 0.6 + 0.4 * sure
for much in (0.1, 0.3, 1.0):
    n = points_needed(correct, sure, correct, sure + much * noise)
    print(f"noise {much:g}: about {round(n, -1):,.0f} points")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/normalized_score.py out.ipynb -f params/quick/normalized_score.yml \
#     -y '{"rates": [0.1], "free_rates": [0.1]}'
# ```
#
# ## Further pages
#
# - {doc}`interplay` says how the models are trained, and what abstaining costs in privacy.
# - [Where does SCTD win?](beyond/sctd_map.py) maps P1's claim over noise and accuracy.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers(digits=2))
