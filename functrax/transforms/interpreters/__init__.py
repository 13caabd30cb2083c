"""The interpreters: forward mode, linearization, transposition, batching; and calls."""
