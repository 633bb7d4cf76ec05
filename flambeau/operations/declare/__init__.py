"""From a body to an operation: the list of all operations, and the declarations of each kind."""
