"""References to values that change."""
