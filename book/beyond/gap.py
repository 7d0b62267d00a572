# %% [markdown]
# # The gap to the bound, taken apart
#
# If readings that a radiologist was sure of turn out wrong, was she sure where she should not have
# been, or are the labels that judge her wrong?
#
# **Answer.** Noise in the labels looks like bad ranking: at the smallest budget it alone opens a
# gap of {value}`gap.noise:.3f` to the best possible curve.
#
# ```{result} terms
# ```
#
# Each bar splits the gap between the best possible curve and the model's. The order of the scores
# makes a similar part by clean and by noisy labels; what noisy ones add is noise.
#
# **Do this.** Have some points labeled twice before you improve a score: where people disagree, the
# gap is noise. {py:obj}`~lib.selective.gap_decomposition` computes the split. [More](#what-to-do).
#
# ## What holds, and what does not
#
# - *Holds.* Noise adds to the gap without changing the ranking. With clean labels the gap is
#   {value}`gap.gap_strict:.3f` at the same budget.
# - *Holds.* Label flips shrink ranking and calibration together to {value}`gap.kept:.3f` of what
#   they were: to $1 - \rho - \rho/(K-1)$, exactly.
# - *Holds.* Privacy hurts twice. Of the gap's growth by {value}`gap.growth:.3f` a worse ranking
#   makes {value}`gap.by_order:.3f`, and more errors in the old ranking the rest.
# - *Holds.* Calibration errors and the gap are different things. Scaling brings the calibration
#   error under noisy labels from {value}`gap.noisy_ece:.3f` to {value}`gap.noisy_scaled:.3f`. The
#   calibration term of the gap is {value}`gap.noisy_calibration:.4f`.
# - *Caution.* If labels are taken as true, all noise counts as bad ranking, and the remedy would be
#   a score that nobody can build.
#
# ## What to do
#
# - If labels can be trusted, compare models of unequal accuracy by NAURC
#   ({py:obj}`lib.selective.risk_areas`), not by the gap.
# - With noisy labels compare only ranking and calibration. Noise counts in NAURC, too: with the
#   flipped labels it puts our models in the opposite order
#   ([table](#does-the-answer-depend-on-the-loss)).
# - Recalibrate to state probabilities, not to choose better what to answer.

# %% tags=["parameters"]
dataset: str = "fashion-mnist"  # {digits, cifar10, fashion-mnist, svhn, gtsrb, gtsrb32, own} data
model: str = "mlp"  # {linear, mlp, small_cnn, resnet18} model family
labels: str = "flips"  # {flips, people} noisy labels; people's (CIFAR-10N) on cifar10 alone
flip: float = 0.2  # (0, 0.8] probability that a label is replaced by another
epsilons: list[float] = [7.0, 3.0, 1.0]  # (0, 100] budgets; training without privacy joins them
rate: float = 0.45  # (0, 100] learning rate under privacy
free_rate: float = 0.1  # (0, 100] learning rate without
n_seeds: int = 3  # [2, 50] training runs at each budget
epochs: int = 0  # [0, 1000] expected passes over the data; 0: see `steps`
steps: int = 130  # [1, 1000000] updates of a training
batch_size: int = 256  # [1, 100000] expected batch size
clipping_norm: float = 1.0  # (0, 1000] largest norm of one example's gradient
momentum: float = 0.9  # [0, 1) of the updates
schedule: str = "constant"  # {constant, cosine} of the learning rate
hidden: int = 16  # [1, 10000] hidden units of the MLP
activation: str = "tanh"  # {tanh, relu} of the MLP
device: str = "cpu"  # {cpu, cuda} where models are trained
seed: int = 0  # [0, 1000000] of the division of the data and of the flips

# %%
from lib.book.session import open_chapter

chapter = open_chapter("gap", globals())

import math

from lib.runs import stored_table
from lib.studies.beyond import gap_terms as studies
from lib.studies.default_problem import at_hand, data_note, noise_source, updates
from lib.studies.interplay.experiments import ExperimentSettings, all_points
from lib.training import TrainingConfig

# %%
used = at_hand(dataset)
chapter.uses(dataset=used)

# %%
data, network = all_points(used, model, hidden=hidden, activation=activation, seed=seed)
training = TrainingConfig(
    network,
    steps=updates(epochs, steps, batch_size, data.train),
    batch_size=batch_size,
    clipping_norm=clipping_norm,
    momentum=momentum,
    schedule=schedule,
    device=device,
    noise_source=noise_source(device),
)
experiments = ExperimentSettings(
    data, training, families=("plain",), epsilons=(math.inf, *epsilons), n_seeds=n_seeds
)
people = studies.people_judge(labels, used)
settings = studies.GapStudy(
    studies.with_people(experiments) if people else experiments,
    rate=rate,
    free_rate=free_rate,
    flip=flip,
    people=people,
    seed=seed,
)

# %%
judge = "what people said (CIFAR-10N)" if settings.people else f"{flip:.0%} of them flipped"
chapter.note(data_note(dataset, used, f" ({model}); noisy labels: {judge}"))

# %% [markdown]
# ## The idea
#
# Suppose one knows, for each point, the probability that its label agrees with the prediction.
# Sorting by it gives the best possible ranking. What is left between that ranking and the bound is
# noise in the labels; what lies between that ranking and the one in use is the model's fault.
# Flipping labels on purpose makes that probability known. The same split says whether privacy makes
# a model worse at knowing what it does not know.
#
# ## Four terms
#
# Let $y_i$ say whether prediction $i$ is right, and let $q_i$ be the probability of that. Let
# $A(v; s)$ be the mean of $v$ among the points that score $s$ accepts, averaged over coverages.
# $B(v)$ is the area under the bound of Eq. {eq}`eq-bound` at the accuracy $\bar v$. With a
# recalibrated score $r$ the gap, P1's {term}`accuracy-normalized score`, is
#
# $$
# \begin{aligned}
# B(y) - A(y; s) &= \underbrace{B(q) - A(q; q)}_{\text{noise}}
# + \underbrace{A(q; q) - A(q; r)}_{\text{ranking}} \\
# &+ \underbrace{A(q; r) - A(q; s)}_{\text{calibration}}
# + \underbrace{B(y) - B(q) - A(y - q; s)}_{\text{finite sample}} .
# \end{aligned}
# $$ (eq-gap-terms)
#
# Terms cancel in pairs, so this holds for any $q$ and $r$. Noise and ranking are never negative: no
# order has a larger $A(q; \cdot)$ than that by $q$, and no curve that ends in $\bar q$ rises above
# the bound. The last term is 0 on average, up to $1/n$.
#
# This has two consequences. Without label noise $q_i$ is 0 or 1, sorting by it reaches the bound,
# and *all* of the gap is ranking. A weak model lowers the bound, which alone leaves no gap. And a
# strictly increasing recalibration keeps the order. Its term is exactly 0, however much better the
# probabilities become.
#
# ## What is known of the labels
#
# The models are the plain ones of {doc}`../interplay`, with one rate for all private budgets. They
# are trained on clean labels and judged twice: by clean labels and by noisy ones. A noisy label is
# replaced with probability $\rho$ by one of the $K - 1$ others. Then $q_i = 1 - \rho$ where the
# clean label agrees with the prediction, and $\rho / (K - 1)$ elsewhere. The score is the largest
# softmax probability, recalibrated by temperature scaling {cite}`guo2017calibration` on the other
# half of the points.

# %%
clean_labels, logits = studies.train(settings)

# %%
found = stored_table(studies.take_apart, settings, clean_labels, logits)
seeds = found.drop(columns="seed").groupby(["epsilon", "labels"], sort=False)
means = seeds.mean().join(seeds["total"].sem().rename("total se")).reset_index()

# %%
chapter.table(
    means[["epsilon", "labels", "accuracy", *studies.TERMS, "finite_sample", "total", "ECE"]],
    "terms",
    "Terms of the gap, and the expected calibration error: means over training runs",
    dict.fromkeys(("accuracy", *studies.TERMS, "finite_sample", "total", "ECE"), "z.3f"),
)

# %%
chapter.drawn(studies.draw_terms)

# %%
clean, noisy = (means[means["labels"] == name].set_index("epsilon") for name in ("clean", "noisy"))
strict, free = min(epsilons), math.inf
room = clean["total"] / clean["NAURC, wrong"]  # the gap of a random order

# %%
chapter.values(
    strict=strict,
    gap_free=clean["total"][free],
    gap_strict=clean["total"][strict],
    growth=clean["total"][strict] - clean["total"][free],
    growth_se=math.hypot(clean["total se"][strict], clean["total se"][free]),
    by_errors=clean["NAURC, wrong"][free] * (room[strict] - room[free]),
    by_order=(clean["NAURC, wrong"][strict] - clean["NAURC, wrong"][free]) * room[strict],
    naurc_free=clean["NAURC, wrong"][free],
    naurc_strict=clean["NAURC, wrong"][strict],
    ece_free=clean["ECE"][free],
    ece_strict=clean["ECE"][strict],
    scaled_strict=clean["ECE, scaled"][strict],
    calibration_strict=clean["calibration"][strict],
)

# %%
order = {name: each["ranking"] + each["calibration"] for name, each in (("c", clean), ("n", noisy))}
chapter.values(
    noisy_gap=noisy["total"][strict],
    noise=noisy["noise"][strict],
    kept=order["n"][strict] / order["c"][strict],
    noisy_ece=noisy["ECE"][strict],
    noisy_scaled=noisy["ECE, scaled"][strict],
    noisy_calibration=noisy["calibration"][strict],
    finite=found["finite_sample"].abs().max(),
    finite_error=noisy["finite_sample_error"].max(),
    reach=math.sqrt(math.log(2 / 0.05) / (2 * len(clean_labels))),
    points=len(clean_labels),
)

# %% [markdown]
# ## Does privacy hurt ranking or calibration?
#
# Judged by clean labels, the gap is {value}`gap.gap_free:.3f` without privacy. At $\epsilon = $
# {value}`gap.strict:g` it is {value}`gap.gap_strict:.3f`. It is all ranking, yet it may grow for
# two reasons: there are more errors to rank, or they are ranked worse. The second shows in
# {term}`NAURC` {cite}`cattelan2024fix`, the gap as a fraction of that of a random order at the same
# accuracy. It is {value}`gap.naurc_free:.3f` without privacy and {value}`gap.naurc_strict:.3f` with
# it.
#
# The gap grows by {value}`gap.growth:.3f` (standard error over training runs
# {value}`gap.growth_se:.3f`). More errors in the old ranking add {value}`gap.by_errors:+.3f`, and a
# worse ranking of them {value}`gap.by_order:+.3f`.
#
# The expected calibration error is {value}`gap.ece_free:.3f` without privacy and
# {value}`gap.ece_strict:.3f` at the smallest budget. Temperature scaling makes it
# {value}`gap.scaled_strict:.3f`. The calibration term of the gap is
# {value}`gap.calibration_strict:.4f`, since a temperature hardly changes the order. Poor
# calibration misleads whoever reads the probabilities; which points are answered at a given
# coverage depends on the order alone.
#
# Most of both changes is there already at the largest budget (figure and table). Private training
# also clips gradients and has another learning rate: nothing here separates these from the noise.
#
# ## Does the answer depend on the loss?
#
# The same fraction exists for any loss: the area between the curve and that of the best order,
# divided by the same area for a random order. For squared (Brier) and logarithmic losses the best
# order is that by the loss itself, which no score knows either.

# %%
losses = [name for name in means if name.startswith("NAURC")]
chapter.table(
    means[["epsilon", "labels", *losses]],
    "losses",
    "NAURC of the largest softmax probability by loss: means over training runs",
    dict.fromkeys(losses, ".3f"),
    aside=True,
)

# %% [markdown]
# *Balanced* gives every class the same weight, as the class-balanced AUGRC of
# {cite}`traub2024overcoming` does (`labels` of {py:obj}`lib.selective.risk_areas`). With equally
# large classes it changes nothing, and with noisy labels hardly anything.
#
# ## Beside the published bound
#
# {cite:t}`rabanser2025what` *bound* the gap at coverage $c$ by
#
# $$
# \underbrace{E[1 - \eta \mid A_c]}_{\text{Bayes noise}}
# + \underbrace{E[|q - \eta| \mid A_c]}_{\text{approximation}}
# + \underbrace{E[q \mid A_c^*] - E[q \mid A_c]}_{\text{ranking}} ,
# $$
#
# with $\eta$ the probability of the most likely label, $A_c$ the accepted points and $A_c^*$ the
# best ones, plus $C \sqrt{\ln(1/\delta)/n}$. (We had an extract of the paper, not the paper.) Their
# ranking error is our ranking and calibration together. As $q \le \eta$, the first two add up to
# the selective risk $1 - E[q \mid A_c]$, whatever $\eta$ is. So the sum exceeds the gap by the
# bound's own risk and once more by the ranking error: it is no partition. Without noise, for
# instance, it counts a model's errors although a perfect order would close the gap.

# %%
over = means.assign(gap=means["noise"] + means["ranking"] + means["calibration"])
chapter.table(
    over[["epsilon", "labels", "gap", "published"]],
    "published",
    "The gap, without the finite sample, and the published bound: means over coverages",
    {"gap": ".3f", "published": ".3f"},
    aside=True,
)

# %% [markdown]
# For the finite sample there is a bound with a known constant. If labels are independent, then with
# probability 95% $c$ times the error of the curve exceeds $\sqrt{\ln(2/0.05)/2n}$ at no coverage
# $c$, by Hoeffding's inequality for maxima. That is {value}`gap.reach:.3f` with
# {value}`gap.points:,d` points. For the area alone, drawing the labels gives an error with a
# standard deviation of {value}`gap.finite_error:.4f`. The largest over all training runs was
# {value}`gap.finite:.4f`.
#
# ## People's labels
#
# Three people labeled each of CIFAR-10's training images (CIFAR-10N {cite}`wei2022learning`). With
# `labels` set to `people`, models are trained on some of these images and judged on 10,000 others.
# $q$ is then how often people choose the prediction for images of the same clean class. That
# ignores that some images of a class are harder, where models and people err together. Such noise
# shows up as a finite-sample term far beyond its error.
#
# ## What this page leaves out
#
# - Training uses clean labels. Noise in training changes the model, and with it every term.
# - The standard errors are over training runs. The points are a sample, too
#   ({py:obj}`lib.selective.estimate`), the same for all budgets.
# - A recalibration that sees features can improve the order. That is another score.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Change how much a score is blurred, and
# watch which of the terms moves.

# %% tags=["try-it"]
import numpy as np

from lib.selective import gap_decomposition

q, luck, blur = np.random.default_rng(0).random((3, 10_000))  # q: chance of being right
for much in (0.0, 0.3, 1.0):
    gap = gap_decomposition(luck < q, q + much * blur, q)
    print(f"blur {much:g}: noise {gap['noise']:.3f}, ranking {gap['ranking']:.3f}")

# %% [markdown]
# 1. The model is wrong about the hardest tenth, and its ranking is nearly right. At what fraction
#    of flipped labels is half of the gap noise?
#
#    :::{dropdown} Solution
#    Below one in a hundred. A good ranking leaves so small a gap that a few flips exceed it. No
#    score can get below the noise, so subtract it before you blame the score.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import gap_decomposition

rng = np.random.default_rng(0)
hard, u = rng.random(20_000), rng.random(20_000)  # the model is wrong about the hardest tenth
for flip in (0.0, 0.01, 0.02, 0.1):
    q = np.where(hard > 0.9, flip / 9, 1 - flip)  # chance that the label agrees
    gap = gap_decomposition(u < q, 0.1 * rng.normal(size=20_000) - hard, q)
    print(f"flips {flip:g}: noise {gap['noise']:.3f} of {gap['total']:.3f}")

# %% [markdown]
# 2. Sharpen or soften all confidences by a temperature. What happens to the gap of a binary
#    classifier?
#
#    :::{dropdown} Solution
#    Nothing: a temperature keeps the order of two-class confidences, and only the order counts. It
#    corrects what the confidences *say*. With more classes it may swap a few points.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import normalized_score

rng = np.random.default_rng(0)
p = rng.uniform(0.5, 1, 5000)
correct = rng.random(5000) < p
for temperature in (0.5, 1.0, 3.0):
    cooled = 1 / (1 + (1 / p - 1) ** (1 / temperature))
    print(f"confidence {cooled.mean():.2f}: score {normalized_score(correct, cooled):.4f}")

# %% [markdown]
# 3. A model trains longer and errs less, but its order stays as bad as a random one. Does its gap
#    shrink?
#
#    :::{dropdown} Solution
#    It does. A random order loses $-a \ln a$, which falls as accuracy $a$ approaches 1. So a
#    smaller gap does not prove a better order: compare at equal accuracy, or as a fraction of a
#    random order's gap.
#    :::

# %% tags=["solution"]
from lib.selective import random_order_score

for accuracy in (0.7, 0.8, 0.9, 0.95):
    print(f"accuracy {accuracy:g}: a random order has {random_order_score(accuracy):.3f}")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/beyond/gap.py out.ipynb -f params/quick/gap.yml -p flip 0.02
# ```
#
# ## Summary
#
# The gap to the bound is the sum of noise, ranking, calibration and finite sample; a weak model
# alone leaves none. Privacy widens it by more errors and a worse ranking. Temperature scaling
# corrects calibration and leaves the gap where it was.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers())
