"""The command line of ptq; installed as ``ptq_cli``, for a module called ``cli`` belongs to nobody."""
