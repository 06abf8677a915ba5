"""What real old clients sent to a Kafka broker, and what it answered, byte for byte.

`proxy` stands between clients and the broker and notes each frame, `clients` runs the clients,
`session` keeps what one of them said, `messages` reads it, `recording` keeps all of it in
tests/data, `replay` asks kstore the same, `translation` gives its ids for those of Kafka, `allowed`
lists the differences.
"""
