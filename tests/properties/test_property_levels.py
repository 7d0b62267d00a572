"""What gives a level says what it rests on."""

import inspect

import pytest

from lib import selective, suitability

CONDITIONAL = {"ActiveMonitor"}  # says in its own words what its level rests on


def with_a_level():
    """Functions, and classes but for results, that take a level, or plan for one."""
    yield selective.compare_over_seeds
    for package in (selective, suitability):
        for name in sorted(set(package.__all__) - CONDITIONAL):
            value = getattr(package, name)
            if not callable(value) or hasattr(value, "__dataclass_fields__"):
                continue
            if {"level", "alpha", "power"} & set(inspect.signature(value).parameters):
                yield value


@pytest.mark.parametrize("value", list(with_a_level()), ids=lambda value: value.__name__)
def test_a_level_says_that_it_rests_on_independence(value):
    own = [value, *(vars(value).values() if inspect.isclass(value) else ())]
    assert "independen" in " ".join(part.__doc__ or "" for part in own)
