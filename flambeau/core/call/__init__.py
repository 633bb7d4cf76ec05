"""From a call to a kernel: operations, iteration plans, pointwise operations."""
