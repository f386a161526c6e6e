"""Tasks: what a model decides on a sample, and how many of these decisions another form of it changes.

In reading order:

task        the interface: a task compares the outputs of two forms on one sample
ctc         text read from scores over time
sequence    one token at each position
embed       vectors that are compared with each other
segment     a class for each pixel
boxes       overlap, suppression and matching of boxes
box_heads   outputs of detectors as boxes
box_layouts which outputs of a detector hold boxes
grid_heads  outputs of detectors that place boxes relative to cells
label_fit   how a detector numbers labelled classes
detect      boxes with classes
mask_pictures masks of two forms as pictures
changed_neighbours samples whose nearest neighbour changes
common_scores what scores of all samples have in common
read_answer outputs on one sample as an answer for readers
label_options labels of boxes and texts as the user names them
request     a task that is asked for or recognized
measure     forms of one model on the same samples: drops and figures

Further files:

average_precision  mean average precision of boxes: COCO's mAP50 and mAP50-95, with a paired bootstrap over images
classify           Task ``classify``: one class for each sample
image_size         the height and width of the image that a sample holds
"""
