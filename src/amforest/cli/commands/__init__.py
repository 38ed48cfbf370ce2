"""The commands of the command line: parse, call, print. One file for each."""
