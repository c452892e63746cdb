"""Fits brought from other libraries."""
