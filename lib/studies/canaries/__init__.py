"""Label-DP canaries (P5): mechanisms under attack."""
