"""A quantized graph read as integer steps."""
