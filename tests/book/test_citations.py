"""Small texts around the pages: labels of the bibliography, links to arXiv, formulas on cards."""

import pytest
from pybtex.database import parse_string

from lib.book import site
from lib.book.citations import AuthorYear
from lib.book.words import plain_math


def test_labels_are_as_the_text_cites():
    people = {
        "one": "Platt, John",
        "two": "Choe, Yo Joong and Ramdas, Aaditya",
        "three": "Zanella-B{\\'e}guelin, Santiago and Wutschitz, Lukas and Tople, Shruti",
        "others": "Koh, Pang Wei and others",
        "again": "Platt, John",
    }
    text = "".join(f"@misc{{{k}, author = {{{v}}}, year = {{2023}}}}\n" for k, v in people.items())
    entries = parse_string(text, "bibtex").entries.values()
    assert list(AuthorYear().format_labels(entries)) == [
        "Platt, 2023a",
        "Choe and Ramdas, 2023",
        "Zanella-Béguelin et al., 2023",
        "Koh et al., 2023",
        "Platt, 2023b",
    ]


def test_numbers_of_arxiv_are_links_in_the_bibliography_only():
    entry = '<div class="citation"><p>Theirs. arXiv:2305.18393.</p></div>'
    link = '<a href="https://arxiv.org/abs/2305.18393">arXiv:2305.18393</a>.'
    assert link in site.named_regions(entry)
    assert "<a" not in site.named_regions("<p>arXiv:2305.18393</p>")


def test_names_may_break_between_their_words_and_options_not():
    code = '<code><span class="pre">{}</span></code>'.format
    found = site.named_regions(code("lib.audit.best_lower_bound"))
    assert "lib.<wbr>audit.<wbr>best_<wbr>lower_<wbr>bound" in found
    assert "<wbr>" not in site.named_regions(code("--out=a.html"))


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\mathrm{Beta}(\frac12, \frac12)", "Beta(1/2, 1/2)"),
        (r"(\epsilon, \delta)", "(ε, δ)"),
        (r"\varepsilon", "ε"),
        (r"\Delta", "Δ"),
        (r"\frac{\alpha}{n}\,c", "α/nc"),
    ],
)
def test_formulas_on_cards_are_plain_text(tex, text):
    assert plain_math(tex) == text
