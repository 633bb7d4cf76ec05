"""Elements weighted along lines and at points: resizing, padding, pooling, sampling."""
