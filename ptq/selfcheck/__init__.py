"""Is a quantized model fit to be handed over, and which nodes have to go back to float for that?"""
