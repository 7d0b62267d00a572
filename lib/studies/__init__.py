"""The experiments of the book, one folder a chapter: studies, tables and figures."""
