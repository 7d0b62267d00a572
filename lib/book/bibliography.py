"""Labels of the bibliography: authors and year, as the text cites them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pybtex.plugin import register_plugin
from pybtex.style.formatting.alpha import Style
from pybtex.style.labels import BaseLabelStyle

#: Of the directive ``bibliography``.
STYLE = "authors-and-year"


class AuthorsAndYear(BaseLabelStyle):
    """Labels such as "Mironov, 2017" and "Abadi et al., 2016"."""

    def format_labels(self, sorted_entries: Iterable[Any]) -> Iterator[str]:
        """A label for each entry; letters tell apart what is of the same authors and year."""
        labels = [f"{_authors(e.persons['author'])}, {e.fields['year']}" for e in sorted_entries]
        count, seen = Counter(labels), Counter[str]()
        for label in labels:
            yield label + "abcdefghij"[seen[label]] * (count[label] > 1)
            seen[label] += 1


def _authors(persons: Iterable[Any]) -> str:
    names = [_last_name(person) for person in persons]
    if len(names) > 2 or names[-1] == "others":
        return f"{names[0]} et al."
    return " and ".join(names)


def _last_name(person: Any) -> str:
    return " ".join(str(part) for part in (*person.rich_prelast_names, *person.rich_last_names))


class AlphaByYear(Style):  # type: ignore[misc]
    """The style of the page: that of `alpha` with these labels."""

    default_label_style = AuthorsAndYear


def register() -> None:
    """Make the style known to the directive."""
    register_plugin("pybtex.style.formatting", STYLE, AlphaByYear)
