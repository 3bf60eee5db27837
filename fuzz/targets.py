"""All targets, in the order of the table."""

from fuzz import (
    csv_bytes,
    csv_records,
    events,
    hostile_cells,
    ledger_files,
    ledger_machine,
    model_arrays,
    model_bytes,
    model_metadata,
    resume_files,
    schema_declarations,
    schema_files,
    statements,
    text_cells,
)

__all__ = ["TARGETS"]

TARGETS = {
    module.TARGET.name: module.TARGET
    for module in (
        schema_declarations,
        schema_files,
        text_cells,
        hostile_cells,
        csv_records,
        csv_bytes,
        events,
        statements,
        ledger_machine,
        ledger_files,
        resume_files,
        model_bytes,
        model_metadata,
        model_arrays,
    )
}
