"""Where do runtimes, processors and forms of a graph give the same integers, and where not?"""
