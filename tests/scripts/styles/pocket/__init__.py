"""A package that is trained with `python -m pocket.train`."""
