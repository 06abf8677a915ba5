"""The same requests asked of two brokers, and their answers compared field by field.

`asker` sends requests and notes the answers, which `lines` turns into lines of text, `bodies` has
the records of Produce requests, each module named after a family of APIs asks its questions,
`questions` asks all of them, `compare` reports differences, `allowed` lists those that are
expected, each with a reason.
"""
