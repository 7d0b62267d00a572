"""Small texts around the pages: names that break, formulas on cards."""

import pytest

from lib.book import site


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
    assert site.plain_math(tex) == text
