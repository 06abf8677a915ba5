"""Authentication and authorization of the broker, without sockets.

Modules:

- acl: Access control lists: resources, operations, filters, and their JSON
- acl_store: ``kstore.acls``: the access control lists of a broker
- authorizer: Authorizes operations by access control lists (Kafka's StandardAuthorizer)
- client_settings: The security settings of a client, by Kafka's names
- client_tls: TLS of a client: its settings, and its SSL context
- credentials: ``kstore.credentials``: the SCRAM credentials of a broker's users
- jaas: Reads Kafka's JAAS configurations, which contain the users of PLAIN
- json_web_keys: JSON Web Key Sets, and the tokens that their keys sign
- keystores: Java's key- and truststores, as the PEM that OpenSSL reads
- listeners: The listeners of a broker, in Kafka's syntax
- mapping_rules: ``ssl.principal.mapping.rules``: maps certificate names to user names
- oauth_login: How a client gets its token for OAUTHBEARER
- oauth_settings: Reads the settings of OAUTHBEARER on one listener
- oauthbearer: The messages of SASL/OAUTHBEARER
- plain: The server side of SASL/PLAIN
- principal: The principal of a request
- scram: The server side of SCRAM
- scram_client: The client's side of SCRAM
- security_settings: Reads and validates the settings of listeners and security
- setting_texts: Looks up settings: a listener's own value, the broker's, or the default
- tls: TLS on one listener: its settings, and SSL contexts
- url_opener: Opens http and https URLs with a deadline for the entire response
- url_reader: Reads what an OAuth provider answers: a URL of a file, http or https
- web_tokens: JSON Web Tokens: splits them, and verifies their claims
"""
