"""Chains of hidden states: where sites lie, what is compiled, the objective."""
