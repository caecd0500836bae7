"""A package as a service: loaded, warmed up, batched, served, and loaded with requests."""
