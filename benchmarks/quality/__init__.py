"""Quality of predictions compared with other stream learners: ``python -m benchmarks.quality``."""
