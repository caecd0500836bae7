"""From a trained module to a package that is proven: gate, exports, parity, race, and what holds the objective."""
