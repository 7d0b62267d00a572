# %% [markdown]
# # DP-SC interplay: what privacy does to abstention
#
# If a model that may say "I do not know" must not remember any single person, does it still know
# what it does not know?
#
# **Answer.** Less well: to be as accurate as without privacy, models can answer only
# {value}`interplay.coverage_strict:.0%` of Fashion-MNIST's images at the smallest {term}`budget`,
# and far fewer on two harder data sets.
#
# ```{result} left
# ```
#
# A line is a method, held against its own accuracy without privacy, so that all begin at 100%. Gray
# is [paper P1's](papers.md) larger network, shown here and not judged.
#
# **Do this.** Rank points by the {term}`softmax response`: it is free, and no other of P1's methods
# is better at all budgets. Spend a small budget on one model, not on five. Report the accuracy at
# full coverage beside every selective number, and how ties are broken.
#
# ## What holds, and what does not
#
# - *Holds.* Privacy costs coverage, and more of it on the other two data sets. At the smallest
#   budget the accuracy without privacy leaves
#   {value}`interplay@standard.cifar10.coverage_strict:.0%` of the answers on CIFAR-10. On GTSRB,
#   with a third of the training frames, it leaves
#   {value}`interplay@standard.gtsrb.coverage_strict:.0%`. The models without privacy are small,
#   too.
# - *Holds.* Methods of one model cost no privacy. The members of a deep ensemble share its budget.
#   An ensemble mostly falls farther than the softmax response, since its accuracy without privacy
#   is the highest, too.
#   In P1's setting, at the smallest one, each needs {value}`interplay.noise_ratio:.2f` times the
#   noise.
# - *Depends.* P1 shows private models that are sure of a wrong answer about an outlier. At its
#   clipping norm the random seed decides whether they are ([One outlier](outlier.py)).
# - *Depends.* P1 finds {term}`SCTD` best under privacy. [Trained as P1
#   trains](beyond/p1_regime.py), but a small network, its lead over the softmax response at the
#   smallest budget is {value}`p1_regime.own_lead:+.4f` {claim}`P1-S4-sctd-own`. At a larger one it
#   is {value}`p1_regime.loose_lead:+.4f`, which two budgets leave open {claim}`P1-T2-sctd-own`.
#   With tuned rates, the way of this page, it is {value}`p1_regime.tuned_lead:+.4f` at the
#   smallest.
# - *With tuned rates*, at the smallest budget, {value}`interplay.best_strict` has the lowest mean
#   score on Fashion-MNIST. On CIFAR-10 it is {value}`interplay@standard.cifar10.best_strict`; on
#   GTSRB it is {value}`interplay@standard.gtsrb.best_strict`. Neither lead over the next method is
#   beyond chance; that on Fashion-MNIST exceeds its runs' spread.

# %% tags=["parameters"]
dataset: str = "fashion-mnist"  # {digits, cifar10, fashion-mnist, svhn, gtsrb, gtsrb32, own} data
models: list[str] = ["mlp"]  # {linear, mlp, small_cnn, medium_cnn, resnet18} the main one first
epsilons: list[float] = [7.0, 3.0, 1.0]  # (0, 100] budgets, descending; training without joins them
n_seeds: int = 3  # [2, 50] training runs per method and budget
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
keep: list[float] = [0.5, 0.25, 0.1, 0.01]  # (0, 1] sampling probabilities of class 0
rare_seeds: int = 2  # [1, 50] training runs of each with a rare class, at most n_seeds
device: str = "cpu"  # {cpu, cuda} where models are trained
seed: int = 0  # [0, 1000000] how the data are divided

# %%
from lib.book.session import open_chapter

chapter = open_chapter("interplay", globals())

import numpy as np
import pandas as pd

from lib.book import evidence
from lib.studies.default_problem import at_hand, data_note, noise_source, updates
from lib.studies.interplay import by_seed, experiments, figures
from lib.studies.interplay import tables as studies
from lib.training import TrainingConfig

used = at_hand(dataset)
chapter.uses(dataset=used)
theirs = " P1 uses FashionMNIST, CIFAR-10, SVHN and GTSRB with ResNet-18; smaller ones say so."
chapter.note(data_note(dataset, used) + theirs)

# %% [markdown]
# ## The idea
#
# A {term}`selective classifier` answers where it is sure and abstains elsewhere.
# {term}`Differential privacy <differential privacy>` blurs what a model may learn from any one
# example. P1 {cite}`rabanser2023training` trains models with smaller and smaller
# {term}`budgets <budget>` $\epsilon$, and lets many methods of abstaining rank the same test
# points. Which methods cost privacy? What happens to their ranking? How many answers have to be
# given up to be as accurate as without privacy?
#
# ## Coverage and selective accuracy
#
# A classifier $f$ with an {term}`acceptance score` $g$ answers where the score reaches a threshold:
# larger means accepted earlier.
#
# ```{margin}
# **P1 has two conventions.** It accepts below a threshold in Eq. 2, and so it must in Eq. 11, 13
# and 16. In Eq. 7, 14 and 15 the score is the largest probability. One of them had to go.
# ```
#
# With the threshold $\tau_c$ that accepts a fraction $c$ of the points, the {term}`coverage`, the
# {term}`selective accuracy` is
#
# $$
# \begin{aligned}
# \mathrm{acc}_c &= P\bigl(f(X) = Y \mid g(X) \ge \tau_c\bigr) , \\
# c &= P\bigl(g(X) \ge \tau_c\bigr) .
# \end{aligned}
# $$ (eq-selective)
#
# The plainest score is the {term}`softmax response` (SR), $g(x) = \max_j p_j(x)$ with the model's
# class probabilities $p_j$.
#
# ## What abstaining costs in privacy
#
# A score computed from one private training run is {term}`post-processing`: it costs nothing more.
# A method that trains several models on the same data {term}`composes <compose>` their costs (Eq.
# {eq}`eq-rdp`). Within the same budget each model must add more noise. The accountant says how much
# for P1's own setting: CIFAR-10, 200 epochs of batches of 128, $\delta = 1/N$. Five models count as
# five times the steps: so we read P1's "increasing the number of DP-SGD steps".

# %%
costs = studies.privacy_costs(epsilons, 50_000, 128, 200 * 50_000 // 128)
chapter.table(
    costs.drop(columns="class"),
    "costs",
    "What each method needs: noise multiplier, and what is left for each model",
    dict.fromkeys(costs.columns[4:], ".2f"),
    csv=costs,
    aside=True,
)
several = costs[costs["models"] > 1].iloc[0]
single = costs[costs["models"] == 1].iloc[0]

# %%
chapter.values(
    strictest=min(epsilons),
    members=int(several["models"]),
    noise_ratio=several[f"noise, epsilon = {min(epsilons):g}"]
    / single[f"noise, epsilon = {min(epsilons):g}"],
    each_strict=several[f"each, epsilon = {min(epsilons):g}"],
)

# %% [markdown]
# Take a {term}`deep ensemble` or {term}`SelectiveNet` with {value}`interplay.members` models. At
# $\epsilon = $ {value}`interplay.strictest:g` it needs {value}`interplay.noise_ratio:.2f` times the
# noise of a single model. Each of its models is then {value}`interplay.each_strict:.2f`-private.
# (For a single target coverage SelectiveNet is one training run.)
#
# One more cost of SelectiveNet is not in P1. Its loss depends on the coverage *of the batch*, so no
# per-example gradient of it exists to be clipped. Here the batch's coverage and risk are released
# with noise of their own and accounted for ({py:obj}`lib.training.SelectiveNet`).
#
# ## The experiments
#
# The learning rate is chosen for each way of training and each budget, by accuracy on validation
# points that are neither trained nor evaluated on. One training run per rate finds the best. In the
# main run on Fashion-MNIST, and in that with more validation points, the mean of
# {value}`interplay@standard.rate_seeds` training runs then decides between it and its neighbors; in
# all others the first decides. Intervals are over training runs at the chosen rate: another choice,
# or other validation points, may move a score further. No budget counts the choice; nor does P1's.
#
# ```{margin}
# **Rates.** An ensemble is tried by one member. SelectiveNet is tried by its models of the largest
# and the smallest target, each at its own, whose mean counts. The rare class has the rates of all
# data. On CIFAR-10 and GTSRB a search begins with three rates and goes on while an end is best.
# Where an end of all is (a star in the table of rates), a better one may lie beyond.
#
# **A bad rate.** On Fashion-MNIST, at the largest budget, too few validation points chose one for
# plain training. A run of these two methods with more of them chooses
# {value}`interplay@standard.more_validation.rate_widest:g`. There SR scores
# {value}`interplay@standard.more_validation.sr_widest:.4f`, and dropout
# {value}`interplay@standard.more_validation.mcdo_widest:.4f`: no difference beyond chance.
#
# **Methods.** After its burn-in SAT meets each point five to thirteen times (P1's a hundred). So
# about a quarter to three fifths of each label stays as given. SelectiveNet's gate is one linear
# unit.
# ```
#
# Deep ensembles and SelectiveNet share the budget among their five models. As in P1, the loss has
# an {term}`entropy regularization` of 0.01. {term}`SAT` is ranked by its classifier's softmax
# response, as in P1; so are {term}`deep gamblers` (own scores: below). The page's training runs
# took {value}`interplay.trained_seconds:duration`, one after another.

# %%
settings = {}
for model in models:
    shape = {"hidden": hidden, "activation": activation, "validation": validation}
    data, network = experiments.all_points(used, model, **shape, seed=seed)
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
    settings[model] = experiments.ExperimentSettings(
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
by_model = {model: experiments.run_experiments(settings[model]) for model in models}
trained = by_model[models[0]]
chapter.uses(epochs=trained.settings.epochs)
for model, each in by_model.items():
    chapter.note(f"{model}: {studies.describe(each.settings)}.")
tuned = studies.chosen_rates(by_model)
caption = "Learning rate by validation points (* of several the least or most), mean accuracy there"
chapter.table(tuned, "rates", caption, aside=True)

# %%
spent = studies.budget_cells(trained)
chapter.table(
    spent,
    "spent",
    "Noise multiplier, what each model spends, and what the models of one method spend together",
    {"noise_multiplier": ".2f", "each": ".3f", "spent": ".3f"},
    aside=True,
)

# %% [markdown]
# ### What privacy takes, by way of training
#
# Where every point is answered, how accurate is each way of training? Methods that only rank the
# points of one model differently share its accuracy. P1's Figure 2 has whole curves of accuracy
# over coverage; the table sums each up by its normalized score.

# %%
summaries = {model: studies.summary(each) for model, each in by_model.items()}
everything = pd.concat([t.assign(model=m) for m, t in summaries.items()], ignore_index=True)
chapter.table(
    everything[["model", *everything.columns.drop("model")]],
    "summary",
    "Accuracy at full coverage, normalized score, and coverage for non-private accuracy",
    studies.SUMMARY_FORMATS,
)

# %%
chapter.drawn(figures.draw_accuracy)

# %% [markdown]
# ### The coverage that non-private accuracy costs
#
# P1's Table 1: the largest coverage at which a private model is as accurate as its non-private twin
# is on all points. The figure has it, and P1's, on all data of the recorded runs.

# %%
chapter.drawn(figures.draw_left)

# %%
for model, found in summaries.items():
    private_rows = found[np.isfinite(found["epsilon"]) & (found["method"] != "SN")]
    chapter.table(
        studies.pivot(private_rows, "coverage"),
        f"coverage_{model}",
        f"Coverage for non-private accuracy on {used} ({model})",
        aside=True,
    )

# %%
studied = list(by_model.values())
cells = by_seed.cells(
    chapter.reported("P1, Table 1"), used, studied, studies.coverages_for_non_private
)
chapter.check_cells(
    "P1, Table 1",
    {name: v if isinstance(v, str) else evidence.hull(v) for name, v in cells.items()},
    "P1's Table 1, cell by cell (GTSRB: ours with a third of the training frames)",
)
first = summaries[models[0]]
coverage = first.dropna(subset=["coverage"])
moderate = [e for e in epsilons if e > min(epsilons)] or epsilons  # where there is but one

# %%
chapter.values(
    coverage_moderate=coverage[coverage["epsilon"].isin(moderate)]["coverage"].mean(),
    coverage_strict=coverage[coverage["epsilon"] == min(epsilons)]["coverage"].mean(),
)
covered = {
    (i, method, epsilon): studies.coverages_for_non_private(each, method, epsilon)
    for i, each in enumerate(studied)
    for method in coverage["method"].unique()
    for epsilon in epsilons
}

# %%
if used == "cifar10":
    chapter.check("P1-S4-cifar-coverage", evidence.largest(evidence.runs, covered.values()))
    chapter.not_run(["P1-S4-recover"], "P1 excepts CIFAR-10")
else:
    first_family = [v for (i, _, e), v in covered.items() if i == 0 and e in moderate]
    chapter.check("P1-S4-recover", evidence.runs(np.mean(first_family, axis=0)))
    chapter.not_run(["P1-S4-cifar-coverage"], f"the data are {used}")
at_one = [v for (_, _, epsilon), v in covered.items() if epsilon == 1]
if used in ("gtsrb", "gtsrb32") and at_one:
    chapter.check("P1-S4-gtsrb-coverage", evidence.largest(evidence.runs, at_one))
else:
    chapter.not_run(["P1-S4-gtsrb-coverage"], f"the data are {used}, the budgets {epsilons}")
leads = by_seed.leads(studied, "coverage", by_budget=True)
_ = chapter.check("P1-T1-sctd-highest", evidence.least(evidence.runs, leads))

# %%
overall_leads = by_seed.leads(studied, "score")
chapter.check("P1-F2-sctd-best", evidence.least(evidence.runs, overall_leads))
for method in ("DE", "SN"):
    claim = f"P1-S4-{method.lower()}-suffers"
    if method in families:
        lost = by_seed.losses(studied, method)
        chapter.check(claim, evidence.least(evidence.runs, lost))
    else:
        chapter.not_run([claim], "this run has other methods")

best = studies.best_methods(first)
strict = first[first["epsilon"] == min(epsilons)].set_index("method")
free = first[np.isinf(first["epsilon"])].set_index("method")
# Where means are nearly equal, another processor's rounding may name another.
chapter.values(best_free=best[np.inf], best_strict=best[min(epsilons)], volatile=True)
chapter.values(
    sr_strict=strict.loc["SR", "score"],
    sctd_strict=strict.loc["SCTD", "score"],
    sr_free=free.loc["SR", "score"],
    sctd_free=free.loc["SCTD", "score"],
    accuracy_free=free.loc["SR", "accuracy"],
    accuracy_strict=strict.loc["SR", "accuracy"],
    **({"de_strict": strict.loc["DE", "accuracy"]} if "DE" in families else {}),
    rate_seeds=rate_seeds,
)
widest = first[first["epsilon"] == max(epsilons)].set_index("method")["score"]
chosen = trained.rates.query("family == 'plain' and chosen").set_index("epsilon")["rate"]
chapter.values(volatile=True, rate_widest=chosen[max(epsilons)])
chapter.values(sr_widest=widest["SR"])
if "MCDO" in families:
    chapter.values(mcdo_widest=widest["MCDO"])

# %% [markdown]
# Privacy takes the accuracy at full coverage (softmax response) from
# {value}`interplay.accuracy_free:.3f` to {value}`interplay.accuracy_strict:.3f` at the strictest
# budget. Sharing the budget costs a deep ensemble more: it is left with
# {value}`interplay.de_strict:.3f`. To be as accurate as without privacy takes coverage. On average
# over the methods {value}`interplay.coverage_moderate:.2f` is left at moderate budgets,
# {value}`interplay.coverage_strict:.2f` at the strictest one.
#
# Without privacy {value}`interplay.best_free` has the lowest {term}`normalized score`
# ({doc}`normalized_score`). At the strictest budget {value}`interplay.best_strict` has. A network
# with twice the filters and units tells the same there: SR scores
# {value}`interplay@standard.fashion_medium.sr_strict:.3f`, SCTD
# {value}`interplay@standard.fashion_medium.sctd_strict:.3f`. (Its accuracy is
# {value}`interplay@standard.fashion_medium.accuracy_strict:.3f`.)
#
# ### Other scores of the same models
#
# Entropy, margin, energy and the size of a conformal-style prediction set rank the very models that
# the softmax response ranks. SAT and deep gamblers have an output of their own for abstaining.
# *Calibrated* is the softmax response after temperature scaling {cite}`guo2017calibration`, which
# P1 names as a remedy for overconfidence. Each half of the test points gets its temperature from
# the labels of the other. All are post-processing of the private models.
#
# ```{margin}
# **DE adversarial,** if a run has it, is the deep ensemble as it was proposed
# {cite}`lakshminarayanan2017simple`: an example and a neighbor of larger loss give one gradient,
# clipped as one.
# ```

# %%
others = [m for m in trained.methods if m not in experiments.P1_METHODS and "no entropy" not in m]
chapter.table(
    studies.pivot(studies.summary(trained, ["SR", *others]), "score"),
    "others",
    f"Normalized score of other scores ({models[0]}), smaller is better",
    aside=True,
)

# %% [markdown]
# ## SCTD: two formulas, and many ties
#
# {term}`SCTD` watches the classes $f_t(x)$ that intermediate models, at checkpoints $t = 1, \dots,
# T$ of the training, predict. It is written twice in P1, in Eq. 16 (the default here, with $k = 3$)
# and in Algorithm 1:
#
# $$
# g(x) = - \sum_{t=1}^{T} \Bigl(\frac tT\Bigr)^k \, [f_t(x) \ne f_T(x)] ,
# $$ (eq-sctd)
#
# $$
# g(x) = - \sum_{t=1}^{T-1} \frac{[f_t(x) \ne f_T(x)]}{1 - (t/T)^k} .
# $$ (eq-sctd-algorithm)
#
# Both punish late disagreement most, but they do not rank alike. And points that never disagree
# with the final model are all tied at the top. P1 does not say how it breaks ties. In areas under
# curves, tied points are accepted in random order here, and the expected value is reported,
# exactly. The coverage for non-private accuracy is that of a threshold, which answers a group of
# equal scores whole or not at all. Breaking ties by softmax response is post-processing, too.

# %%
sensitivity = studies.checkpoint_sensitivity(trained)
ends = sensitivity["epsilon"].isin([np.inf, min(epsilons)])
plain = (sensitivity["k"] == 3) | (sensitivity["spacing"] == checkpoint_every)
chapter.table(
    sensitivity[ends & plain],
    "sctd",
    f"Normalized score of SCTD by form, weighting k and spacing of checkpoints ({models[0]}); the "
    "download has all budgets and combinations",
    {"score": ".4f", "ties by SR": ".4f", "tied": ".1%", "tau": ".2f"},
    csv=sensitivity,
)

# %%
both = studies.coverage_with_ties(by_model)
chapter.table(
    both,
    "sctd_coverage",
    "P1's Table 1 for SCTD: groups of equal scores whole, or in part, drawn at random",
    {"whole": ".3f", "random": ".3f", "largest group": ".1%"},
    aside=True,
)
chapter.values(
    table_1_whole=both["whole"].mean(),
    table_1_random=both["random"].mean(),
    largest_group=both["largest group"].max(),
    budgets=len(epsilons) + 1,
    wins_averaged=list(best.values()).count("SCTD"),
    wins_broken=studies.wins_with_ties_broken(trained),
    **studies.of_ties(sensitivity, checkpoint_every),
)

# %% [markdown]
# Points that never disagree with the final model share one score. Without privacy these are
# {value}`interplay.tied_free:.0%` of all, at the strictest budget
# {value}`interplay.tied_strict:.0%`. (There it is
# {value}`interplay@standard.cifar10.tied_strict:.0%` on CIFAR-10 and
# {value}`interplay@standard.gtsrb.tied_strict:.0%` on GTSRB.)
#
# How ties are broken decides how good SCTD looks where there are many. Normalized scores, smaller
# is better:
#
# ```{list-table}
# :header-rows: 1
#
# * - order
#   - without privacy
#   - at the strictest budget
# * - SCTD, ties averaged
#   - {value}`interplay.sctd_free:.4f`
#   - {value}`interplay.sctd_strict:.4f`
# * - SCTD, ties broken by SR
#   - {value}`interplay.ties_free:.4f`
#   - {value}`interplay.ties_strict:.4f`
# * - SR alone
#   - {value}`interplay.sr_free:.4f`
#   - {value}`interplay.sr_strict:.4f`
# ```
#
# With ties averaged, the number of budgets (of {value}`interplay.budgets`) at which SCTD has the
# lowest mean score of P1's methods is {value}`interplay.wins_averaged`. With ties broken by the
# softmax response it is {value}`interplay.wins_broken`.
#
# Which of the two formulas is used matters little on Fashion-MNIST and CIFAR-10, and more on GTSRB.
# There, at the strictest budget, Eq. {eq}`eq-sctd-algorithm` scores
# {value}`interplay@standard.gtsrb.algorithm_strict:.3f` instead of
# {value}`interplay@standard.gtsrb.sctd_strict:.3f`. Formulas, weightings and spacings over many
# settings are on [the map](beyond/sctd_map.py), which says where SCTD wins.
#
# One group of equal scores holds up to {value}`interplay.largest_group:.0%` of the points. A
# coverage inside of it is one that no threshold has. On average over models and budgets SCTD
# reaches non-private accuracy at a coverage of {value}`interplay.table_1_whole:.4f` if groups stay
# whole. If they may be parted, it is {value}`interplay.table_1_random:.4f`.
#
# ### Entropy regularization
#
# P1 adds 0.01 times the entropy of the prediction to every loss, after Feng et al.
# {cite}`feng2023towards`. A run that trains without it, too (`families`), compares both, each with
# its own learning rate.

# %%
if "no entropy" in families:
    chapter.table(
        studies.regularization(trained),
        "regularization",
        "Normalized score with and without entropy regularization",
        dict.fromkeys(["SR", "SR, no entropy", "SCTD", "SCTD, no entropy"], ".4f"),
    )
else:
    chapter.note("Not trained without the regularization here (parameter `families`).")

# %% [markdown]
# ## A rare class
#
# Of class 0 only a fraction $p_0$ of the training examples is kept (P1, appendix B.2); the test set
# is not thinned.

# %%
rare = experiments.run_imbalance(trained, keep, rare_seeds)
thin = studies.imbalance_table(rare)

# %%
chapter.table(
    thin,
    "imbalance",
    "The rare class by sampling probability and budget",
    dict.fromkeys(["accuracy", "rare accuracy", "position", "right first"], ".3f"),
    aside=True,
)

# %%
chapter.drawn(figures.draw_rare)

# %%
facts = by_seed.rare_class(rare)
for name, fact in (
    ("accepted-late", "position"),
    ("right-first", "right first"),
    ("spread", "spread"),
    ("accuracy", "lost accuracy"),
):
    chapter.check(f"P1-B2-{name}", evidence.least(evidence.runs, facts[fact]))
where, first = by_seed.rarest(rare, 20)
if where:
    chapter.check("P1-B2-reversal", evidence.runs(first))
    chapter.note(f"Whether wrong points of the rare class come first was judged at {where}.")
else:
    chapter.not_run(["P1-B2-reversal"], "nowhere are 20 test points of class 0 right, and 20 wrong")

# %%
rarest = thin[thin["p0"] == min(keep)].set_index("epsilon")
took = rare.seconds + sum(each.seconds for each in by_model.values())
chapter.values(
    p0_least=min(keep),
    rare_examples=int(rarest["rare examples"].iloc[0]),
    rare_free=rarest.loc[np.inf, "rare accuracy"],
    rare_strict=rarest.loc[min(epsilons), "rare accuracy"],
    position_free=rarest.loc[np.inf, "position"],
    position_strict=rarest.loc[min(epsilons), "position"],
)
chapter.values(volatile=True, trained_seconds=took)

# %% [markdown]
# At $p_0 = $ {value}`interplay.p0_least:g`, {value}`interplay.rare_examples` training examples of
# the class are left. Its accuracy is {value}`interplay.rare_free:.3f` without privacy and
# {value}`interplay.rare_strict:.3f` at the strictest budget. On average its points are accepted at
# a coverage of {value}`interplay.position_free:.2f` without privacy. At the strictest budget it is
# {value}`interplay.position_strict:.2f`.
#
# With half of the examples, privacy takes accuracy, but on Fashion-MNIST the order stays. With a
# tenth of them and privacy, a right one comes after most wrong ones: P1's reversal. On CIFAR-10
# (one training run) that happens with a quarter, at the smallest budget already with half. With a
# tenth it happens there without privacy, too.
#
# ## What is new here
#
# - What abstaining costs is computed for each method, and SelectiveNet turns out to have a cost
#   that P1 does not count: its loss has no per-example gradient.
# - SCTD's two formulas are compared, and its ties are counted and broken.
# - Scores that P1 does not try, and, in the quick run, no entropy regularization at its own rate.
#
# ## What the paper leaves open
#
# - *How ties are broken, and which formula of SCTD was run.* Both change its score. In most cells
#   of P1's tables SCTD leads. Among small models it leads [where there is much
#   noise](beyond/sctd_map.py). Whether that is so among large ones they cannot say.
# - *The learning rates.* They decide how sure private models are. P1 does not count what choosing
#   them costs.
# - *Why.* P1 explains what it sees by intuition and asks for theory itself. What is missing is a
#   bound on selective accuracy under $(\epsilon, \delta)$.
# - *Who pays.* Which groups besides one thinned class are answered less, or more wrongly.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Change the 0.4, how much the score
# knows, and watch how many answers are left.

# %% tags=["try-it"]
import numpy as np

from lib.selective import coverage_at_accuracy

score, luck = np.random.default_rng(0).random((2, 10_000))  # score: how sure the model is
correct = luck < 0.6 + 0.4 * score
for target in (0.85, 0.9, 0.95):
    print(f"accuracy {target:.0%}: {coverage_at_accuracy(correct, score, target):.0%} answered")

# %% [markdown]
# 1. Round the score to a few values. What happens to the coverage?
#
#    :::{dropdown} Solution
#    Points with equal scores are answered together or not at all. So the threshold can only stop at
#    the end of a group, and nearly a whole group may go unanswered. SCTD may have a large one: on
#    Fashion-MNIST about half of the points never change their class at a checkpoint. Say how
#    ties are broken when you compare methods.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import coverage_at_accuracy

rng = np.random.default_rng(0)
score = rng.random(10_000)
correct = rng.random(10_000) < 0.6 + 0.4 * score
for levels in (1000, 7, 3):
    tied = np.ceil(score * levels)  # that many different values are left
    print(f"{levels} values: {coverage_at_accuracy(correct, tied, 0.9):.0%} answered")

# %% [markdown]
# 2. Five models share one budget. How many times the noise does each need?
#
#    :::{dropdown} Solution
#    Less than the root of their number: random batches protect the better, the more noise there is.
#    P1's longer training starts with more noise, and comes nearer to the root. Every gradient of
#    every member has that noise, which averaging has to win back.
#    :::

# %% tags=["solution"]
from lib.privacy import find_noise_multiplier

plan = {"epsilon": 1.0, "delta": 2e-5, "sample_rate": 128 / 50_000, "steps": 5000}
alone = find_noise_multiplier(**plan)
for members in (2, 5, 10):
    together = find_noise_multiplier(**plan, releases=members)
    print(f"{members} models: {together / alone:.2f} times the noise")

# %% [markdown]
# 3. One point had another class early in training, one late, one never. Which does SCTD answer
#    last? What does a larger $k$ change?
#
#    :::{dropdown} Solution
#    The second: late disagreement weighs most. A larger $k$ forgets early disagreement, until the
#    first point nearly ties with the third. Whether the final class is right SCTD does not know.
#    Whoever chooses $k$ by the test points chooses the order that these points like; choose it on
#    validation points.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import sctd

labels = np.ones((10, 3), int)  # ten checkpoints, three points, all of class 1 in the end
labels[:2, 0] = labels[-3:-1, 1] = 0  # point 0 was of class 0 early, point 1 late, point 2 never
for k in (1.0, 3.0, 10.0):
    print(f"k = {k:g}:", (sctd(labels, k) + 0.0).round(3).tolist())

# %% [markdown]
# Rerun:
# ```sh
# papermill book/interplay.py out.ipynb -f params/quick/interplay.yml -p checkpoint_every 1
# ```
#
# ## Further pages
#
# - [One outlier](outlier.py) has P1's first figure, a thousand times over.
# - [Where does SCTD win?](beyond/sctd_map.py) Averaging the last few models costs no privacy
#   either.
# - {doc}`normalized_score` compares methods at different accuracies.
# - {doc}`training` says how a budget is counted.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers(digits=2))
