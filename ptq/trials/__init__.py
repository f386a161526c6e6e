"""What is decided by trying it on calibration samples that set no ranges?"""
