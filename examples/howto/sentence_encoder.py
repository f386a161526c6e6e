"""A sentence encoder: lines of text, a tokenizer, and the nearest neighbours that change."""

import ptq

result = ptq.quantize(
    "encoder.onnx",
    "calibration.txt",
    eval_data="evaluation.txt",
    preprocess=ptq.TextPreprocess(tokenizer="tokenizer.json"),
)
form = result.report.evaluation.forms["int8"]
print(form.drop)  # sentences with another nearest neighbour
print(form.figures)  # cosine to the float model's vectors
for warning in result.report.warnings:
    print(warning)  # a model as small as this one gains nothing
result.save("encoder.int8.onnx")
