# %% [markdown]
# # What is proven, and what attacks reach
#
# An accountant proves a limit on attacks for every false alarm rate: how close do attacks come to
# that curve?
#
# **Answer.** On memorized labels so close that these trials cannot tell them from it, while on
# examples the best attack found only {value}`curves.found_tpr:.0%` of the members.
#
# ```{result} curves
# ```
#
# The proof keeps all attacks out of the gray. A blue curve *significantly* inside it would refute
# the proof, the training or the audit.
#
# **Do this.** Publish the privacy ledger, not only $\epsilon$. Compare an audit's scores with [the
# whole curve](#what-to-do). If labels are what is private, audit them, too.
#
# ## What holds, and what does not
#
# - *Holds.* {value}`curves.refuted` of {value}`curves.attacks` attacks refute a proof, with limits
#   that hold jointly. They cover [mechanisms of other pages](#all-private-models), too.
# - *Labels may give away all that is proven.* At a false positive rate of {value}`curves.fpr:.0%`
#   no attack can find more than {value}`curves.label_proven:.0%` of the records with the label in
#   question, except by chance. This one found {value}`curves.label_tpr:.0%`.
# - Over all rates it cannot be told from the proven curve. Its lower limit, from
#   {value}`curves.label_models:,d` training runs, is {value}`curves.label_low:.0%`.
# - *The attack on examples found less.* At $\epsilon = $ {value}`curves.epsilon:g`,
#   {value}`curves.proven_tpr:.0%` may be found. The best attack finds
#   {value}`curves.found_tpr:.0%`. Its limits {value}`curves.examples` that it reaches the curve.
# - *Open.* Is that chance, the attack's weakness or the proof's? In the hard case ($\epsilon = $
#   {value}`curves.hard_epsilon:.2g`), {value}`curves.hard_proven:.0%` may be found. The attack
#   found {value}`curves.hard_tpr:.0%`. These trials are too few to tell whether the proof is tight.
#
# ## What to do
#
# Draw an audit's scores as a curve ({py:obj}`lib.audit.attack_curve`), and ask whether it is inside
# what the ledger rules out ({py:obj}`lib.privacy.trade_off`). If it is, by more than its limits,
# the ledger is refuted.

# %% tags=["parameters"]
dataset: str = "fashion-mnist"  # {digits, fashion-mnist, cifar10, gtsrb32, own} data
model: str = "mlp"  # {linear, mlp, small_cnn, p3_cnn} what is trained privately
epsilons: list[float] = [8.0]  # (0, 100] budgets, descending
learning_rates: list[float] = [0.5, 0.25]  # (0, 1000] without privacy (not used here), then each
points: int = 1000  # [40, 1000000] points; half of them are in the training set of a model
n_shadow: int = 64  # [20, 100000] shadow models for each training
n_target: int = 128  # [4, 100000] target models for each training
n_challenges: int = 8  # [1, 10000] worst points to ask about
canaries: int = 0  # [0, 100000] points with a wrong label
epochs: float = 0.0  # [0, 10000] passes over a model's points; 0: as many updates as below
steps: int = 250  # [2, 1000000] updates of a training
batch_size: int = 64  # [1, 100000] expected size of a Poisson sample
clipping_norm: float = 1.0  # (0, 1000] largest norm of an example's gradient
schedule: str = "constant"  # {constant, cosine} of the learning rate
hidden: int = 16  # [1, 10000] hidden units of the MLPs
activation: str = "tanh"  # {tanh, relu} of the MLPs
gradient: bool = True  # any whether the white-box attack is run
delta: float = 1e-5  # (0, 1) of the guarantees
level: float = 0.95  # (0, 1) with which limits hold at all thresholds together
hard_models: int = 1500  # [30, 1000000] training runs of the hard case
label_epsilon: float = 2.0  # (0, 100] of randomized response on labels
label_models: int = 256  # [8, 100000] training runs on such labels
label_points: int = 100  # [20, 1000000] points of each
label_steps: int = 250  # [2, 1000000] updates of each
label_batch: int = 25  # [1, 100000] expected size of a sample
label_rate: float = 0.5  # (0, 1000] learning rate
private: list[str] = ["panel"]  # any what other pages train, one for each of six lists
private_points: list[int] = [57000]  # [10, 10000000] training points, one for each
private_batches: list[int] = [256]  # [1, 1000000] expected size of a sample, one for each
private_steps: list[int] = [130]  # [1, 10000000] of all models in a budget, one for each
private_epsilons: list[float] = [3.0]  # (0, 100] budgets, one for each
private_deltas: list[float] = [0.0]  # [0, 1) 0 is one over the points, one for each
private_models: int = 500  # [30, 1000000] small training runs for each of them
label_budgets: list[float] = [2.1, 7.7]  # (0, 100] of ALIBI and AGIBI, one for each
noisy_models: int = 128  # [8, 100000] training runs on labels of either
pate: list[float] = [20.0, 6.5, 1000.0, 40.0]  # (0, 1e6] noises, queries, answers, one for each
factors: list[float] = [1.0, 1.5, 2.0, 2.5, 3.0]  # [1, 100] true over claimed epsilon
repetitions: int = 100  # [2, 100000] of simulated audits
device: str = "cpu"  # {cpu, cuda} where models are trained
seed: int = 0  # [0, 1000000] of data, models and coins

# %%
from lib.book.session import open_chapter

chapter = open_chapter("curves", globals())

from lib.privacy import PrivacyLedger, RandomizedResponse, SampledGaussian, trade_off
from lib.runs import stored_table
from lib.studies.audit.sanity import SanityCheck
from lib.studies.audit.system import AuditSettings, audited_problem, by_budget
from lib.studies.beyond import curve_figures
from lib.studies.beyond import trade_offs as studies
from lib.studies.default_problem import (
    at_hand,
    data_note,
    default_problem,
    noise_source,
    rows_of,
    test_points,
    updates,
)
from lib.training import TrainingConfig

used = at_hand(dataset)
chapter.uses(dataset=used)
chapter.note(data_note(dataset, used, f" ({model}), and simulated trials"))

# %% [markdown]
# ## The idea: from a ledger to a curve
#
# An attack has a false positive rate $x$ (non-members taken for members) and a false negative rate
# (members missed). If training is $(\epsilon, \delta)$-private,
#
# $$
# \mathrm{FNR} \ge \max\bigl\{1 - \delta - e^{\epsilon} x ,\;
# e^{-\epsilon} (1 - \delta - x) ,\; 0\bigr\} ,
# $$ (eq-two-lines)
#
# two lines {cite}`wasserman2010statistical`. But the {term}`privacy loss distribution` of the
# training's ledger proves a $\delta$ for *each* $\epsilon$. The largest of all these lines is the
# {term}`trade-off function` $f(x)$ {cite}`dong2022gaussian`. No attack has a smaller FNR, whichever
# of the two data sets is its null hypothesis.
#
# One number says most of it: the $\mu$ of the closest Gaussian whose curve {eq}`eq-gaussian` lies
# below. Training then protects everybody at least as well as one Gaussian mechanism with that $\mu$
# {cite}`gomez2025gaussian`, except in an event of probability $\delta$.

# %% tags=["lesson"]

ledger = PrivacyLedger((SampledGaussian(sample_rate=0.01, noise_multiplier=1.0, steps=1000),))
proven = trade_off(ledger)
proven.fnr([0.01, 0.1]).round(2).tolist(), round(proven.mu(1e-5), 2)

# %% [markdown]
# ## Three training runs, three attacks
#
# - *Examples.* The training runs audited in [another chapter](../audit_trainings.py), under P3's
#   attacks.
# - *A hard case.* A record with a feature of its own, where only noise hides it.
# - *Labels.* Here records are public and labels go through randomized response. In each of many
#   models a coin gives one record one of two wrong labels. The attack compares the final model's
#   logits for both.

# %%
data, network = audited_problem(
    used, model, points=points, hidden=hidden, activation=activation, seed=seed
)
training = TrainingConfig(
    network,
    delta=delta,
    accountant="pld",
    steps=updates(epochs, steps, batch_size, points / 2),  # half of the points are in
    batch_size=batch_size,
    clipping_norm=clipping_norm,
    schedule=schedule,
    device=device,
    noise_source=noise_source(device),
)

# %%
one = AuditSettings(
    data,
    training,
    n_shadow=n_shadow,
    n_target=n_target,
    n_challenges=n_challenges,
    canaries=canaries,
    gradient=gradient,
    seed=seed,
)
settings = by_budget(one, epsilons, learning_rates)

# %%
label_data, label_network = default_problem(
    used,
    "mlp",
    train=label_points,
    validation=0,
    test=test_points(used),
    hidden=hidden,
    activation=activation,
    seed=seed,
)
on_labels = TrainingConfig(
    label_network,
    steps=label_steps,
    batch_size=label_batch,
    learning_rate=label_rate,
    device=device,
)
response = RandomizedResponse(label_epsilon)
label_job = studies.label_job(on_labels, label_data, response, label_models, seed=seed)

# %%
audited = studies.examples(settings[1:], level)  # those that are private
hard = studies.hard_case(SanityCheck(delta=delta), hard_models, level, seed)
labelled = studies.labels(label_job, level)
channels = [*audited, hard, labelled]

# %%
listed = rows_of(
    private=private,
    private_points=private_points,
    private_batches=private_batches,
    private_steps=private_steps,
    private_epsilons=private_epsilons,
    private_deltas=private_deltas,
)

# %%
others = [
    studies.PrivateTraining(*row).attacked(private_models, level, seed + number)
    for number, row in enumerate(listed, 1)
]
others += studies.noisy_labels(
    on_labels, label_data, label_budgets, noisy_models, delta=delta, level=level, seed=seed
)
every = studies.together([*channels, *others, studies.votes(*pate, delta)], level)

# %%
fpr, first = 0.1, [audited[0], hard, labelled]
said = curve_figures.reached_headline(first, fpr)
chapter.figure(
    curve_figures.plot_reached(first, fpr),
    "curves",
    alt=f"Members found against false alarms, a plot each. {said}.",
    caption=(
        "Members found (1 - FNR) and non-members accused (FPR) by the best attack of each. In the "
        f"gray no attack can be, but by chance. Dots and numbers: at {fpr:.0%} false alarms, with "
        f"{level:.0%} limits."
    ),
)

# %%
reached = studies.curve_table(channels, delta, fpr)
chapter.table(
    reached[["training", "epsilon", "mu", "attack", "TPR, proven", "TPR", "TPR, low", "margin"]],
    "reached",
    f"Members found at a false positive rate of {fpr:g}: at most by proof, by the attack, and its "
    f"lower limit ({level:.0%}); a positive margin would refute the proof",
    {"epsilon": ".3g"} | dict.fromkeys(["mu", "TPR, proven", "TPR", "TPR, low", "margin"], ".2f"),
)

# %%
rows = reached.set_index(["training", "attack"])
example = rows.loc[audited[0].name]
best = example.loc[example["TPR"].idxmax()]
only = {name: rows.loc[each.name].iloc[0] for name, each in (("hard", hard), ("label", labelled))}
chapter.values(
    fpr=fpr,
    epsilon=max(epsilons),
    mu=best["mu"],
    mu_same=best["mu of epsilon"],
    proven_tpr=best["TPR, proven"],
    proven_accuracy=best["accuracy, proven"],
    hard_epsilon=hard.claimed,
    hard_proven=only["hard"]["TPR, proven"],
    label_epsilon=labelled.claimed,
    label_proven=only["label"]["TPR, proven"],
    label_models=label_models,
    **studies.refuted(every),
    allowed=1 - level,
    each_level=every[0].level,
    private_models=private_models,
    private_looks=studies.LOOKS,
    pate_queries=round(pate[2]),
)

# %%
# What attacks on trained models find: another processor's rounding may move it.
short = curve_figures.falls_short(audited[0], fpr)
chapter.values(
    volatile=True,
    examples="exclude" if short else "do not exclude",
    found_tpr=best["TPR"],
    found_accuracy=best["accuracy"],
    hard_tpr=only["hard"]["TPR"],
    label_tpr=only["label"]["TPR"],
    label_low=only["label"]["TPR, low"],
)

# %% [markdown]
# ## Why the whole curve
#
# A claim can be refuted anywhere along its curve, not only at its $\epsilon$. Frequent errors are
# known well; those of the corner, at small $\delta$, are rare. Simulated audits of
# {value}`curves.models:,d` models of Gaussian mechanisms with too little noise show the difference:

# %%
power = stored_table(
    studies.power_study,
    1.0, delta, sorted({1.0, *factors}), hard_models // 2 * 2, repetitions, level=level, seed=seed,
)  # fmt: skip

# %%
chapter.table(
    power,
    "power",
    f"Simulated audits that refute a claimed epsilon of 1, by how wrong it is ({level:.0%} bounds)",
    {"true over claimed": "g", "by epsilon": ".2f", "by the curve": ".2f"},
)
truly, most = power.iloc[0], power.iloc[-1]

# %%
chapter.values(
    models=hard_models // 2 * 2,
    most=most["true over claimed"],
    noticed=most["by the curve"],
    noticed_pair=most["by epsilon"],
    accused=truly["by the curve"],
)

# %% [markdown]
# Let $\epsilon$ be {value}`curves.most:g` times the claim. The curve reveals it in
# {value}`curves.noticed:.0%` of the audits, the union bound on $\epsilon$ in
# {value}`curves.noticed_pair:.0%`. A true claim is refuted in {value}`curves.accused:.0%`. The
# Gaussian bound of [audited training runs](../audit_trainings.py) rests on a hypothesis. This test
# assumes nothing: its curve is the one that the accountant proves.
#
# ### Which Gaussian is the closest
#
# The curve of many small steps is nearly Gaussian, but not in its corners. There no finite $\mu$ is
# useful: events of probability $10^{-15}$ would decide. So an event of probability $\delta$ is left
# out, as in $(\epsilon, \delta)$ itself: $\mu$ is the smallest with
#
# $$
# \delta(\epsilon) \le \delta + (1 - \delta)\, \delta_\mu(\epsilon) \quad
# \text{for all } \epsilon \ge 0 ,
# $$ (eq-closest-gaussian)
#
# where $\delta_\mu(\epsilon)$ is the Gaussian mechanism's. For the examples it is
# {value}`curves.mu:.2f`. The Gaussian that matches the accountant's $\epsilon$ at $\delta$ has
# {value}`curves.mu_same:.2f`, and is right only at that one point.

# %%
chapter.table(
    reached.drop(columns=["TPR, proven", "TPR", "TPR, low", "margin"]),
    "gaussians",
    "The closest Gaussian, the one with the same epsilon at delta, and the largest accuracy of a "
    "guess about one record of two: proven, reached, and its limits",
    dict.fromkeys([c for c in reached if c.startswith(("mu", "acc", "TPR"))], ".3f"),
    aside=True,
)

# %% [markdown]
# (all-private-models)=
# ### Private models of other pages in one picture
#
# Each page that trains privately has ledgers; here is what some of them prove. Attacks on real data
# are blue. Where there are none, the book's engine trains small models by the *same* mechanism
# (sampling rate, noise, number of steps), on data where only noise hides a record. They are orange,
# {value}`curves.private_models:,d` of them in each part of the figure (for the hard case, those
# above). So few can expose only a gross fault, and they do not say what an attack would find in
# that page's data. This attack knows the mechanism and sees the weights up to
# {value}`curves.private_looks` times in a run; the proof allows it to see them at all steps. The
# pages {doc}`gap </beyond/gap>` and {doc}`promise </beyond/promise>` train like the experiments or
# the {doc}`search </beyond/choosing>`. Of {value}`curves.mechanisms` mechanisms only PATE has no
# attack here.

# %%
chapter.figure(
    curve_figures.plot_all(every),
    "all",
    alt="A grid of small plots: attacks' curves lie below the gray area, or within it by chance.",
    caption=(
        "What is proven (gray), and the most accurate attack on each model. Either side of the "
        f"shade holds at all thresholds and for all attacks together ({level:.0%})."
    ),
)

# %%
chapter.table(
    studies.curve_table(every, delta, fpr).drop(columns=["mu of epsilon"]),
    "all",
    f"The same as numbers: members found at a false positive rate of {fpr:g}, largest accuracy",
    {"epsilon": ".3g"}
    | dict.fromkeys([c for c in reached if c[:3] in ("mu", "acc", "TPR")], ".2f")
    | {"margin": ".2f"},
    aside=True,
)

# %% [markdown]
# The probability that any of the attacks refutes a true proof is at most
# {value}`curves.allowed:.0%`: each one's limits hold at the level {value}`curves.each_level:.2%`
# (Bonferroni). For the labels of ALIBI and AGIBI each training run has one record with a coin, as
# above. The many canaries in one run on [their page](../canaries.py) are not independent trials.
# Nor are those of PATE, whose ensembles are too expensive for one trial each. Its curve, for
# {value}`curves.pate_queries:,d` queries, holds before anything is asked.
#
# ### What another auditor offers
#
# jax_privacy {cite}`jaxprivacy2025` also audits scores. This book's functions reproduce its
# published test values where both compute the same (`tests/audit/test_jax_privacy.py`):
#
# - *Largest TPR at a fixed FPR, largest accuracy*: {py:obj}`lib.audit.attack_curve`, with limits.
# - *A threshold from one division of the trials, or the median over many*:
#   {py:obj}`lib.audit.held_out_lower_bound`, with `splits`.
# - *All thresholds on the frontier*, with Bonferroni's correction for their number:
#   {py:obj}`lib.audit.union_lower_bound` pays for all thresholds. So its bound is smaller on the
#   same scores. But the scores decide which thresholds are on the frontier, and paying for these
#   alone does not keep the level. A test simulates mechanisms where such a bound exceeds the truth
#   more often than it says.
# - *One run*, also for Gaussian curves: {py:obj}`lib.audit.one_run_epsilon`.
# - *Quantiles of a bootstrap, estimates from raw counts*: not offered. A test finds that they
#   exceed the truth far more often than they say. Their authors do not call them bounds.
#
# The median pays for itself: each division may fail half as often
# {cite}`meinshausen2009pvalues`. The *best* of several divisions would not hold.
#
# ### What this page leaves out
#
# - Proofs are for the mechanism in exact arithmetic: see [Security](../security.md).
# - Each person has one record. For several, see {py:obj}`lib.privacy.group_guarantee`.
# - Limits for all thresholds together are wide. Fix a few on other trials, and set `fixed=True`.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Halve or double the noise, and watch the
# smallest rate: there the proof decides what a careful attacker finds.

# %% tags=["try-it"]
from lib.privacy import PrivacyLedger, SampledGaussian, trade_off

mechanism = SampledGaussian(sample_rate=0.01, noise_multiplier=1.0, steps=1000)
curve = trade_off(PrivacyLedger((mechanism,)))
for accused in (0.01, 0.1, 0.5):
    print(f"accusing {accused:.0%} of non-members finds {1 - curve.fnr(accused):.0%} of members")

# %% [markdown]
# 1. Labels are randomized at $\epsilon$. How often can *any* attack tell which of two equally
#    likely labels was the true one?
#
#    :::{dropdown} Solution
#    Never more often than $e^\epsilon / (1 + e^\epsilon)$. At a budget of 4 that is no protection
#    worth the name. At a half an attack is a coin with a slight bias, whatever the model memorizes.
#    :::

# %% tags=["solution"]
from lib.audit import rate_of_epsilon

for epsilon in (4.0, 2.0, 1.0, 0.5):
    print(f"label epsilon {epsilon:g}: right in at most {rate_of_epsilon(epsilon):.0%}")

# %% [markdown]
# 2. Halve the noise of a training run, and halve it again. Does $\mu$ double each time?
#
#    :::{dropdown} Solution
#    It more than doubles. With much noise the random batches hide who took part; with little noise
#    the steps that a record is in stand out, and that protection fades. The output says what an
#    attack may then find, at a false positive rate of 10%.
#    :::

# %% tags=["solution"]
from lib.privacy import PrivacyLedger, SampledGaussian, trade_off

for sigma in (0.5, 1.0, 2.0):
    curve = trade_off(PrivacyLedger((SampledGaussian(0.01, sigma, 1000),)))
    print(f"noise {sigma:g}: mu {curve.mu(1e-5):.2f}, finds at most {1 - curve.fnr(0.1):.0%}")

# %% [markdown]
# 3. The curve of $\mu = 1$ looks mild in the middle. How many members does an attack find if it may
#    accuse one in a hundred non-members?
#
#    :::{dropdown} Solution
#    About one in eleven, nine times as many as a coin would. At $\mu = 2$ it is more than a third.
#    Two right guesses in three at the middle of the curve say little about this corner, where an
#    attacker works.
#    :::

# %% tags=["solution"]
from lib.audit import gaussian_fnr

for mu in (0.5, 1.0, 2.0):
    found = [f"{1 - gaussian_fnr(fpr, mu):.1%}" for fpr in (0.5, 0.1, 0.01)]
    print(f"mu {mu:g}: found at false positive rates 50%, 10%, 1%:", *found)

# %% [markdown]
# Rerun:
# ```sh
# papermill book/beyond/curves.py out.ipynb -f params/quick/curves.yml -p label_epsilon 0.5
# ```
#
# ## Summary
#
# A ledger proves a curve, not a pair; its closest Gaussian has one number, $\mu = $
# {value}`curves.mu:.2f` here. Against the whole curve an audit notices errors that it misses at one
# $\epsilon$. No attack should refute one of the book's proofs, and {value}`curves.refuted` of
# {value}`curves.attacks` do.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers())
