"""What is put on the dyno."""
