"""Interplay and normalized score (P1): experiments with selective classifiers."""
