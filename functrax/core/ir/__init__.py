"""Programs as data, and their text."""
