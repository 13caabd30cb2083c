"""``python -m functrax``: look at programs in files, run them, compare them, explain them."""

from __future__ import annotations

from functrax.tool.command_line import main

if __name__ == "__main__":
    raise SystemExit(main())
