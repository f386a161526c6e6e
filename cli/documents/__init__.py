"""JSON documents of the commands: header, result, errors.

write_document   writes a result, and makes the document of an error
document_header  what every document says about the run; errors
document_types   form of each document; schema.json is made of it
"""
