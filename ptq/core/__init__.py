"""Data and rules that every stage shares: errors, integer types, the operator table, targets, the plan, files."""
