"""Segmentation: the share of pixels that change, and the mean IoU with the masks of the float model."""

import ptq

result = ptq.quantize(
    "segmenter.onnx",
    "calibration/images",
    eval_data="evaluation/images",
    preprocess=ptq.Preprocess(mean=0, std=1),
    task="segment",
)
form = result.report.evaluation.forms["int8"]
print(form.drop)
print(form.figures)
result.save("segmenter.int8.onnx")
