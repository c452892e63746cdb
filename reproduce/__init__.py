"""The paper's tables and figures, one module each: `python -m reproduce [NAME ...]`."""
