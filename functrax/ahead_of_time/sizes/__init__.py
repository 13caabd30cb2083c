"""Programs for all values of named sizes: what is added to those of fixed ones.

``regions.py`` compiles a program for all values, ``numbers.py`` writes what follows from sizes as
LLVM IR, ``interface.py`` the functions that callers see, ``texts.py`` what headers say.

Start at :func:`~functrax.ahead_of_time.sizes.regions.variants_of`.
"""
