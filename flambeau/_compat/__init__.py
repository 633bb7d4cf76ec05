"""What programs for PyTorch and other libraries expect of the package: a second name, old classes, switches, how tensors look."""
