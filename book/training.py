# %% [markdown]
# # How the models are trained
#
# {term}`Differential privacy <differential privacy>` limits by a number, $\epsilon$, what a
# published model tells about any one patient: how much of it does training spend?
#
# **Answer.** Less than [P1's](papers.md) {term}`accountant` says: its sum over all steps, an
# $\epsilon$ of {value}`training.first_epsilon:.2f`, is above what a nearly exact one finds.
#
# ```{result} spending
# ```
#
# Both lines bound what the same run has spent, by {term}`Rényi differential privacy` (RDP) and by
# the {term}`privacy loss distribution` (PLD).
#
# **Do this.** Draw Poisson samples, and divide by the expected batch size. Let
# {py:obj}`~lib.privacy.find_noise_multiplier` choose the noise, and record every run in a
# {py:obj}`~lib.privacy.PrivacyLedger`. If you search, [count the search](beyond/choosing.py).
#
# ## What holds, and what does not
#
# - *Holds* if batches are drawn and divided as the accountant assumes. P1's budgets are kept, since
#   RDP bounds what is spent. At P1's largest budget {value}`training.smallest_saving:.0%` of the
#   noise is there only because RDP is loose, in other settings up to
#   {value}`training.largest_saving:.0%`.
# - *Holds nearly.* P1's rule of thumb, $\epsilon / \sqrt M$ for each of $M$ models, is close to
#   exact composition. It is no proof: at a budget of {value}`training.first_epsilon:g`, such models
#   together spend {value}`training.thumb_together:.2f` by RDP. By PLD they stay within it.
# - *Caution.* P1's Algorithm 2 divides by the batch's size, which depends on who took part. Its
#   accountant does not cover that.
# - *Left out.* The choice of the learning rate reads the private data, and neither P1 nor P3 counts
#   it.

# %% tags=["parameters"]
epsilons: list[float] = [7.0, 3.0, 1.0]  # (0, 100] finite budgets; no privacy is shown beside them
n_seeds: int = 4  # [2, 100] training runs per budget and path
steps: int = 200  # [1, 100000] updates of each training
batch_size: int = 128  # [1, 1000] expected batch size
clipping_norm: float = 1.0  # (0, 1000] largest norm of one example's gradient
hidden: int = 32  # [1, 1024] hidden units of the MLP
rates: list[float] = [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0]  # (0, 100] learning rates to choose from
members: int = 5  # [1, 20] models that share a budget
seed: int = 0  # [0, 1000000] how the digits are divided
gate_data: str = "digits"  # {digits, fashion-mnist, cifar10} to try SelectiveNet's gate on
gate_steps: int = 20  # [1, 100000] updates of each of these training runs

# %%
from lib.book.session import open_chapter

chapter = open_chapter("training", globals())

import numpy as np

from lib import training
from lib.runs import stored_table
from lib.studies.interplay import gates
from lib.studies.interplay.experiments import all_points
from lib.studies.training import figures
from lib.studies.training import tables as studies

spec = training.DataSpec("digits", train=1000, validation=200, test=597, seed=seed)
data = spec.load()
chapter.note(
    "Data: the 1,797 handwritten digits that ship with scikit-learn, divided at random: 1,000 to "
    "train on, 200 to choose learning rates on, 597 to test on. This page needs nothing else."
)

# %% [markdown]
# ## The idea
#
# Differential privacy promises that whatever the model reveals would have been almost as likely
# without any one record. The smaller $\epsilon$, the stronger the promise. Noise added during
# training keeps it, and costs accuracy. So limit what one record can change in one step, hide that
# behind Gaussian noise, and add up what all steps reveal.
#
# The chapters on privacy train thousands of models in this way: with and without noise, on subsets
# of the data, with planted examples. One engine trains them all, and every later number rests on
# it. The {doc}`glossary` explains the words, and {doc}`notation` the symbols.
#
# ## The mechanism
#
# Let $D$ and $D'$ be any two data sets that differ by one record, added or removed. A randomized
# training procedure $\mathcal{M}$ is $(\epsilon, \delta)$-private if, for all sets $E$ of outcomes,
#
# $$
# P(\mathcal{M}(D) \in E) \le e^\epsilon\, P(\mathcal{M}(D') \in E) + \delta .
# $$ (eq-dp)
#
# The pair is the {term}`privacy budget`. {term}`DP-SGD` {cite}`abadi2016deep`, as P1
# {cite}`rabanser2023training` states it in Algorithm 2, keeps within it as follows. In each step,
#
# 1. every training example is drawn independently with probability $q$ (a {term}`Poisson sample`);
# 2. the gradient of each drawn example is scaled down to an L2 norm of at most $c$
#    ({term}`per-example clipping`);
# 3. Gaussian noise of standard deviation $\sigma c$ is added to their sum, $\sigma$ being the
#    {term}`noise multiplier`;
# 4. the noisy sum, divided by the batch size, updates the parameters.
#
# With the sample $B_t$, the gradients $g_i$, the learning rate $\eta$, $N$ training examples and
# $\xi_t \sim N(0, I)$,
#
# $$
# \theta_{t+1} = \theta_t - \frac{\eta}{q N} \Bigl( \sum_{i \in B_t}
#   g_i \min\Bigl\{1, \frac{c}{\|g_i\|}\Bigr\} + \sigma c\, \xi_t \Bigr) .
# $$ (eq-dp-sgd)
#
# Two details matter. The sum is divided by the *expected* batch size $qN$. Algorithm 2 prints
# $1/|B_t|$, but the realized size $|B_t|$ depends on who took part, and would itself have to be
# protected. And a sample may be empty, or twice the usual size. A shuffled loader of equal batches
# is another mechanism, which the accountants below do not cover.
#
# Without privacy ($\epsilon = \infty$) the same code draws the same samples, and neither clips nor
# adds noise.

# %%
config = training.TrainingConfig(
    training.ModelSpec("mlp", inputs=(64,), classes=10, hidden=(hidden,)),
    epsilon=epsilons[0],
    batch_size=batch_size,
    steps=steps,
    clipping_norm=clipping_norm,
    learning_rate=1.0,
)
result = training.train(config, data.training, data.evaluation)
print(f"one training example takes part in a step with probability {result.plan.sample_rate:.3f}")
print(f"noise multiplier for epsilon = {epsilons[0]:g}: {result.plan.noise_multiplier:.3f}")
print(f"test accuracy: {result.accuracy(data.labels):.3f}")
print(f"spent: epsilon = {result.epsilon:.3f} at delta = {result.plan.delta:g}")

# %% [markdown]
# ## What it costs
#
# Every step spends privacy; an {term}`accountant` bounds the total. P1 uses Rényi differential
# privacy ({term}`RDP`) {cite}`mironov2017renyi`. Between what a step releases on neighboring data,
# the Rényi divergence of order $\alpha$ is at most some $\rho_\alpha(q, \sigma)$. Divergences of
# $T$ steps add up, and
#
# $$
# \epsilon(\delta) = \min_{\alpha > 1} \Bigl\{ T \rho_\alpha(q, \sigma)
#   + \log\frac{\alpha - 1}{\alpha} - \frac{\log(\alpha \delta)}{\alpha - 1} \Bigr\} .
# $$ (eq-rdp)
#
# Newer accountants follow the privacy loss itself and are nearly exact: {term}`PLD`
# {cite}`doroshenko2022connect`, used in this book, and privacy loss random variables
# {cite}`gopi2021numerical`, used in P3. All bound the same mechanism under adding or removing one
# example.

# %%
noise = result.plan.noise_multiplier
spending = stored_table(studies.spending, len(data.training), batch_size, steps, noise)
caption = "What one training has spent after some of its steps"
formats = dict.fromkeys(["rdp", "pld"], ".3f")
chapter.table(spending, "spending", caption, formats, aside=True)

# %%
chapter.drawn(figures.draw_spending)

# %% [markdown]
# Below, RDP chooses the noise, as in P1, for the digits of this page and for P1's CIFAR-10 models
# (200 epochs, batches of 128, $\delta = 1/N$). The last column is what RDP wastes: how much less
# noise would do if PLD certified the same budget.

# %%
settings = {
    "digits": (len(data.training), batch_size, steps),
    "CIFAR-10 (P1)": (50_000, 128, 200 * 50_000 // 128),
}
accounts = stored_table(studies.accounting_table, epsilons, settings)
chapter.table(
    accounts,
    "accountants",
    "Noise multiplier by RDP, and the epsilon of both accountants",
    {"noise_multiplier": ".3f", "rdp": ".3f", "pld": ".3f", "saved": ".1%"},
)
chapter.values(largest_saving=accounts["saved"].max(), smallest_saving=accounts["saved"].min())

# %% [markdown]
# P1's models are somewhat more private than they claim: at their largest budget
# {value}`training.smallest_saving:.0%` of the noise pays for the looseness of RDP. At the smallest
# it is more, and on digits it is {value}`training.largest_saving:.0%`. The book keeps RDP wherever
# it compares with P1. Its tests hold both accountants against those of two libraries, Opacus and
# dp-accounting.
#
# ### Several models, one budget
#
# A {term}`deep ensemble`, or {term}`SelectiveNet` with several target coverages, releases several
# models trained on the same data. Together they must stay within the budget. P1 {term}`composes
# <compose>` the Rényi divergences of all of them (Eq. {eq}`eq-rdp` with $M T$ steps instead of
# $T$), and explains it by a rule of thumb: $(\epsilon/\sqrt{M}, \delta/M)$ for each of $M$ models.
# Plain composition would give each $(\epsilon/M, \delta/M)$.

# %%
cifar = (50_000, 128, 200 * 50_000 // 128)
rules = stored_table(studies.budget_rules, epsilons, *cifar, members)
chapter.table(
    rules,
    "budgets",
    f"{members} models share one budget (CIFAR-10 as in P1): each member's own epsilon, and what "
    "all of them spend together",
    dict.fromkeys(("noise_multiplier", "member", "rdp", "pld"), ".3f"),
    aside=True,
)

# %%
composed = rules[rules["rule"] == "composed"].set_index("epsilon")
thumb = rules[rules["rule"] == "epsilon/sqrt(M)"].set_index("epsilon")
plain = rules[rules["rule"] == "epsilon/M"].set_index("epsilon")
first = epsilons[0]
chapter.values(
    members=members,
    first_epsilon=first,
    member_epsilon=composed.loc[first, "member"],
    thumb_epsilon=first / np.sqrt(members),
    noise_composed=composed.loc[first, "noise_multiplier"],
    noise_plain=plain.loc[first, "noise_multiplier"],
    thumb_together=thumb.loc[first, "rdp"],
)
if members == 5:
    ratio = composed["member"] / (composed.index / np.sqrt(5))
    chapter.check("P1-S4-sqrt-rule", ratio.iloc[np.abs(ratio.to_numpy() - 1).argmax()])
    chapter.check("P1-S3-sqrt-budget", float((thumb["pld"] - thumb.index).max()))
else:
    chapter.not_run(chapter.claims("P1-"), "the paper's ensembles have five members")

# %% [markdown]
# Let {value}`training.members` members share a budget of {value}`training.first_epsilon:g`. By
# composition each may spend {value}`training.member_epsilon:.2f`, at $\delta$. The rule of thumb
# says {value}`training.thumb_epsilon:.2f`, at $\delta / M$. Composition needs a noise multiplier of
# {value}`training.noise_composed:.2f`, plain composition {value}`training.noise_plain:.2f`.
#
# The rule of thumb is no proof. By RDP, the paper's own accountant, models trained by it spend
# {value}`training.thumb_together:.2f` together. They stay within the smaller budgets of the table.
# By PLD they stay within all of them, but only the calculation shows that.
#
# ## Choosing a learning rate
#
# The learning rate is chosen for each budget on the validation digits, never on the test digits.
# *This choice is not accounted for*: each trial reads the training data again, and an honest total
# would add what the trials spend. P1 and P3 leave it out, too; [The price of
# choosing](beyond/choosing.py) counts it.

# %%
choices = stored_table(studies.tune, config, spec, [np.inf, *epsilons], rates, repetitions=4)
chapter.table(
    choices,
    "rates",
    "Mean validation accuracy by learning rate",
    {f"{rate:g}": ".3f" for rate in rates} | {"chosen": "g"},
    aside=True,
)

# %% [markdown]
# ## Two paths, one result
#
# One model at a time is trained with Opacus {cite}`yousefpour2021opacus`. Many small models at once
# are trained by compiled code. For a dense layer with inputs $a_i$ and backpropagated errors $d_i$
# the gradient of one example is an outer product, so
#
# $$
# \nabla_W \ell_i = d_i a_i^\top , \qquad \|\nabla_W \ell_i\| = \|d_i\| \, \|a_i\| ,
# $$ (eq-outer)
#
# and no per-example gradient is ever stored. Each model has its own Poisson samples and its own
# noise, so the trials of an audit stay independent. Both paths draw from the same random streams,
# so the same seed must give the same model, up to rounding.

# %%
agreement = stored_table(
    studies.agreement,
    config,
    data,
    dict(zip(choices["epsilon"], choices["chosen"], strict=True)),
    n_seeds,
)
chapter.table(
    agreement,
    "agreement",
    f"Test accuracy over {n_seeds} seeds, by both paths",
    {
        "noise_multiplier": ".3f",
        **dict.fromkeys(["opacus", "opacus_sd", "same_seeds"], ".4f"),
        **dict.fromkeys(["other_seeds", "other_seeds_sd"], ".4f"),
        "largest_difference": ".1e",
        "z": ".2f",
    },
    aside=True,
)

# %%
none, strongest = agreement.iloc[0], agreement.iloc[-1]
chapter.values(
    n_seeds=n_seeds,
    accuracy_without=none["opacus"],
    accuracy_strongest=strongest["opacus"],
    strongest_epsilon=strongest["epsilon"],
    largest_z=float(agreement["z"].abs().max()),
    chance=studies.chance_of_largest(agreement, n_seeds),
)
chapter.values(largest_difference=agreement["largest_difference"].max(), volatile=True)

# %% [markdown]
# Over {value}`training.n_seeds` seeds per budget, the parameters of the two paths differ by at most
# {value}`training.largest_difference:.0e`. With other seeds the mean accuracies differ by at most
# {value}`training.largest_z:.1f` standard errors. The largest of so many differences is that large
# by chance with probability {value}`training.chance:.2f`. That is small, but with equal seeds the
# engines agree, so the difference is one of seeds. On digits, the smallest budget takes the
# accuracy from {value}`training.accuracy_without:.3f` to {value}`training.accuracy_strongest:.3f`.

# %%
# SelectiveNet's gate, without privacy: the page on the accuracy-normalized score quotes it.
problem = all_points(gate_data, "small_cnn")
given = {"steps": gate_steps, "batch_size": batch_size, "rate": 0.05, "seeds": 2}
tried = stored_table(gates.trial, *problem, **given)
chapter.table(
    tried,
    "gates",
    f"SelectiveNet at a target of a tenth by gate and loss, without privacy, on {gate_data}: "
    f"means of two training runs of {gate_steps:,} updates",
    dict.fromkeys(tried.columns[2:], ".3f"),
    aside=True,
)
chapter.values(
    volatile=True,
    **{f"gate_{name}": each for name, each in gates.accuracies(tried).items()},
    gate_auxiliary=float(tried["auxiliary"].iloc[0]),
    gate_spread=float(tried["sd"].max()),
)
chapter.values(gate_steps=gate_steps)

# %% [markdown]
# ## How fast
#
# This book's engine trains many small models at once; Opacus, in its fastest mode, trains one after
# another. The table, part of [all comparisons](maintainers.md), says how many times as fast the
# former is with one thread each (median and quartiles over rounds):
#
# ```{benchmarks} Opacus
# ```
#
# The gain comes from training many small models at once. On a GPU, `python benchmarks/engines.py
# --device cuda` measures the same, and what `precision` costs there.
#
# ## Precision, and the same numbers again
#
# `precision` concerns the forward and backward pass alone: `"float32"`, `"tf32"` or `"bf16"`. With
# tf32, NVIDIA's tensor cores multiply mantissas of 10 bits; a CPU has none. On a CPU bf16 is slow,
# and the compiled engine does not take it there. The guarantee needs that no example moves the sum
# of gradients by more than the clipping norm, and that the noise is as large as the accountant
# assumes. Gradients are therefore turned into float32 before their norms are taken. Clipping,
# summation, noise and update are always in float32. A coarse gradient is clipped like any other, so
# a lower precision may cost accuracy, never privacy. Rounding in float32 itself is not accounted
# for; tests check that, up to rounding, no example moves the sum by more than the clipping norm.
#
# `deterministic` makes PyTorch refuse algorithms whose sums depend on the order in which threads
# finish. It is no part of the guarantee. Teachers and students of PATE are trained with PyTorch's
# own settings; nothing of their guarantee depends on it.

# %% [markdown]
# ## P1's experiments, on paper
#
# With deep gamblers, which it names but does not report, P1 has 14 ResNet-18 per data set, budget
# and seed: four data sets, four budgets, five seeds, 200 epochs. A roofline model says what that
# takes: operations at 30% of a processor's peak, plus per-example gradients at 60% of its memory
# bandwidth. It is an estimate from data sheets, not a measurement.

# %%
panel = studies.panel_table([1, 8, 64])
days = {f"days, {w}": ",.1f" for w in (1, 8, 64)}
chapter.table(
    panel,
    "panel",
    "P1's experiments by processor, and days by number of GPUs",
    {"samples/s, private": ",.0f", "GPU-hours": ",.0f", **days},
    aside=True,
)
steps_in_all = studies.p1_panel().eval("sample_steps * count").sum()
a100 = panel.set_index("processor").loc["A100 SXM 80 GB (TF32)"]
cnn = training.parameter_count(training.ModelSpec("p3_cnn", inputs=(3, 32, 32), classes=10))
chapter.values(billions=steps_in_all / 1e9, a100_hours=a100["GPU-hours"], a100_days=a100["days, 8"])
size_verdict = chapter.check("P3-S4-cnn-size", cnn / 1000)

# %% [markdown]
# That is {value}`training.billions:.1f` billion gradients of one example; on eight A100 it would
# take about {value}`training.a100_days:.0f` days. Runs of that size are stored under the hash of
# their configuration, code and data. After a crash they resume with the same result and the same
# privacy spent. They can be spread over a Dask cluster (`lib/runs/CLUSTERS.md`).
#
# ## What is new here
#
# - A nearly exact accountant is applied to P1's own setting for CIFAR-10 (and to our digits).
# - P1's rule of thumb is tested as a guarantee: by P1's own accountant it is none.
# - Opacus and an engine of our own give the same private model for the same seed.
# - What P1's experiments take is stated in advance: about {value}`training.a100_hours:,.0f` hours
#   of an A100.
#
# ## What the papers leave open
#
# - *Which batch size divides the sum.* P1's Algorithm 2 divides by the realized one. Its accountant
#   does not cover that, and the paper does not say what its code does.
# - *How batches are drawn.* P1 draws each example independently. P3's text does not say, and its
#   accountant needs {term}`Poisson sampling`.
# - *What the choice of learning rates and other settings costs.* Neither P1 nor P3 accounts for it.
#   In this book only [The price of choosing](beyond/choosing.py) does, by private selection.
# - *Whether $\delta = 1 / N$ is small enough.* Publishing one record drawn at random has that
#   $\delta$, and $\epsilon = 0$. A guarantee worth the name has a $\delta$ far below $1 / N$.
# - *Whether $N$ is public.* $\delta = 1 / N$, the sampling rate and the noise are computed from it,
#   and neighboring data sets have different $N$.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Change the noise multiplier or the
# sampling rate, and watch how epsilon grows with the steps: four times as many cost
# a little more than twice as much.

# %% tags=["try-it"]
from lib.privacy import PrivacyLedger, SampledGaussian

for steps in (100, 400, 1600):
    ledger = PrivacyLedger((SampledGaussian(sample_rate=0.1, noise_multiplier=1.7, steps=steps),))
    rdp, pld = (ledger.epsilon(1e-3, accountant) for accountant in ("rdp", "pld"))
    print(f"{steps:>5,} steps: epsilon {rdp:.2f} by RDP, {pld:.2f} by PLD")

# %% [markdown]
# 1. With larger batches, but the same epochs and budget, does the noise multiplier rise or fall?
#    And the noise of the mean gradient?
#
#    :::{dropdown} Solution
#    The multiplier rises, since every batch now sees more of the data. But the noise is divided by
#    the batch's size, which rises faster. So the mean gradient gets clearer, and there are fewer
#    steps to use it.
#    :::

# %% tags=["solution"]
from lib.privacy import find_noise_multiplier

for batch in (64, 256, 1024):
    rate, epochs = batch / 60_000, 20
    sigma = find_noise_multiplier(3.0, 1e-5, rate, steps=round(epochs / rate))
    print(f"batch {batch:>4}: noise multiplier {sigma:.2f}, noise over batch {sigma / batch:.4f}")

# %% [markdown]
# 2. Five models share a budget of 3. Which ways of dividing it stay within it by RDP, and which
#    waste some?
#
#    :::{dropdown} Solution
#    All of them do here. *Composed* spends the budget by RDP to the last digit. The rule of thumb,
#    $\epsilon / \sqrt M$, comes close and happens to stay below. At the largest budget of the table
#    above it does not. Plain composition wastes more than half, and accuracy with it.
#    :::

# %% tags=["solution"]
from lib.privacy import budget_table

for row in budget_table([3.0], 1e-5, sample_rate=0.01, steps=1000, members=5):
    print(f"{row['rule']:>15}: noise {row['noise_multiplier']:.2f}", end=", ")
    print(f"together {row['rdp']:.2f} by RDP, {row['pld']:.2f} by PLD")

# %% [markdown]
# 3. Two accountants read the same ledger. What does the looser one cost?
#
#    :::{dropdown} Solution
#    RDP proves less than PLD does, by about a tenth of $\epsilon$ or more here. Nothing about
#    the training differs. Only the proof is tighter, so whoever stays within a budget by RDP has
#    some to spare.
#    :::

# %% tags=["solution"]
from lib.privacy import PrivacyLedger, SampledGaussian

for sigma in (0.7, 1.5, 6.0):
    ledger = PrivacyLedger((SampledGaussian(0.01, sigma, 1000),))
    rdp, pld = (ledger.epsilon(1e-5, accountant) for accountant in ("rdp", "pld"))
    print(f"noise {sigma:g}: RDP {rdp:.2f}, PLD {pld:.2f}, saved {1 - pld / rdp:.0%}")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/training.py out.ipynb -f params/quick/training.yml -p clipping_norm 0.1
# ```
#
# ## Further pages
#
# - [The price of choosing](beyond/choosing.py): what a search over settings spends.
# - {doc}`interplay`: what privacy does to abstention.
# - The {doc}`audit chapter <audit>`: is a training run as private as it says?

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers())
