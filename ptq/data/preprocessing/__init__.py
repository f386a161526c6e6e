"""Options that make arrays of images, audio and text, and where they come from.

preprocess: `Preprocess`: options from image to array, completed from the model's input
placement: where the preprocessing puts an image in the model's input
channel_values: type of an option with one value, or one for each channel
audio_preprocess: `AudioPreprocess`: options from WAV file to array
text_preprocess: `TextPreprocess`: options from text to token numbers
preparation_kinds: the options by the kind of samples
processor_config: configurations of image processors of other packages
exporter_metadata: preprocessing and class names that exporters write into the metadata of a model
recorded_preprocess: what an earlier run recorded: it completes the options, and differences are named
image_options: preprocessing options for a source whose samples may be images or arrays
"""
