"""Labels given features: layout, compiled programs, objective."""
