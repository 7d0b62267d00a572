"""What a figure shows, as text and data."""


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def lines(ax):
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
