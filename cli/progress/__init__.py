"""Progress on standard error.

show_progress   a bar, or lines without a terminal
progress_state  how far a job is: stage, share of the whole, rate
progress_lines  lines of a long job without a terminal, and its heartbeat
"""
