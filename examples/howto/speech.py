"""Speech: a model of waveforms, and folders of .wav files."""

import ptq

result = ptq.quantize(
    "vowels.onnx",
    "calibration/",
    eval_data="evaluation/",
    preprocess=ptq.AudioPreprocess(sample_rate=16000),
)
forms = result.report.evaluation.forms
print("float:", forms["float"].accuracy)
print("int8:", forms["int8"].accuracy)
for row in result.report.nodes:
    if row.fate == "float":
        print(row.op, "stays float:", row.why)
result.save("vowels.int8.onnx")
