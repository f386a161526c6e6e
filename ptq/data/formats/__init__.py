"""Files and arrays of one kind as samples: images, audio, text, rows of arrays.

Images:

images: a folder of images as samples
image_reader: an image of any kind as values of the input
decode: pixels of an image file, and resizing and cropping
image_rows: rows of uint8 pixels as images
thumbnail: the image in a feed as a small picture

Audio, text and arrays:

audio: a folder of WAV files as samples
read_wav: the signal of a WAV file
warning_filters: filters of warnings while a library decodes a sample
texts: lines of a file, or text files of a folder, as samples
tokenize_text: a text as values of the inputs, by a tokenizer file
rows: rows of arrays, or .npz files, as samples
arrays: reading of .npz and .npy files by rows
npz_rows: rows of one member of an .npz: at their place in the file if the member is stored
"""
