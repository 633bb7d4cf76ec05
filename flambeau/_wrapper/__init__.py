"""What tensors that stand for others share: sparse, masked, nested ones."""
