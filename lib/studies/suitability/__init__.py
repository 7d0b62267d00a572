"""Suitability filters (P2): the paper's evaluation."""
