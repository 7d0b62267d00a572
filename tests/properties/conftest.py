"""The profile of all property tests: the same examples in every run, whatever the machine's speed.

It is registered and not loaded, so that the tests of other folders keep their own settings.
"""

from hypothesis import settings

settings.register_profile(
    "properties", derandomize=True, deadline=None, max_examples=20, database=None
)
