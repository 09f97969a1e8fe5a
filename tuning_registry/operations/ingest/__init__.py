"""Bringing recordings into a database."""
