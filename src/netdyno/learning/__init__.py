"""Better models: training runs under a recipe, sweeps of knobs over seeds, and the staged search."""
