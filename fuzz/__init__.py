"""Made-up inputs against everything that reads what others wrote. Run it with ``make fuzz``."""
