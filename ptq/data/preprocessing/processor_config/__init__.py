"""Configurations of image processors of other packages, as options of `ptq.data.Preprocess`.

read: a file, a dict or a processor as options
transformers: the keys of Hugging Face's ``preprocessor_config.json``
timm: the keys of timm's ``pretrained_cfg``
entries: values of a configuration, checked
"""
