"""Labels of samples: numbers of classes, boxes and texts, from folders, tables, arrays and files of other tools.

class_names: numbers of classes by name
label_numbers: class numbers from integers, floats, booleans, digits and names, and whether the model has the class
label_rows: labels in arrays and of samples, and one-hot rows
label_files: labels in lines or in a table
found_label_files: the files of a folder, or of a shard, that may hold labels
folder_labels: labels of a folder of samples, from a file in it or from class folders
text_labels: labels of texts: tables, or lines
alphabet: the characters of a recognizer's classes
labelled_boxes: labelled boxes of images, and how a model may number their classes
coco_labels: labels of boxes in COCO's JSON
yolo_labels: labels of boxes in YOLO's texts
"""
