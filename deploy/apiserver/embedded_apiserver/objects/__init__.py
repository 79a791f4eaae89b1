"""Pure object machinery of the embedded API server: schemas, rules, patches, ownership, selectors. No I/O."""
