#!/bin/sh
# Calibration in three processes, as the jobs of an array; the statistics are the bytes of one process.
set -eu
model=sample_data/fashion_mobilenet.onnx
data="--data sample_data/images/calibration --mean 0.286 --std 0.353 --samples 60 --threads 1"

for job in 0 1 2; do
  ptq calibrate $model $data --shard $job/3 -o part-$job.npz &
done
wait
ptq calibrate $model --merge part-0.npz --merge part-1.npz --merge part-2.npz -o merged.npz

ptq calibrate $model $data -o single.npz
cmp merged.npz single.npz
ptq quantize $model --stats merged.npz --eval sample_data/images/evaluation --effort fast -o model.int8.onnx
