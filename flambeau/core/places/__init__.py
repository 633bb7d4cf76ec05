"""Elements at places that indices name; joining."""
