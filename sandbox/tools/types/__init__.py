"""Types: what annotations and JSON schemas mean, as pydantic types that convert by fixed rules.

annotations ─ class_fields, field_metadata ─ value_types ─ pydantic_types     from a syntax tree
schema_types ─ value_types                                                                  from a JSON schema
value_types ─ json_schemas                                                                  to a JSON schema
"""
