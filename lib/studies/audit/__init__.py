"""The Bayesian audit (P3): training runs under attack, tables."""
