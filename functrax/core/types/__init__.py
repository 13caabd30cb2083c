"""Types of arrays: dtypes, avals, promotion, and sizes that are not known yet."""
