"""Forests on Ray: measured with some actors, and a cost model for many."""
