"""The bibliography's style: labels are authors and year, as the text cites them."""

from collections.abc import Iterable, Iterator
from typing import Any

from pybtex.plugin import register_plugin
from pybtex.style.formatting.alpha import Style as AlphaStyle
from pybtex.style.labels import BaseLabelStyle


class AuthorYear(BaseLabelStyle):
    """Labels such as "Platt, 1999", with a letter after the year where several would be equal."""

    def format_labels(self, sorted_entries: Iterable[Any]) -> Iterator[str]:
        """Yield the entries' labels."""
        plain = [_label(entry) for entry in sorted_entries]
        for place, label in enumerate(plain):
            letter = chr(ord("a") + plain[:place].count(label))
            yield label + letter * (plain.count(label) > 1)


def _label(entry: Any) -> str:
    people = entry.persons.get("author") or entry.persons["editor"]
    names = [" ".join(map(str, p.rich_prelast_names + p.rich_last_names)) for p in people]
    several = f"{names[0]} et al." if len(names) > 2 or "others" in names else " and ".join(names)
    return f"{several}, {entry.fields['year']}"


class Style(AlphaStyle):
    """Entries as in BibTeX's alpha, which is nearest to the names in their order."""

    default_label_style = AuthorYear


register_plugin("pybtex.style.formatting", "companion", Style)
