"""The Bayesian audit (P3): trainings under attack, tables."""
