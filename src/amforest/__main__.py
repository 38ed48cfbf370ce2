"""``python -m amforest`` is the command ``amforest``."""

from amforest.cli import main

main()
