"""netdyno: puts a PyTorch model on the dyno."""
