"""Small libraries on top of functrax: optimizers, networks as pairs of functions."""
