"""The derivatives that users call, and what they keep and compute again."""
