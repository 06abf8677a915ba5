"""The slow, obvious reader and writer of Kafka's files that kstore is judged by.

Pure Python, one statement per rule, no speed. Nothing here imports kstore and nothing in
kstore imports this, so that a mistake has to be made twice, by two hands, to pass.
"""
