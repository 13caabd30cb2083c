"""Where users call functrax: wrong arguments, and tracebacks that show the user's lines."""
