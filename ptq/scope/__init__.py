"""Which nodes are quantized, and why not the others?"""
