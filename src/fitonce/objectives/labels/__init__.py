"""Labels given features: where tokens lie, what is compiled, the objective."""
