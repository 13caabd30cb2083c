"""Control flow: ``cond``, ``while_loop`` and ``scan``, each with all of its rules in one file."""
