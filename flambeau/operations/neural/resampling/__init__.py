"""Images resized, and sampled at points."""
