"""The gap by budget: what is trained and judged, by whom, and what the page shows of it."""

from dataclasses import replace

import numpy as np
import pytest
from chapter_cells import settings_of

from lib.data import split_rows
from lib.selective import normalized_score
from lib.studies.beyond import gap_terms

PARAMETERS = {
    **{"dataset": "digits", "model": "mlp", "hidden": 4, "activation": "tanh", "seed": 0},
    **{"epochs": 0, "steps": 20, "batch_size": 128, "clipping_norm": 1.0, "momentum": 0.9},
    **{"schedule": "constant", "device": "cpu", "epsilons": [7.0], "free_rate": 0.3, "rate": 0.6},
    **{"labels": "people", "flip": 0.3, "n_seeds": 2},
}


@pytest.fixture(scope="module")
def study():
    return settings_of("gap", PARAMETERS, "digits")


@pytest.fixture(scope="module")
def outputs(study, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        patch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
        return gap_terms.train(study)


@pytest.fixture(scope="module")
def found(study, outputs):
    return gap_terms.take_apart(study, *outputs)


def test_each_budget_has_its_rate(study):
    rates = {e: {c.learning_rate for c in job.configs} for e, job in study.jobs().items()}
    assert rates == {np.inf: {0.3}, 7.0: {0.6}}


def test_flips_are_as_often_as_told_and_to_every_other_label(study):
    labels = np.arange(40_000) % 5
    noisy, table = gap_terms.noisy_labels(study, labels, 5)
    assert noisy.shape == (2, 40_000)
    assert table.sum(axis=1) == pytest.approx(1)
    for each in noisy:
        counts = np.zeros((5, 5))
        np.add.at(counts, (labels, each), 1)
        assert np.abs(counts / 8000 - table).max() < 4.5 * np.sqrt(0.3 * 0.7 / 8000)


def test_terms_add_up_and_flips_leave_a_known_part_of_the_ranking(study, outputs, found):
    assert len(found) == 2 * 2 * 2
    total = found[[*gap_terms.TERMS, "finite_sample"]].sum(axis=1)
    assert total.to_numpy() == pytest.approx(found["total"].to_numpy(), abs=1e-12)
    clean, noisy = (found[found["labels"] == name] for name in ("clean", "noisy"))
    assert (clean[["noise", "finite_sample"]].abs() < 1e-15).all(axis=None)
    order = [(t["ranking"] + t["calibration"]).to_numpy() for t in (clean, noisy)]
    assert order[1] == pytest.approx((1 - 0.3 - 0.3 / 9) * order[0], rel=1e-9)
    z = noisy["finite_sample"] / noisy["finite_sample_error"]
    assert z.abs().max() < 4.5
    labels, logits = outputs
    p = np.exp(logits[7.0][1] - logits[7.0][1].max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    row = clean[(clean["epsilon"] == 7.0) & (clean["seed"] == 1)].iloc[0]
    correct = p.argmax(-1) == labels
    assert row["total"] == pytest.approx(normalized_score(correct, p.max(-1)), abs=1e-9)
    assert row["accuracy"] == correct.mean()
    gap_alone = noisy[["noise", "ranking", "calibration"]].sum(axis=1)
    assert (noisy["published"] > gap_alone).all()


def test_people_judge_the_images_that_were_held_out(study, monkeypatch):
    """Labels by position, and how often each is chosen for a class, from all images."""
    rng = np.random.default_rng(0)
    said = {"clean_label": rng.integers(3, size=2000)}
    said |= {
        f"random_label{k}": (said["clean_label"] + (rng.random(2000) < 0.2)) % 3 for k in "123"
    }
    monkeypatch.setattr(gap_terms, "load_cifar_labels", lambda data, kind="clean_label": said[kind])
    data = replace(study.experiments.data, train=1000, validation=300)
    people = replace(study, people=True, experiments=replace(study.experiments, data=data))
    assert {job.points for job in people.jobs().values()} == {"validation"}
    rows = np.sort(split_rows(2000, data.seed, {"train": 1000, "validation": 300})["validation"])
    noisy, table = gap_terms.noisy_labels(people, said["clean_label"][rows], 3)
    assert (noisy == [said["random_label1"][rows], said["random_label2"][rows]]).all()
    assert table == pytest.approx(0.8 * np.eye(3) + 0.2 * np.roll(np.eye(3), 1, axis=1), abs=0.05)
    with pytest.raises(ValueError, match="not in the official order"):
        gap_terms.noisy_labels(people, said["clean_label"][rows][::-1], 3)


def test_people_are_asked_of_cifar10_alone(study):
    assert not study.people
    assert {job.points for job in study.jobs().values()} == {"test"}


def test_the_figure_stacks_the_terms_and_marks_the_gap(found):
    groups = found.drop(columns="seed").groupby(["epsilon", "labels"], sort=False)
    means = groups.mean().join(groups["total"].sem().rename("total se")).reset_index()
    assert means["total se"].notna().all()
    ax = gap_terms.plot_terms(means).axes[0]
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert labels == {*gap_terms.TERMS.values(), "gap that is seen"}
    tops = [bar.get_y() + bar.get_height() for bar in ax.containers[2]]
    clean = means[means["labels"] == "clean"]
    assert tops == pytest.approx(clean[[*gap_terms.TERMS]].sum(axis=1).tolist())
