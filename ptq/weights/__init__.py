"""Which integers do weights become?"""
