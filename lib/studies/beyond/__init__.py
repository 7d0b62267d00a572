"""Experiments of questions that the five papers leave open."""
