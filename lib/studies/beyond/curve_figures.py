"""Figures of the page on curves; apart from trade_offs.py, which enters stored runs' keys."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from lib.plot import COLOURS, new_figure, panels
from lib.studies.beyond.trade_offs import Channel, refuted
from lib.studies.headed import head_rows, words_above


def best_attack(channel: Channel, fpr: float) -> str:
    """The attack that finds most members at a false positive rate."""
    return max(channel.attacks, key=lambda name: channel.attacks[name].tpr(fpr)[0])


def falls_short(channel: Channel, fpr: float) -> bool:
    """Whether even the upper limit of the best attack is below what the proof allows."""
    high = channel.attacks[best_attack(channel, fpr)].tpr(fpr)[2]
    return bool(high < 1 - channel.proven.fnr(fpr))


def reached_headline(channels: Sequence[Channel], fpr: float) -> str:
    """Where attacks fall short of what the proof allows, beyond their limits, and where not.

    Where they do nowhere, the one that is farthest below says by how much.
    """
    reach, short, below = [], [], []
    for channel in channels:
        what = channel.name.partition(",")[0]
        what = {"hard case": "the hard case"}.get(what, what)
        (short if falls_short(channel, fpr) else reach).append(what)
        found = channel.attacks[best_attack(channel, fpr)].tpr(fpr)[0]
        below.append((1 - channel.proven.fnr(fpr) - found, what, found))
    near, far = (" and ".join(names) for names in (reach, short))
    if reach and short:
        return f"Attacks on {far} fall short of what is\nproven; on {near} that cannot be told"
    if short:
        return f"On {far}\nattacks fall short of what is proven"
    gap, what, found = max(below)
    return (
        f"Attacks on {what} find {found:.0%}, where {found + gap:.0%} may be:\n"
        "these trials cannot tell that from the proof"
    )


def plot_reached(channels: Sequence[Channel], fpr: float) -> Figure:
    """Draw members found against false alarms, at most and by the best attack: a plot each."""
    figure, axes = panels(len(channels), 2.3, sharey=True)
    # More points where curves are steep.
    x, (said, found) = np.linspace(0, 1, 101) ** 2, ("0.1", COLOURS[0])
    for ax, channel in zip(axes, channels, strict=True):
        proven = 1 - channel.proven.fnr(x)
        ax.fill_between(x, proven, 1, color="0.9", linewidth=0)
        ax.plot(x, proven, color=said, marker="", linewidth=1.2)
        attack = channel.attacks[best_attack(channel, fpr)]
        ax.plot(x, attack.tpr(x)[0], color=found, marker="")
        most, (reached, low, high) = 1 - float(channel.proven.fnr(fpr)), attack.tpr(fpr)
        ax.plot(fpr, most, "o", color=said, markersize=4.5)
        ax.vlines(fpr, low, high, color=found, linewidth=1)
        ax.plot(fpr, reached, "o", color=found)
        attacked = f"attack: {100 * reached:.0f} [{100 * low:.0f}, {100 * high:.0f}]%"
        words = {f"proven: {most:.0%} at most": said, attacked: found}
        for height, (word, color) in zip((0.17, 0.05), words.items(), strict=True):
            ax.text(0.98, height, word, ha="right", color=color, fontsize=9)
        ax.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        ax.set(xlabel="non-members accused", ylabel="members found")
        what = channel.name.partition(",")[0]
        ax.set_title(f"{what}, epsilon {channel.claimed:.2g}", fontsize=10)
    axes[0].text(0.03, 0.97, "ruled out", va="top", color="0.4", fontsize=9)
    head_rows(figure, reached_headline(channels, fpr))
    return figure


def all_headline(channels: Sequence[Channel]) -> str:
    """How many attacks are in what a proof rules out, beyond their limits, in words."""
    found = refuted(channels)
    few = found["refuted"] or "none"
    return (
        f"Of {found['attacks']} attacks on {found['mechanisms']} mechanisms,\n{few} refutes a proof"
    )


def plot_all(channels: Sequence[Channel]) -> Figure:
    """Draw proven curves and the most accurate attacks with their limits: a small plot each."""
    columns, fpr = 3, np.linspace(0, 1, 41) ** 2
    rows = math.ceil(len(channels) / columns)
    figure, axes = new_figure(rows, columns, height=1.4, sharex=True, sharey=True, squeeze=False)
    words = {"— proven": "0.1"}
    for ax, channel in zip(axes.ravel(), channels, strict=False):
        proven = 1 - channel.proven.fnr(fpr)
        ax.fill_between(fpr, proven, 1, color="0.9", linewidth=0)
        ax.plot(fpr, proven, color="0.1", marker="", linewidth=1.2)
        if channel.attacks:
            name = max(channel.attacks, key=lambda each: channel.attacks[each].accuracy()[0])
            attack, hard = channel.attacks[name], name == "weight"
            some = np.unique(np.linspace(0, attack.fpr.shape[1] - 1, 50).astype(int))
            x, y = attack.fpr[:, some], 1 - attack.fnr[:, some]  # of hundreds of thresholds
            line = {"color": COLOURS[hard], "linewidth": 1.2, "linestyle": ("-", "--")[hard]}
            area = np.r_[x[1], x[2][::-1]], np.r_[y[1], y[2][::-1]]
            ax.fill(*area, color=COLOURS[hard], alpha=0.2, linewidth=0)
            ax.plot(x[0], y[0], marker="", **line)
            words[("— attack, real data", "- - attack, hardest record")[hard]] = COLOURS[hard]
        else:
            ax.text(0.95, 0.1, "no attack", ha="right", fontsize=8)
        name = channel.name.partition(", epsilon")[0]
        ax.set_title(rf"{name}, $\epsilon = {channel.claimed:.2g}$", fontsize=8)
        ax.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        ax.tick_params(labelsize=8)
    for ax in axes.ravel()[max(0, len(channels) - columns) : len(channels)]:
        ax.tick_params(labelbottom=True)
    for ax in axes.ravel()[len(channels) :]:
        ax.remove()
    figure.supxlabel("non-members accused", fontsize=10)
    figure.supylabel("members found", fontsize=10)
    words_above(axes[0, 0], words, -30, up=16)
    for text in axes[0, 0].texts:  # they reach over the plots beside it
        text.set_in_layout(False)
    head_rows(figure, all_headline(channels) + "\n ")
    return figure
