"""`python -m recompute RUN ...` recomputes the logged learning steps of runs."""

from .referee import main

main()
