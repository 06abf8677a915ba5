"""Authentication and authorization of the broker, without sockets.

Modules:

- acl: Access control lists: resources, operations, filters, and their JSON
- acl_store: ``kstore.acls``: the access control lists of a broker
- authorizer: Authorizes operations by access control lists (Kafka's StandardAuthorizer)
- client_settings: The security settings of a client, by Kafka's names
- credentials: ``kstore.credentials``: the SCRAM credentials of a broker's users
- jaas: Reads Kafka's JAAS configurations, which contain the users of PLAIN
- listeners: The listeners of a broker, in Kafka's syntax
- mapping_rules: ``ssl.principal.mapping.rules``: maps certificate names to user names
- plain: The server side of SASL/PLAIN
- principal: The principal of a request
- scram: The server side of SCRAM
- scram_client: The client's side of SCRAM
- security_settings: Reads and validates the settings of listeners and security
- setting_texts: Looks up settings: a listener's own value, the broker's, or the default
- tls: TLS on one listener: its settings, and SSL contexts
"""
