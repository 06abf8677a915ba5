"""Who a client is and what it may do: the decisions of the broker's security, without sockets.

Modules:

- acl: Access control lists and the decisions of Kafka's StandardAuthorizer
- acl_store: ``kstore.acls``: the access control lists of a broker
- client_settings: The security settings of a client, by Kafka's names
- credentials: ``kstore.credentials``: what a broker keeps of its users' passwords
- jaas: Reads Kafka's JAAS configurations: the users of PLAIN
- listeners: The listeners of a broker, in Kafka's syntax
- mapping_rules: ``ssl.principal.mapping.rules``: the user's name from the name in a certificate
- plain: The server's side of PLAIN
- principal: Who made a request
- scram: The server's side of SCRAM
- scram_client: The client's side of SCRAM
- security_settings: The settings of listeners, authentication and authorization, checked
- setting_texts: The texts of the broker's settings: a listener's own value, or the broker's
- state_file: A small JSON file of the broker's security, the same in every log directory
- tls: TLS on one listener: its settings, and the contexts of Python's ssl
"""
