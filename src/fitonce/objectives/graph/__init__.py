"""Hidden fields on graphs: layout, compiled programs, objective."""
