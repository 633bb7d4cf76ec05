"""Sizes that are symbols: expressions over them, the numbers that programs compute with, and what is known of each.

`expressions` are polynomials of sizes, with floor division, remainder, minimum and maximum.  `numbers` are what a program sees in a
shape while it is recorded (`SymInt`).  `sizes` lets tensors answer with them.  `environment` holds the symbols of one recording: their
ranges, which are equal, and the sample sizes by which shapes are found.  Tracing (`jit`) and exporting (`export`) share them.
"""
