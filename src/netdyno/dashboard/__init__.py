"""The store and live journals in a browser; measures nothing."""
