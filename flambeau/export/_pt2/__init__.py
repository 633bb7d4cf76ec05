"""Archives of exported programs in PyTorch's format `.pt2`: the schema, the reader and the writer."""
