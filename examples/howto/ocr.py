"""Text recognition: lines of text as images, a CTC recognizer, and the true texts."""

import ptq

result = ptq.quantize(
    "recognizer.onnx",
    "calibration/",
    eval_data="evaluation/",
    preprocess=ptq.Preprocess(size=(24, 96), mean=0.5, std=0.5),
    task="ctc",
    transcripts="evaluation.csv",  # without it, lines are compared with those that float reads
    alphabet="alphabet.txt",
)
for name, form in result.report.evaluation.forms.items():
    for figure in form.figures:
        print(name, figure)
print(result.report.evaluation.forms["int8"].drop)
result.save("recognizer.int8.onnx")
