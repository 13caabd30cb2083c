"""``vmap`` as users call it."""
