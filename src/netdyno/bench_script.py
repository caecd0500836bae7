"""The walk of one run on an unmodified script: the same steps as in `bench`, on another kind of target."""
