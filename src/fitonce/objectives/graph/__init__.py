"""Hidden fields on graphs: where sites lie, what is compiled, the objective."""
