"""Pictures of a paper's table: which number and which interval stand for the paper and for us."""

from dataclasses import replace

import numpy as np

from lib.book.claims import Claim, read_claims
from lib.book.pictures import draw_cells
from lib.book.records import read_records
from lib.plot import CHECK_FIGURES, svg_pair


def cells(picture: str, numbers: dict[str, tuple[float, float | None]], **verdict):
    """Claims and verdicts of a group: a cell's place to the printed value and ours."""
    claims, found = [], {}
    for i, (place, (paper, ours)) in enumerate(numbers.items()):
        claims.append(
            Claim(
                *(f"A{i}", "P1", "one", place, "It is.", "exact", "arithmetic."),
                reported=paper,
                tolerance=0.1,
                group="P1, Table 1",
                picture=picture,
                axis="an axis",
            )
        )
        found[f"A{i}"] = {"value": ours, "shown": None, "interval": None} | verdict
    return claims, found


def points(ax, label: str) -> list[tuple[float, float]]:
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return [tuple(map(float, at)) for at in zip(*line.get_data(), strict=True)]


def test_an_interval_of_another_number_than_the_one_shown_is_not_drawn():
    numbers = {"Table 1, a, x": (0.5, 3.0), "Table 1, b, x": (0.5, 3.0)}
    for shown, drawn in ((None, 0.125), (3.0, 0.125), (0.4, np.nan)):
        claims, found = cells("dots", numbers, interval=[0.125, 4], shown=shown)
        (line,) = draw_cells(claims, found).axes[0].collections[1].get_segments()[:1] or [None]
        left = np.nan if line is None or not len(line) else line[0][0]
        np.testing.assert_equal(left, drawn)
        figure = draw_cells(claims, found)
        (ax, _) = figure.axes
        assert points(ax, "ours") == [(3.0 if shown is None else shown, 0)]
        assert points(ax, "paper") == [(0.5, 0)]
        away = f"{0.1 if shown == 0.4 else 2.5:.2f}"
        said = f"0 of 2 numbers come out within 0.05;\nthe largest difference is {away}"
        assert figure.get_suptitle() == said


def test_many_cells_stand_beside_the_diagonal():
    numbers = {"Table 1, a, x, fpr": (0.5, 0.504), "Table 1, a, y, fpr": (0.2, None)}
    figure = draw_cells(*cells("diagonal", numbers | {"Table 1, b, x, accuracy": (0.8, 0.8)}))
    assert figure.get_suptitle().endswith("the largest difference is under 0.005")
    a, b = figure.axes
    assert points(a, "fpr")[0] == (0.5, 0.504)
    assert points(b, "accuracy") == [(0.8, 0.8)]
    said = [text.get_text() for ax in (a, b) for text in ax.texts]
    assert sorted(said) == ["a", "accuracy", "b", "false positive rate"]
    colors = {text.get_text(): text.get_color() for text in a.texts}
    (line,) = [line for line in b.lines if line.get_label() == "accuracy"]
    assert line.get_color() == colors["accuracy"]


def test_a_printed_standard_deviation_is_drawn_as_the_interval_of_its_mean():
    claims, found = cells("dots", {"Table 1, a, x": (0.5, 3.0), "Table 1, a, y": (0.5, 3.0)})
    claims[0] = replace(claims[0], sd=0.1, full_scale={"n_seeds": 5})
    axes = draw_cells(claims, found).axes
    with_sd, without = (ax.collections[0].get_segments()[0][:, 0] for ax in axes)
    half = 2.776445 * 0.1 / 5**0.5  # the 97.5% point of Student's t with 4 degrees of freedom
    np.testing.assert_allclose(with_sd, [0.5 - half, 0.5 + half], rtol=1e-6)
    assert np.ptp(without) == 0
    assert replace(claims[0], full_scale={}).reach == 0  # of one training nothing follows


def test_slopes_say_at_how_many_steps_numbers_move_as_the_papers_do():
    places = ["SVHN, SR, epsilon = 7", "SVHN, SR, epsilon = 1"]
    places += ["GTSRB, SR, epsilon = 7", "GTSRB, SR, epsilon = 1"]
    numbers = [(0.9, 0.8), (0.4, 0.9), (0.5, 0.5), (0.2, None)]
    given = {f"Table 1, {p}": pair for p, pair in zip(places, numbers, strict=True)}
    paper, ours, *_ = draw_cells(*cells("slopes", given)).axes
    assert paper.get_title(loc="left").endswith("at\n2 of 2 steps printed, 0 of 1 of ours")
    assert points(paper, "SR") == [(0, 0.9), (1, 0.4)]
    assert points(ours, "SR") == [(0, 0.8), (1, 0.9)]
    assert paper.get_ylim() == ours.get_ylim()
    said = {text.get_text() for text in paper.texts}
    assert said == {"softmax response", "SVHN, paper"}


def test_without_a_number_of_ours_or_a_wish_there_is_no_picture():
    numbers = {"Table 1, a, x": (0.5, None), "Table 1, b, x": (0.5, None)}
    assert draw_cells(*cells("dots", numbers)) is None
    assert draw_cells(*cells("", dict.fromkeys(numbers, (0.5, 0.5)))) is None


def test_tables_fit_their_pictures_in_recorded_runs(root, monkeypatch):
    """Of each table in the runs that have the fewest and the most of its numbers.

    A run of a single data set has a picture with a single plot.
    """
    monkeypatch.setenv(CHECK_FIGURES, "1")
    groups: dict[str, list[Claim]] = {}
    for claim in read_claims(root / "book" / "claims.yml").values():
        if claim.picture:
            groups.setdefault(claim.group, []).append(claim)
    assert len(groups) >= 5
    none = {"value": None, "shown": None, "interval": None}
    for group, claims in groups.items():
        assert len({(claim.picture, claim.axis) for claim in claims}) == 1
        sizes = {}
        for run in read_records(root / "book", claims[0].chapter).values():
            found = {verdict["id"]: verdict for verdict in run["verdicts"]}
            of = {claim.id: found.get(claim.id, none) for claim in claims}
            sizes[sum(each["value"] is not None for each in of.values())] = of
        for of in [sizes[size] for size in {min(sizes), max(sizes)}]:
            svg_pair(draw_cells(claims, of), group)
