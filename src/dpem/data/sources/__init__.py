"""Where rows are: in memory, in files, in batches; and whose they are."""
