"""What an error says to a caller who guessed a name: the right call.

Modules:

- close_names: Names that look like a mistaken one, for the hint of an error
- kafka_names: What to call instead of a name of Kafka's clients that kstore has not
- keyword_names: Arguments that callers guess: the error says what to write instead
- missing_names: How classes and modules answer names that they lack

Answers that only one folder needs are in its own ``guessed_names``.
"""
