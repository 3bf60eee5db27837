"""Feed generated inputs to everything that reads files or declarations. Run it with ``make fuzz``."""
