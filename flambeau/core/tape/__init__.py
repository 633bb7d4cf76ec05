"""The tape: nodes, hooks, writes in place, the engine."""
