"""The knee: nodes that stay float without being asked for, because they cause much error and save little time.

decisions            the share of decisions that a quantized model changes
file_size_limit      what integers save of a file, and how much of it float nodes may take back
knee_sets            the sets of float nodes that the rule weighs, and those that it takes
saved_decisions      decisions that float nodes save: counted with them and with all in integers
float_choice         the set that the rule chooses
knee_frontier        the frontier that the rule sees
knee                 the rule
"""
