"""Counterfactual abstainers (P4): simulations and scenarios."""
