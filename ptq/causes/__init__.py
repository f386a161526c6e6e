"""What is known to ruin quantized models, looked for before and after."""
