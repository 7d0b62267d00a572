"""One privately trained classifier under all six lenses of the book."""
