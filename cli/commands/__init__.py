"""Commands: one file each; it parses options, calls one verb of ptq, and prints the result.

quantize      quantize a float model and measure it
calibrate     collect statistics
evaluate      measure a model on samples
compare       compare two models on the same samples
benchmark     time models in turns
verify        compare a quantized model with the executor, tensor by tensor
sensitivity   rank nodes by the accuracy that float regains
frontier      the trade of speed against error
inspect       what will be quantized, without data
convert       convert a quantized model to another form
lint          check a quantized model against the rules of a target
ops           operator table
tune          time kernels on this machine
demo          quantize the sample
explain       causes of a symptom, and what to do
"""
