"""Where pytest looks for no examples: in what is generated, and in the configuration."""

collect_ignore = ["api", "conf.py", "examples"]
