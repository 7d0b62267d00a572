"""One model under six lenses: each agrees with a direct call of the package that it comes from."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from chapter_cells import settings_of

from lib import audit, selective
from lib.audit import error_free_bound, one_label_bound, trials_needed
from lib.data.shifts import corrupt
from lib.privacy import label_guarantee
from lib.privacy.accounting import group_guarantee
from lib.runs import Checkpoint
from lib.studies.audit.system import AuditContradiction
from lib.studies.beyond.six_lenses import figures
from lib.studies.beyond.six_lenses.lens_audits import (
    HEADLINE,
    audit_record,
    faulty,
    label_canaries,
    ledger_of,
)
from lib.studies.beyond.six_lenses.lens_jobs import Pipeline, RecordTrainings
from lib.studies.beyond.six_lenses.views import (
    abstention,
    classify,
    compare_answers,
    decisions,
    suitability,
    trained,
)
from lib.studies.canaries.mechanisms import CanaryContradiction
from lib.studies.default_problem import at_hand
from lib.suitability import SuitabilityFilter, signals
from lib.training import train_many

SHIFTS = (("rotation", 0.0), ("rotation", 60.0), ("gaussian_noise", 0.05))


GIVEN = {"model": "mlp", "epsilon": 1.0, "learning_rate": 2.0, "plain_learning_rate": 1.0}
GIVEN |= {"points": 300, "validation": 300, "test": 400, "hidden": 8, "batch_size": 60}
GIVEN |= {"steps": 40, "plain_steps": 60}


def small(dataset="digits", **changes):
    return settings_of("six_lenses", GIVEN | changes, dataset)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield


@pytest.fixture(scope="module")
def models(store):
    return classify(small(epsilon=20.0), SHIFTS)


@pytest.fixture(scope="module")
def broken(store):
    """Claims epsilon = 1 and has a hundredth of the noise."""
    return audit_record(small(), 40, 240, noise_factor=0.01)


@pytest.fixture(scope="module")
def right(store):
    return audit_record(small(), 40, 240)


# ------------------------------------------------------------------ what is trained


def test_one_configuration_everywhere():
    settings = small()
    private = settings.config()
    for purpose in ("audit", "fault", "canaries"):
        assert replace(settings.config(purpose), seed=private.seed) == private
    plain = settings.config("plain")
    assert not plain.private
    assert (plain.model, plain.sample_rate) == (private.model, private.sample_rate)
    fault = faulty(settings, 0.5)
    sigma = ledger_of(settings).entries[0].noise_multiplier
    assert fault.noise_multiplier == 0.5 * sigma
    same = replace(fault, noise_multiplier=None, epsilon=1.0, seed=private.seed)
    assert same == private


def test_no_two_purposes_share_seeds():
    purposes = ("private", "plain", "audit", "fault", "canaries", "plain canaries")
    seeds = [small(seed=s).config(p).seed for s in (0, 1) for p in purposes]
    assert min(np.diff(sorted(seeds))) >= 1_000_000


def test_models_are_those_of_a_direct_training(models):
    settings = models.settings
    loaded = settings.data.load()
    configs = [settings.config("private"), settings.config("plain")]
    for k, result in enumerate(train_many(configs, loaded.training, loaded.evaluation)):
        np.testing.assert_allclose(models.arrays["test"][k], result.logits, atol=1e-5)
        assert models.correct("test", ("private", "plain")[k]).mean() == result.accuracy(
            loaded.labels
        )


def test_the_guarantee_is_the_accountants(models):
    settings, found = models.settings, trained(models)
    assert found.epsilon == pytest.approx(20.0, abs=0.05)
    assert found.epsilon <= 20.0
    assert found.noise_multiplier == ledger_of(settings).entries[0].noise_multiplier
    assert found.sample_rate == 0.2
    assert found.accuracy[1] < found.accuracy[0] < found.accuracy[2]
    private, plain = models.correct("test"), models.correct("test", "plain")
    assert found.lost[0] == pytest.approx(plain.mean() - private.mean(), abs=1e-12)


# ------------------------------------------------------------------ populations


def test_the_pipeline_reads_what_the_training_data_read():
    data = small().data
    pipeline = Pipeline.of(data)
    np.testing.assert_array_equal(pipeline.transform(pipeline.images), data.load().evaluation)
    rows = [5, 2]
    np.testing.assert_array_equal(
        pipeline.shifted("blur", 0.5, rows, 3),
        corrupt(pipeline.images[rows], "blur", 0.5, 3).reshape(2, 64),
    )


def test_the_pipeline_of_images():
    data = small(model="small_cnn").data
    pipeline = Pipeline.of(data)
    assert data.features == "images"
    np.testing.assert_array_equal(pipeline.transform(pipeline.images), data.load().evaluation)
    assert pipeline.record().shape == pipeline.images.shape[1:]
    assert pipeline.shifted("blur", 0.5, [5, 2], 3).shape == (2, *pipeline.images.shape[1:])


def test_the_pipeline_of_patches(monkeypatch):
    """Without the data: random images in the place of CIFAR-10."""
    from lib.data import ImageSet
    from lib.studies.beyond.six_lenses import lens_jobs as lenses
    from lib.training import DataSpec, jobs

    rng = np.random.default_rng(0)
    sets = {
        split: ImageSet(
            "cifar10",
            rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8),
            rng.integers(0, 10, n),
            tuple("abcdefghij"),
        )
        for split, n in (("train", 60), ("test", 30))
    }
    for module in (lenses, jobs):
        monkeypatch.setattr(module, "load_images", lambda name, split: sets[split])
    monkeypatch.setattr(jobs, "cached_features", lambda a, b, c, compute: compute())
    data = DataSpec("cifar10", "patches", train=20, test=11, validation=7, public=25, seed=3)
    pipeline = Pipeline.of(data)
    np.testing.assert_allclose(
        pipeline.transform(pipeline.images), data.load().evaluation, atol=1e-5
    )
    assert pipeline.record().shape == (2048,)


def test_the_record_is_like_no_digit():
    pipeline = Pipeline.of(small().data)
    record = pipeline.record()
    assert set(np.unique(record)) == {0.0, 1.0}
    nearest = np.linalg.norm(small().data.load().training.inputs - record, axis=1).min()
    others = small().data.load().training.inputs
    between = np.linalg.norm(others[1:] - others[0], axis=1).max()
    assert nearest > between * 0.9


def test_suitability_is_the_filters(models):
    table = suitability(models, 0.05, 0.05)
    assert list(table["shift"]) == ["none", "rotation", "gaussian_noise"]
    the_filter = SuitabilityFilter(0.05, 0.05)
    the_filter.fit(signals(models.logits("validation")), models.correct("validation"))
    reference, users = models.arrays["reference"], models.arrays["users"]
    assert sorted([*reference, *users]) == list(range(400))
    for row, logits in zip(table.itertuples(), models.logits("shifted"), strict=True):
        decision = the_filter.decide(signals(models.logits()[reference]), signals(logits))
        assert row[3] == decision.p_value
        assert (row.decision == "SUITABLE") == decision.suitable
    # Nothing shifted: the same answers. A strong rotation: unsuitable, and not accepted.
    np.testing.assert_allclose(models.logits("shifted")[0], models.logits()[users], atol=1e-5)
    assert table["drop on these images"].iloc[0] == 0
    assert table["drop on these images"].iloc[1] > 0.3
    assert list(table["truth"].iloc[:2]) == ["suitable", "unsuitable"]
    assert table["decision"].iloc[1] == "INCONCLUSIVE"
    drop = models.correct()[users].mean() - models.correct("shifted")[1].mean()
    assert table["drop on these images"].iloc[1] == pytest.approx(drop)


def test_suitable_only_where_the_interval_says_so(models):
    """A margin inside the interval of the drop decides nothing, on either side of the value."""
    drop, low, high = suitability(models, 0.05)[["drop on these images", "low", "high"]].iloc[1]
    assert low < drop < high
    for margin, said in (
        (high + 1e-6, "suitable"),
        (high - 1e-6, "undecided"),
        (drop, "undecided"),
        (low + 1e-6, "undecided"),
        (low - 1e-6, "unsuitable"),
    ):
        assert suitability(models, float(margin))["truth"].iloc[1] == said


# ------------------------------------------------------------------ abstention


def test_abstention_is_lib_selectives(models):
    found = abstention(models, 0.9)
    right, sure = models.correct(), models.probabilities().max(axis=1)
    assert found.score == selective.estimate(right, sure)
    kept = sure >= found.threshold
    assert found.coverage[0] == kept.mean()
    assert found.accuracy[0] == right[kept].mean()
    assert found.accuracy[0] >= right.mean()


def test_the_threshold_is_chosen_on_the_validation_points_alone(models):
    found = abstention(models, 0.9)
    known = models.probabilities("validation").max(axis=1)
    right = models.correct("validation")
    assert right[known >= found.threshold].mean() >= 0.9
    lower = known[known < found.threshold].max()
    assert right[known >= lower].mean() < 0.9
    other = replace(models, arrays=dict(models.arrays) | {"labels": models.arrays["labels"][::-1]})
    assert abstention(other, 0.9).threshold == found.threshold


def test_points_of_one_confidence_are_answered_together(models):
    """Averaged over the tie, accuracy at a coverage of 4/6 is 0.92; from 0.6 on it is 5/6."""
    known = np.array([0.9, 0.9, 0.9, 0.6, 0.6, 0.6])
    labels = np.array([0, 0, 0, 0, 0, 1])
    logits = np.stack([np.log(known), np.log(1 - known)], axis=1)
    arrays = dict(models.arrays) | {
        "validation": np.stack([logits, logits]),
        "validation_labels": labels,
    }
    made = replace(models, arrays=arrays)
    sure = made.probabilities("validation").max(axis=1)
    for target in (0.84, 0.9, 0.95, 1.0):
        found = abstention(made, target)
        assert found.threshold == pytest.approx(0.9)
        kept = sure >= found.threshold
        assert made.correct("validation")[kept].mean() >= target
    assert abstention(made, 0.83).threshold == pytest.approx(0.6)


def test_an_unreachable_target(models):
    arrays = dict(models.arrays)
    arrays["validation_labels"] = (models.logits("validation").argmax(axis=1) + 1) % 10
    found = abstention(replace(models, arrays=arrays), 0.5)
    assert math.isinf(found.threshold)
    assert found.coverage[0] == 0
    assert found.accuracy == (1.0, 0.0, 1.0)


# ------------------------------------------------------------------ audit


def test_a_broken_mechanism_contradicts_its_claim(broken, right):
    right.require_consistent()
    assert right.lower() <= right.result.proven
    with pytest.raises(AuditContradiction, match=r"but the accountant proves 1\.000"):
        broken.require_consistent()
    assert broken.lower() > 1.0
    assert broken.noise_multiplier == pytest.approx(0.01 * right.noise_multiplier)
    assert broken.result.noise_multiplier == right.result.noise_multiplier


def test_the_audit_is_lib_audits(broken):
    for attack in ("LiRA", "loss", "gradient alignment"):
        threshold = broken.result.held_out_threshold(attack, 0.95)
        counts = audit.counts_at(broken.result.scores[attack], broken.result.members, threshold)
        assert tuple(broken.counts(attack).__dict__.values()) == tuple(counts)
        table = audit.AttackCounts(*counts.tolist())
        low = audit.epsilon_interval(table, 1e-5, 0.95, "clopper-pearson", "lower")[0]
        assert broken.lower(attack) == low <= broken.ceiling
        assert broken.bayesian(attack) == audit.epsilon_interval(table, 1e-5, 0.95)
    assert list(broken.table()["attack"]) == ["LiRA", "loss", "gradient alignment"]


def test_trainings_go_on_after_a_chunk(tmp_path):
    job = RecordTrainings(faulty(small(), 0.01), small().data, 6, chunk=4)
    whole = job.execute(Checkpoint())
    np.testing.assert_array_equal(whole.arrays["members"], job.coins())
    assert 0 < job.coins().sum() < 6
    assert whole.privacy["noise_multiplier"] == job.config.noise_multiplier
    interrupted = Checkpoint(tmp_path)
    save = interrupted.save
    interrupted.save = lambda *state: (save(*state), 1 / 0)
    with pytest.raises(ZeroDivisionError):
        job.execute(interrupted)
    resumed = job.execute(Checkpoint(tmp_path))
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array, resumed.arrays[name])


def test_the_ceiling_is_that_of_the_coins(right):
    """No guesses about these trials show more, and a perfect attack is not above its ceiling."""
    members = np.asarray(right.result.members)
    n, m = int(members.sum()), int((~members).sum())
    assert n != m
    tp, tn = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    rows = np.stack([tp, m - tn, tn, n - tp], axis=-1).reshape(-1, 4)
    bounds = audit.epsilon_lower_bounds(rows, 1e-5, right.level, "clopper-pearson")
    assert right.ceiling == bounds.max()
    _, shadow = right.result.held_out[HEADLINE]
    perfect = replace(
        right.result,
        scores={HEADLINE: members.astype(float)},
        held_out={HEADLINE: (shadow.astype(float), shadow)},
    )
    assert replace(right, result=perfect).lower() == right.ceiling


def test_halves_do_not_prove_most():
    for n, bound in ((150, 3.693), (148, 3.706), (268, 4.177)):
        assert error_free_bound(n, 300 - n, 1e-5) == pytest.approx(bound, abs=5e-4)
        assert error_free_bound(300 - n, n, 1e-5) == pytest.approx(bound, abs=5e-4)
    assert error_free_bound(0, 300, 1e-5) == error_free_bound(300, 0, 1e-5) == 0


def test_what_an_audit_can_show_at_most():
    half = trials_needed(2.0, 1e-5, 0.9) // 2
    bounds = [error_free_bound(n, n, 1e-5, 0.9) for n in (half - 1, half)]
    assert bounds[0] <= 2.0 < bounds[1]
    # By hand: no error in n trials of each kind leaves a rate of at most 1 - tail^(1 / n).
    rate = 1 - 0.025 ** (1 / 50)
    assert error_free_bound(50, 50, 0.0) == pytest.approx(math.log((1 - rate) / rate))


# ------------------------------------------------------------------ labels


def test_the_guarantee_for_labels():
    """The smaller of two proofs: another gradient in the same place, and group privacy."""
    ledger = ledger_of(small())
    replaced = ledger.epsilon(1e-5, "pld", neighbours="replace")
    group = group_guarantee(ledger, 1e-5, 2)
    assert label_guarantee(ledger, 1e-5) == replaced < group
    assert replaced > ledger.epsilon(1e-5, "pld")


def test_canaries_are_lib_canaries(store):
    settings = small(plain_steps=600, steps=20)
    found = label_canaries(settings, 30, 3)
    found.require_consistent()
    private, plain = found.private, found.plain
    assert private.confidences.shape == (1, 90, 10)
    assert private.claimed == label_guarantee(ledger_of(settings), 1e-5)
    assert math.isinf(plain.claimed)
    for name, each in (("private", private), ("plain", plain)):
        direct = one_label_bound(
            each.confidences[0],
            each.canary_labels,
            each.true_labels,
            level=0.95,
            delta=1e-5,
            seed=0,
        )
        assert found.lower(name) == direct
    # A model that tells every trained label shows the ceiling, at the same correction.
    perfect = replace(private, confidences=np.eye(10)[private.canary_labels][None])
    assert replace(found, private=perfect).lower() == pytest.approx(found.ceiling, rel=1e-9)
    assert found.lower("plain") <= found.ceiling
    assert list(found.table()["ceiling"]) == [found.ceiling] * 2
    # Trained to remember, the competitor leaks more; a false claim about it is refuted.
    assert found.lower("plain") > found.lower()
    assert found.remembered("plain") > found.remembered()
    lying = replace(found, private=replace(plain, claimed=0.01))
    with pytest.raises(CanaryContradiction, match=r"0\.010 is proven"):
        lying.require_consistent(0.99)  # delta takes its part of the error


# ------------------------------------------------------------------ comparison


def test_the_truth_beside_the_comparison(models):
    table = compare_answers(models, 8)
    truth = models.correct().mean() - models.correct("test", "plain").mean()
    np.testing.assert_allclose(table["oracle"], truth)
    # With told propensities the estimate is unbiased given the points: its mean is near the truth.
    error = table["known_value"].std(ddof=1) / math.sqrt(len(table))
    assert abs(table["known_value"].mean() - truth) < 5 * error


# ------------------------------------------------------------------ words


def decided(models, **changes):
    given = {
        "training": trained(models),
        "abstaining": abstention(models, 0.9),
        "populations": suitability(models, 0.05),
        "record": {"lower": 0.5, "proven": 8.0, "ceiling": 3.0},
        "labels": {"lower": 0.0, "proven": 20.0, "ceiling": 5.0},
        "difference": {"low": -0.1, "high": 0.1},
    }
    return decisions(**(given | changes))


def test_words_follow_from_numbers(models):
    words = decided(models)
    assert list(words) == [
        "training",
        "abstention",
        "suitability",
        "audit",
        "labels",
        "counterfactual",
    ]
    assert words["counterfactual"] == "Which one is better cannot be told from this"
    ahead = decided(models, difference={"low": 0.01, "high": 0.1})
    assert ahead["counterfactual"] == "The private model would be the better one"
    behind = decided(models, difference={"low": -0.1, "high": -0.01})
    assert behind["counterfactual"] == "The competitor would be the better one"
    for lost, said in (
        ((0.03, 0.01, 0.05), "Less accurate than the competitor"),
        ((-0.03, -0.05, -0.01), "More accurate than the competitor"),
        ((0.0, -0.01, 0.01), "No difference to the competitor can be shown"),
    ):
        training = replace(trained(models), lost=lost)
        assert decided(models, training=training)["training"] == said


@pytest.mark.parametrize(
    ("lower", "ceiling", "said"),
    [
        (0.5, 3.0, "finds something, and could not have contradicted the proof with so many "),
        (0.0, 8.0, "shows nothing, and could not have contradicted the proof with so many "),
        (0.5, 8.1, "finds something, and less than is proven"),
        (0.0, 8.1, "shows nothing, though it could have contradicted the proof"),
        (8.1, 8.2, "contradicts the proof"),
    ],
)
def test_words_on_attacks_say_what_could_have_come_out(models, lower, ceiling, said):
    given = {"lower": lower, "proven": 8.0, "ceiling": ceiling}
    words = decided(models, record=given, labels=given)
    for lens, trials in (("audit", "trials"), ("labels", "canaries")):
        assert words[lens] == f"The attack {said}{trials if said.endswith(' ') else ''}"


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (0, 0, "No answers"),
        (1, 0, "Not contradicted: above the target, but the interval reaches below"),
        (28, 2, "Not contradicted: above the target, but the interval reaches below"),
        (300, 3, "Yes, with this threshold"),
        (8, 1, "Below the target, within its error"),
        (200, 100, "Below the target"),
    ],
)
def test_yes_only_where_the_interval_is_above_the_target(models, right, wrong, said):
    """With a threshold above which some answers are right and some wrong."""
    n = len(models.arrays["labels"])
    logits = np.zeros((n, 10))
    logits[: right + wrong, 0] = 50.0
    labels = np.where(np.arange(n) < right, 0, 1)
    known = np.zeros((20, 10))
    known[:, 0] = 50.0
    arrays = dict(models.arrays) | {
        "test": np.stack([logits, logits]),
        "labels": labels,
        "validation": np.stack([known, known]),
        "validation_labels": np.zeros(20, dtype=int),
    }
    abstaining = abstention(replace(models, arrays=arrays), 0.9)
    assert abstaining.coverage[0] == (right + wrong) / n
    assert decided(models, abstaining=abstaining)["abstention"] == said


def test_words_on_populations_count_the_clear_ones(models):
    said = ["SUITABLE", "INCONCLUSIVE", "INCONCLUSIVE", "SUITABLE"]
    truth = ["suitable", "unsuitable", "suitable", "undecided"]
    table = pd.DataFrame({"decision": said, "truth": truth})
    words = "Accepted 1 of the 2 clearly suitable populations and none of the 1 clearly unsuitable"
    found = decided(models, populations=table)["suitability"]
    assert found == f"{words} ones; 1 undecided, 1 of them accepted"
    cautious = table.assign(decision="INCONCLUSIVE")
    words = "Accepted 0 of the 2 clearly suitable populations and none of the 1 clearly unsuitable"
    assert decided(models, populations=cautious)["suitability"] == f"{words} ones; 1 undecided"
    fooled = table.assign(decision="SUITABLE")
    assert " 1 of the 1 clearly unsuitable " in decided(models, populations=fooled)["suitability"]


def test_the_ladder_shows_what_canaries_could(right, broken):
    labels = SimpleNamespace(
        lower=lambda which="private": 0.5, ceiling=3.25, private=SimpleNamespace(claimed=9.0)
    )
    (axes,) = figures.plot_ladder(right, broken, labels).axes
    (line,) = [line for line in axes.lines if line.get_label() == "shown at most"]
    np.testing.assert_array_equal(line.get_xdata(), [right.ceiling, broken.ceiling, 3.25, 3.25])


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: at_hand("mnist"), "name must be one of .*, got 'mnist'"),
        (lambda: small(epsilon=0.0), "epsilon must be .* above 0"),
        (lambda: small(batch_size=301).config(), "sample_rate must be"),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_digits_stand_in_where_data_are_not_there(monkeypatch):
    monkeypatch.setattr("lib.studies.default_problem.at_hand", lambda dataset: "digits")
    found = small("cifar10", points=10000, validation=1000, test=2000, batch_size=512, epsilon=3.0)
    assert found.data.name == "digits"
    assert (found.data.train, found.training.batch_size, found.training.epsilon) == (900, 128, 3.0)
