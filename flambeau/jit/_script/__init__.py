"""TorchScript's compiler: functions, modules and classes of Python become the code that archives hold, and Python that runs it.

`_source` reads a program's text, `_types` and `_values` are what its expressions are, `_statements`, `_expressions` and `_calls` walk it
and check it, `_operators` and `_hosts` know what operations take, `_unit` and `_modules` are what is compiled together.
"""
