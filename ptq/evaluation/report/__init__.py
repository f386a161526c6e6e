"""Report: what a quantization is reported by, as data.

report_data    the figures of the report
report_rows    rows of the report: one for each tensor and node
benefit_check  quantized models that are no improvement: larger or slower than float
computed_constants  bytes of constants that the float model computes
litert_check   the check of a `.tflite` file in LiteRT before it is returned
litert_result  result of that check
inspection     result of ``ptq.inspect``
"""
