"""What is done about data: samplers, aligned validation, normalisation, and tests of transforms."""
