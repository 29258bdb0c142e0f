"""The settings of a node: their table, their kinds of value, the configuration file."""
