"""Pictures of a paper's table: what is drawn where, from the places of the cells."""

from dataclasses import replace

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba

from lib.book.claims import Claim, read_claims
from lib.book.pictures import draw_cells
from lib.plot import COLOURS, svg_pair


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


def test_dots_stand_beside_each_other_in_the_rows_of_their_panel():
    claims, found = cells(
        "dots",
        {
            "Table 1, SVHN, SR, epsilon = 7": (0.5, 0.25),
            "Table 1, SVHN, SR, epsilon = 1": (0.75, None),
            "Table 1, gtsrb, SR, epsilon = 7": (0.1, 0.2),
            "Table 1, none of ours, SR, epsilon = 7": (0.1, None),
        },
        interval=[0.125, None],
    )
    figure = draw_cells(claims, found)
    first, second = figure.axes  # a panel without a number of ours is left out
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["SVHN", "GTSRB"]
    assert points(first, "paper") == [(0.5, 0), (0.75, 1)]
    assert points(first, "ours")[0] == (0.25, 0)
    assert np.isnan(points(first, "ours")[1][0])
    assert points(second, "paper") == [(0.1, 0)]


def test_an_interval_of_another_number_than_the_one_shown_is_not_drawn():
    numbers = {"Table 1, a, x": (0.5, 3.0), "Table 1, b, x": (0.5, 3.0)}
    for shown, drawn in ((None, 0.125), (3.0, 0.125), (0.4, np.nan)):
        claims, found = cells("dots", numbers, interval=[0.125, 4], shown=shown)
        (line,) = draw_cells(claims, found).axes[0].collections[1].get_segments()[:1] or [None]
        left = np.nan if line is None or not len(line) else line[0][0]
        np.testing.assert_equal(left, drawn)
        at = points(draw_cells(claims, found).axes[0], "ours")
        assert at == [(3.0 if shown is None else shown, 0)]


def test_a_printed_standard_deviation_is_drawn_as_the_interval_of_its_mean():
    claims, found = cells("dots", {"Table 1, a, x": (0.5, 3.0), "Table 1, a, y": (0.5, 3.0)})
    claims[0] = replace(claims[0], sd=0.1, full_scale={"n_seeds": 5})
    axes = draw_cells(claims, found).axes
    with_sd, without = (ax.collections[0].get_segments()[0][:, 0] for ax in axes)
    half = 2.776445 * 0.1 / 5**0.5  # the 97.5% point of Student's t with 4 degrees of freedom
    np.testing.assert_allclose(with_sd, [0.5 - half, 0.5 + half], rtol=1e-6)
    assert np.ptp(without) == 0
    assert replace(claims[0], full_scale={}).reach == 0  # of one training nothing follows


def test_intervals_run_from_their_low_to_their_high_end():
    claims, found = cells(
        "intervals",
        {
            "Table 5, cifar10, H, low end": (1.0, 1.5),
            "Table 5, cifar10, H, high end": (2.0, 2.5),
            "Table 5, cifar10, L, low end": (0.0, 0.25),
            "Table 5, cifar10, L, high end": (0.5, 0.75),
            "Table 5, cifar100, L, low end": (0.0, 0.25),
            "Table 5, cifar100, L, high end": (0.5, 0.75),
        },
    )
    first = draw_cells(claims, found).axes[0]
    assert first.get_title(loc="left") == "CIFAR-10"
    lines = {
        tuple(c.get_color()[0]): [(a[0], b[0]) for a, b in c.get_segments()]
        for c in first.collections
    }
    assert lines == {
        to_rgba("0.45"): [(1, 2), (0, 0.5)],
        to_rgba(COLOURS[0]): [(1.5, 2.5), (0.25, 0.75)],
    }


def test_heat_maps_write_both_numbers_and_colour_their_difference():
    names = ("ID", "OOD")
    claims, found = cells(
        "heat",
        {
            f"Table 5, {kind}, {signal}, {metric}": (0.5, 0.5 + 0.01 * i)
            for kind in names
            for i, (signal, metric) in enumerate(
                [("z", "fpr"), ("z", "roc_auc"), ("a", "fpr"), ("a", "roc_auc")]
            )
        },
    )
    first = draw_cells(claims, found).axes[0]
    assert first.texts[1].get_text() == "0.510\n(0.500)"
    np.testing.assert_allclose(np.ravel(first.collections[0].get_array()), [0, 0.01, 0.02, 0.03])


def test_without_a_number_of_ours_or_a_wish_there_is_no_picture():
    numbers = {"Table 1, a, x": (0.5, None), "Table 1, b, x": (0.5, None)}
    assert draw_cells(*cells("dots", numbers)) is None
    assert draw_cells(*cells("", dict.fromkeys(numbers, (0.5, 0.5)))) is None


def test_every_group_of_the_book_can_be_drawn(root):
    claims = read_claims(root / "book" / "claims.yml").values()
    groups = dict.fromkeys(c.group for c in claims if c.picture)
    assert len(groups) >= 5
    for group in groups:
        of = [c for c in claims if c.group == group]
        assert len({(c.picture, c.axis) for c in of}) == 1
        found = {c.id: {"value": c.reported, "interval": None} for c in of}
        assert draw_cells(of, found) is not None
        plt.close("all")


def test_slopes_show_the_paper_beside_ours_on_one_scale():
    numbers = {
        f"Table 2, {data}, {method}, epsilon = {epsilon}": (paper, ours)
        for data, method, epsilon, paper, ours in (
            ("SVHN", "SR", "inf", 0.2, 0.9),
            ("SVHN", "SR", "1", 0.4, 0.8),
            ("SVHN", "DE", "inf", 0.1, None),
            ("SVHN", "DE", "1", 0.3, 0.7),
            ("gtsrb", "SR", "inf", 0.001, 0.002),
            ("gtsrb", "SR", "1", 0.02, 0.1),
        )
    }
    claims, found = cells("slopes", numbers, interval=[-1.5, None])
    claims = [replace(claim, axis="score") for claim in claims]
    figure = draw_cells(claims, found)
    paper, ours, small, _ = figure.axes
    assert [ax.get_title() for ax in figure.axes[:2]] == ["SVHN, paper", "SVHN, ours"]
    assert points(paper, "SR") == [(0, 0.2), (1, 0.4)]
    assert np.isnan(points(ours, "DE")[0][1])
    assert points(ours, "DE")[1] == (1.05, 0.7)
    assert paper.get_ylim() == ours.get_ylim()
    assert paper.get_ylim()[0] < 0.1 < 0.9 < ours.get_ylim()[1]
    assert (paper.get_yscale(), small.get_yscale()) == ("linear", "log")
    assert [t.get_text() for t in small.get_xticklabels()] == [r"$\infty$", "1"]
    bars = [segment for line in ours.collections for segment in line.get_segments()]
    assert all(0 <= y <= 1 for segment in bars for _, y in segment if not np.isnan(y))
    svg_pair(figure, "s")
    tops = np.reshape([round(ax.get_position().y1, 2) for ax in figure.axes], (2, 2))
    assert len(set(tops[:, 0])) == len(set(tops[:, 1])) == 1  # the paper's above ours
    assert tops[0, 0] > tops[0, 1]
