"""Detection: a YOLO-like model with suppression (NMS) in its graph, measured on labelled boxes."""

import ptq

result = ptq.quantize(
    "detector_nms.onnx",
    "calibration/images",
    eval_data="evaluation/images",
    boxes="evaluation/labels",  # without them, boxes are compared with those of float
    preprocess=ptq.Preprocess(size=(96, 96), letterbox=114, mean=0, std=1),
)
for name, form in result.report.evaluation.forms.items():
    for figure in form.figures:
        print(name, figure)  # mAP and others

floats = {row.op for row in result.report.nodes if row.fate == "float"}
assert "NonMaxSuppression" in floats  # it stays as it is
result.save("detector.int8.onnx")
