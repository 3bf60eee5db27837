"""Row sources: tables in memory, files and batches; and the owners of rows."""
