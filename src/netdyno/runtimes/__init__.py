"""Ways to run a trained module elsewhere, one file each. What is loaded takes and gives NumPy arrays, and most need no torch."""
