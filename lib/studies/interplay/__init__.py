"""Interplay and normalized score (P1): panels of selective classifiers."""
