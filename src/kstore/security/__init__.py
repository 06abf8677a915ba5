"""Who a client is and what it may do: the decisions of the broker's security, without sockets.

Modules:

- credentials: ``kstore.credentials``: what a broker keeps of its users' passwords
- jaas: Reads Kafka's JAAS configurations: the users of PLAIN
- listeners: The listeners of a broker, in Kafka's syntax
- plain: The server's side of PLAIN
- principal: Who made a request
- scram: The server's side of SCRAM
- security_settings: The settings of listeners, authentication and authorization, checked
"""
