"""What accelerators share: kernel images and their place on disk."""
