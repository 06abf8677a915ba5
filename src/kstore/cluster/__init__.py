"""The cluster's metadata: an immutable image, and the interface that reads and changes it.

``settings/`` has Kafka's definitions of topic and broker settings.

Modules:

- adoption: Adopts existing topics, with settings from Kafka's metadata log or a file
- adoption_report: Reports what an adoption of topics would change and delete
- broker_file: ``kstore.broker``: the state that a broker keeps besides the topics
- change_callbacks: Who is called after a change of the cluster's metadata
- client_quotas: Quotas of clients: which limits are set, and which of them counts for a client
- compact_owned_topics: Gives the internal topics that a broker owns their settings, even if Kafka
  created them
- config_changes: Applies and validates the changes of IncrementalAlterConfigs and AlterConfigs
- effective_config: The settings of a topic's logs: its own, over those of the broker if the topic
  follows them
- engine_config: Converts Kafka's topic settings to the engine's LogConfig
- formatted_directories: Formats log directories as Kafka's Formatter does: gives them the cluster's
  id before a broker first serves them
- image: The cluster at one moment: brokers, topics, partitions and settings (Kafka's MetadataImage)
- local_image: Builds the image of a store's topics
- local_metadata: The metadata of a one-node cluster, kept in its own store
- metadata: The interface through which a broker reads and changes the cluster's metadata
- new_topics: Plans the topics that a request creates: their images, before they exist
- node_identity: The node id and cluster id of a store, from ``meta.properties`` if it exists
- noted_topics: The topics whose images are behind the store, by name
- store_settings: Settings of a broker that are settings of its store
- topic_rules: The controller's checks before it creates topics or partitions
"""
