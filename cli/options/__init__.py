"""Options that several commands share, with their help, and the values that their texts become.

shared          arguments and options of several commands
preprocessing   preprocessing of images, audio and text
labels          class labels, boxes, transcripts and alphabets
runtimes        what runs a model
tflite          inputs, outputs and batch, of .tflite and ONNX files
workers         worker processes, clusters and shards
verbosity       options ``-v`` and ``-q`` of the commands that run models; lines of the log
parsers         texts → numbers, with the errors of ptq
inputs          texts → other values of the verbs
config_file     options from ptq.toml
config_options  ``--config`` and ``--save-config`` of every command; ``ptq init``
"""
