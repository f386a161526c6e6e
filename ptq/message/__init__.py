"""How does a model travel: its file, its message whole and sound, its large weights beside it?"""
