"""Integer arithmetic on numpy arrays: no graph, no files, no runtime. Channels last; weights are O·spatial·I.

In reading order:

    requantizer        type of the step from accumulators to outputs, which an arithmetic supplies
    thread_pool        how tiles run on all threads; buffers and outputs that tiles share
    lent_threads       threads that other processes use for a while
    exact_blas         when a float32 matrix product of integers is exact, and how it is computed fast
    accumulate         how the bias is added and accumulators become outputs
    channel_broadcast  how one value for each channel is applied to many rows fast
    window             where the windows of a convolution or pool lie
    window_view        what the windows of some output rows read of an image
    matmul             matrix products
    conv               convolutions, by one of three methods
    depthwise          convolutions whose output channels each read one input channel
    conv_transpose     transposed convolutions
    pool               maxima and sums of windows
    axis_sums          sums along axes
    im2col             convolutions as matrix products of raw integers
    int16_saturation   what AVX2 without VNNI loses by saturation of pairs in int16
    float32            fused multiply-add
    lookup             functions of one or two 8-bit integers as tables
    c_functions        functions of the C library in float32
    real_functions     ONNX's functions of one value in float64
    special_functions  SciPy's special functions, loaded when needed
    multiplier_shift   a real factor as an integer multiplier and a shift, rounded once
    fixed_point        gemmlowp's fixed-point arithmetic: multiplication, exp, 1/x, 1/√x, logistic, tanh
    fixed_point_int16  its logistic and tanh in int16
    fixed_point_log    logarithm in fixed point
    interpolated_table functions of one int16 as tables of 513 entries, as TensorFlow Lite fills them
    integer_norm       standardization (layer normalization) in integers
    resize             source positions of resized arrays, bilinear interpolation
    shape              rearrangement of arrays: reshape, slice, pad, depth to space
"""
