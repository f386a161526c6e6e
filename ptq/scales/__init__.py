"""Which tensors share a scale, and which one?"""
