"""How to save a model's predictions, ten lines a library: to be copied, and run by the tests."""
