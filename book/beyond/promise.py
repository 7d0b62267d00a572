# %% [markdown]
# # A promise under privacy
#
# Can a clinic keep a promise that nine of ten answers are right, and protect the patients on whom
# the threshold was chosen?
#
# **Answer.** It can: at every size and budget, at most {value}`promise.broken:.1%` of the draws
# broke the private promise.
#
# ```{result} coverage
# ```
#
# Private thresholds keep the promise with any number of validation points. A small budget costs
# coverage where points are few. A private quantile answers more, and with many points breaks the
# promise too often.
#
# **Do this.** Keep a few thousand labeled people out of the training data, and list thresholds
# before you look at theirs. Call {py:obj}`~lib.selective.private_threshold` once: every further
# call, even with another target, spends its epsilon again.
#
# ## What holds, and what does not
#
# - *Holds.* Of the draws {value}`promise.allowed:.0%` may break the promise, and private thresholds
#   stay below that at every size and budget.
# - *Caution.* A draw without a threshold answers nothing. It counts as coverage 0, and as a kept
#   promise. With few points and a small budget nearly all are such. Then, of the draws that do
#   answer, more than {value}`promise.allowed:.0%` may break the promise.
# - *Holds.* The nonprivate function ({py:obj}`lib.selective.guaranteed_threshold`) promises as much
#   if its assumption holds. It failed in at most {value}`promise.free_broken:.1%` of
#   {value}`promise.draws:d` draws. One standard error of what is allowed is
#   {value}`promise.spread:.1%`.
# - *Does not hold.* A mean is no promise for the threshold in hand. With the [private
#   quantile](#beside-it-the-private-quantile), accuracy is below the target in up to
#   {value}`promise.quantile:.0%` of the draws at a size and budget.

# %% tags=["parameters"]
dataset: str = "fashion-mnist"  # {digits, cifar10, fashion-mnist, svhn, gtsrb, gtsrb32, own} data
model: str = "mlp"  # {linear, mlp, small_cnn, resnet18} model family
epsilon: float = 3.0  # (0, 100] budget of the model
rate: float = 0.15  # (0, 100] learning rate
target: float = 0.9  # (0, 1] accuracy that is promised where the model answers
level: float = 0.95  # (0, 1) confidence of the promise
candidates: int = 32  # [1, 10000] thresholds that are tried
budgets: list[float] = [0.1, 0.3, 1.0, 3.0]  # [0.001, 100] of the threshold
sizes: list[int] = [500, 2000, 8000]  # [10, 1000000] numbers of validation points
draws: int = 100  # [2, 100000] of validation data of each size
epochs: int = 0  # [0, 1000] expected passes over the data; 0: see `steps`
steps: int = 130  # [1, 1000000] updates of the training
batch_size: int = 256  # [1, 100000] expected batch size
clipping_norm: float = 1.0  # (0, 1000] largest norm of one example's gradient
momentum: float = 0.9  # [0, 1) of the updates
schedule: str = "constant"  # {constant, cosine} of the learning rate
hidden: int = 16  # [1, 10000] hidden units of the MLP
activation: str = "tanh"  # {tanh, relu} of the MLP
device: str = "cpu"  # {cpu, cuda} where the model is trained
seed: int = 0  # [0, 1000000] of the division of the data and of all draws

# %%
from lib.book.session import open_chapter

chapter = open_chapter("promise", globals())

from lib.runs import stored_table
from lib.selective import coverage_at_accuracy
from lib.studies.beyond import promise as studies
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
    data, training, families=("plain",), epsilons=(epsilon,), n_seeds=1, rates=(rate,)
)
settings = studies.Promise(
    experiments,
    rate=rate,
    target=target,
    level=level,
    candidates=candidates,
    budgets=tuple(sorted(budgets)),
    sizes=tuple(sorted(sizes)),
    draws=draws,
    seed=seed,
)

# %%
chapter.note(data_note(dataset, used, f" ({model})"))

# %% [markdown]
# ## The idea
#
# The usual recipe publishes, as its threshold, the score of one of the labeled patients. Here
# thresholds are listed before anyone looks at the data. They are tried in turn, and a threshold
# passes if it has clearly fewer errors than the promise allows. Noise hides whether one patient
# took part. Only the first threshold that passes is released, so one budget pays for the whole
# list.
#
# ## A test that knows its noise
#
# Of $k$ points above a threshold $E$ are answered wrongly. If the accuracy there were below the
# target $a$, then $E$ would be at least binomial, $B \sim \mathrm{Bin}(k, 1 - a)$. One of $m$
# thresholds passes if
#
# $$
# c(k) - E + N \ge R , \qquad
# c(k) = \max\bigl\{c : P(B + R - N \le c) \le \tfrac{1 - \text{level}}{m}\bigr\} .
# $$ (eq-private-test)
#
# $N$ is drawn for each threshold, $R$ once; both are geometric, $P(N \ge x) = e^{-\epsilon x / 2}$.
# A threshold that breaks the promise passes with probability at most $(1 - \text{level})/m$, *over
# data and noise*, and any of them with at most $1 - \text{level}$. The lowest threshold is tried
# first. Nothing is assumed about the scores, but the points must be independent: ten visits of one
# patient are not ten patients.
#
# *Privacy.* Adding, removing or replacing one patient moves $c(k) - E$ by at most 1 at every
# threshold, and at all in the same direction. For such queries noise on one side is enough, and the
# answer spends $\epsilon$ {cite}`lyu2017understanding,liu2024ellipsis`. Counting the errors above
# each threshold with separate noise would spend it once for each.
#
# ## What it costs
#
# A model is trained privately. Its predictions on all test points are a population whose accuracy
# above any threshold is known. Validation data of several sizes are drawn from it many times, and
# each time a threshold is chosen.

# %%
trained = studies.train(settings)

# %%
found = stored_table(studies.evaluate, settings, trained.correct, trained.score)
best = coverage_at_accuracy(trained.correct, trained.score, target)

# %%
spoken = sorted(budgets)[len(budgets) // 2]
ways = found[(found["epsilon"] == spoken) | (found["way"].isin(studies.WAYS[1:3]))]
chapter.table(
    ways.drop(columns=["epsilon", "coverage se"]),
    "ways",
    f"Coverage, draws without any threshold, and draws whose promise is broken: epsilon {spoken:g}",
    dict.fromkeys(("coverage", "none", "broken"), ".3f"),
    csv=found,
)

# %%
cells = found.set_index(["way", "n", "epsilon"])
free = found[found["way"] == "not private"].set_index("n")["coverage"]
private = cells["coverage"]["private"]
few, many = min(sizes), max(sizes)

# %%
chapter.values(
    best=best,
    spoken=spoken,
    few=few,
    many=many,
    private_few=private[few, spoken],
    private_many=private[many, spoken],
    noiseless_few=cells["coverage"]["same test, no noise"].loc[few].iloc[0],
    noiseless_many=cells["coverage"]["same test, no noise"].loc[many].iloc[0],
    free_few=free[few],
    free_many=free[many],
    broken=cells["broken"]["private"].max(),
    quantile=cells["broken"]["private quantile"].max(),
    quantile_many=cells["coverage"]["private quantile"][many, spoken],
    allowed=1 - level,
    free_broken=cells["broken"]["not private"].max(),
    draws=draws,
    spread=(level * (1 - level) / draws) ** 0.5,
)

# %%
chapter.drawn(studies.draw_coverage)

# %% [markdown]
# Take {value}`promise.many:,d` points and $\epsilon = $ {value}`promise.spoken:g`. The model
# answers {value}`promise.private_many:.1%` of the cases; by the same test without noise it answers
# {value}`promise.noiseless_many:.1%`. The nonprivate function
# ({py:obj}`lib.selective.guaranteed_threshold`) reaches {value}`promise.free_many:.1%`. It takes
# its thresholds from the data and assumes that accuracy crosses the target only once.
#
# With {value}`promise.few:d` points privacy costs more. Coverage is
# {value}`promise.private_few:.1%` instead of {value}`promise.noiseless_few:.1%`. The nonprivate
# function reaches {value}`promise.free_few:.1%`.
#
# ## Beside it, the private quantile
#
# Private prediction sets {cite}`angelopoulos2021private` use a private quantile. It bounds the
# fraction of all points that are answered *and* wrong, on average over draws. Here it is given the
# fraction that yields the target accuracy, which nobody knows before the coverage is known. With
# that it answers more, {value}`promise.quantile_many:.1%` with {value}`promise.many:,d` points. But
# it promises nothing for the threshold in hand.
#
# ## Model and threshold together
#
# If nobody is in both the training and the validation data, each person's loss comes from one part
# alone, and the larger epsilon counts. Suppose the same people are in both, with different records,
# since the promise needs records that the model has not seen. Then losses add up
# ({py:obj}`lib.privacy.joint_epsilon`), to less than the sum of the epsilons.

# %%
together = stored_table(studies.compositions, trained, settings.budgets)

# %%
chapter.table(
    together,
    "together",
    f"Epsilon of model and threshold at delta = {trained.delta:.1e}",
    dict.fromkeys(("model", "no one in both", "same people", "sum"), ".2f") | {"threshold": "g"},
)

# %%
joint = together.set_index("threshold").loc[spoken]
chapter.values(model_alone=joint["model"], same_people=joint["same people"], added=joint["sum"])

# %% [markdown]
# The model, whose noise RDP chose, has spent {value}`promise.model_alone:.2f` by PLD, at the
# $\delta$ of the table. With a threshold of $\epsilon = $ {value}`promise.spoken:g` on the same
# people, both together spend {value}`promise.same_people:.2f`, not {value}`promise.added:.2f`.
#
# ## What this page leaves out
#
# - The promise is for new points like the validation points. Where they differ, nothing holds.
# - The coverage is not released, as that would cost more. Count how often the model answers in use.
# - People with several records are protected less: multiply epsilon by the number of records.
# - The model's learning rate was chosen for free: see [The price of choosing](choosing.py).
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Change the number of points, and watch
# from which epsilon on there is a threshold at all.

# %% tags=["try-it"]
import numpy as np

from lib.selective import private_threshold

score, luck = np.random.default_rng(0).random((2, 4000))
correct = luck < 0.7 + 0.3 * score
for epsilon in (0.01, 0.1, 1.0):
    found = private_threshold(correct, score, 0.9, np.linspace(0, 0.9, 91), epsilon, rng=2)
    print(f"epsilon {epsilon:g}: threshold {found.threshold}")

# %% [markdown]
# 1. What would be saved if the promise had to hold in only half of the draws?
#
#    :::{dropdown} Solution
#    Little: the threshold falls by a step or two. Confidence is cheap, since the number of errors
#    that the test allows changes only slowly with its error probability.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import private_threshold

rng = np.random.default_rng(0)
score = rng.random(4000)
correct = rng.random(4000) < 0.7 + 0.3 * score
for level in (0.95, 0.5):
    found = private_threshold(correct, score, 0.9, np.linspace(0, 0.9, 91), 1.0, level, rng=1)
    print(f"level {level:g}: answer from {found.threshold:.2f} on")

# %% [markdown]
# 2. A longer list of thresholds comes closer to the best one, but each must pass a stricter test.
#    Which effect wins?
#
#    :::{dropdown} Solution
#    The finer list, up to hundreds of entries. Dividing the level by their number costs only a
#    logarithm, while a coarse list can miss by a whole step. No privacy is lost: only the first
#    that passes is released.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.selective import private_threshold

rng = np.random.default_rng(0)
score = rng.random(4000)
correct = rng.random(4000) < 0.7 + 0.3 * score
for m in (4, 32, 512):
    found = private_threshold(correct, score, 0.9, np.arange(m) / m, 1.0, rng=1)
    print(f"{m} thresholds: answer from {found.threshold:.3f} on")

# %% [markdown]
# 3. Model and threshold are chosen on the same people. Do their epsilons add up?
#
#    :::{dropdown} Solution
#    Almost. The sum is never exceeded, and a small epsilon for the threshold adds less than itself.
#    With other people for the threshold, the larger of the two counts instead.
#    :::

# %% tags=["solution"]
from lib.privacy import PrivacyLedger, SampledGaussian, joint_epsilon

model = PrivacyLedger((SampledGaussian(0.01, 1.0, 1000),))
alone = model.epsilon(1e-5, "pld")
for threshold in (0.1, 1.0, 3.0):
    both = joint_epsilon(model, 1e-5, [threshold])
    print(f"{alone:.2f} and {threshold:g}: {both:.2f} together")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/beyond/promise.py out.ipynb -f params/quick/promise.yml -p level 0.5
# ```
#
# ## Summary
#
# A threshold with a promised accuracy can be chosen privately; the promise allows for the noise.
# With many points it answers nearly as much as the same test without noise, with few it does not.
# Model and threshold on the same people spend less than the sum of their epsilons; on different
# people, the larger of the two.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers())
