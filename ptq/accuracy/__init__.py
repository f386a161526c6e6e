"""What did quantization cost, by which metric, and how sure is that?"""
