"""Where pytest looks for no examples: in what is generated, and in what needs Sphinx."""

collect_ignore = ["api", "conf.py", "examples", "tools"]
