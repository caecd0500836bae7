"""Looks at the numbers of a training run: gradients, batches, losses, modes. One file, one vital; each tells one kind of evidence."""
