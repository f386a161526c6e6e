#!/bin/sh
# A gate in CI: quantize within a budget, then compare with the released model. Any failed gate ends the job.
set -eu
eval=sample_data/images/evaluation

ptq quantize sample_data/fashion_mobilenet.onnx --data sample_data/images/calibration --eval $eval \
  --mean 0.286 --std 0.353 --effort fast --max-drop 3 --strict --summary summary.md --json result.json -o model.int8.onnx
ptq compare sample_data/fashion_mobilenet.onnx model.int8.onnx --data $eval --max-drop 3 --strict
ptq verify model.int8.onnx --data $eval --samples 20
