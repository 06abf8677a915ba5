"""The cluster as a broker sees it: an immutable image, and the port that changes it.

``settings/`` has Kafka's definitions of the settings of topics and brokers.

Modules:

- adoption: adopts topics that existed before, with the settings of a source
- adoption_report: reports what adopting topics would change and delete
- broker_file: ``kstore.broker``: what a broker keeps of itself beside the topics
- change_callbacks: Who is called after a change of the cluster's metadata
- client_quotas: Quotas of clients: which limits are set, and which of them counts for a client
- config_changes: Changes of settings as IncrementalAlterConfigs and AlterConfigs ask for them
- effective_config: Kafka's settings of a topic as the engine's LogConfig
- image: The cluster at one moment: brokers, topics, partitions and settings (Kafka's MetadataImage)
- local: The metadata of a cluster of one node, kept in its own store
- local_image: The image of the topics of a store
- metadata: The port through which a broker reads and changes the cluster's metadata
- new_topics: Plans the topics that a request creates: their images, before they exist
- node_identity: The node id and cluster id of a store: those of ``meta.properties``, where it has
  one
- store_settings: Settings of a broker that are settings of its store
- topic_rules: What a controller checks before it creates a topic or adds partitions, with Kafka's
  messages
"""
