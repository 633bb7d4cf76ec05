"""Convolutions on the host, each way of computing them in a file."""
