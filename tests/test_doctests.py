"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import lib


def test_examples():
    attempted = 0
    for module in pkgutil.walk_packages(lib.__path__, "lib."):
        if module.name.endswith("__main__"):
            continue
        result = doctest.testmod(importlib.import_module(module.name))
        assert result.failed == 0, module.name
        attempted += result.attempted
    assert attempted >= 5
