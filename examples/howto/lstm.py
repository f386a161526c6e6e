"""An LSTM: the layers around it become integers, and it stays float."""

import ptq

inspection = ptq.inspect("lstm.onnx")  # no data are needed
for row in inspection.nodes:
    print(row.op, row.fate, row.why)

result = ptq.quantize("lstm.onnx", "calibration.npz", eval_data="evaluation.npz")
forms = result.report.evaluation.forms
print("float:", forms["float"].accuracy)
print("int8:", forms["int8"].accuracy)
result.save("lstm.int8.onnx")
