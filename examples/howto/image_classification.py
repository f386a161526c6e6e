"""Image classification: a folder of images, the preprocessing of the training, accuracy with labels."""

import ptq

result = ptq.quantize(
    "sample_data/fashion_mobilenet.onnx",
    "sample_data/images/calibration",
    eval_data="sample_data/images/evaluation",  # class folders: their names are the labels
    preprocess=ptq.Preprocess(mean=(0.286,), std=(0.353,)),
)
forms = result.report.evaluation.forms
print("float:", forms["float"].accuracy)
print("int8:", forms["int8"].accuracy)
print("McNemar's test and interval:", forms["int8"].drop)
result.save("model.int8.onnx")

# The file records its preprocessing: no options are needed again.
again = ptq.evaluate("model.int8.onnx", "sample_data/images/evaluation")
assert again.forms["int8"].accuracy == forms["int8"].accuracy
