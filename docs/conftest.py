"""Which files here hold no examples of their own: generated ones, and Sphinx's configuration."""

collect_ignore = ["conf.py", "examples", "api"]
