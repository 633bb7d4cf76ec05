"""Sizes, strides and offsets: views, cuts, parts."""
