"""The training page: speed, accounting, tuning."""
