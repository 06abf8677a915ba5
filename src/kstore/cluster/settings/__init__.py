"""Kafka 3.9's settings of topics and brokers: names, types, defaults, valid values, synonyms.

Modules:

- broker_settings: The settings of a broker in Kafka 3.9: all that its DescribeConfigs shows
- broker_table: The settings of a broker that DescribeConfigs of Kafka 3.9 shows and that concern
  this broker
- definition: One setting: its type, default and valid values; parses and checks a value as Kafka's
  ConfigDef does
- group_settings: The settings of one consumer group, as Kafka's GroupConfig has and checks them
- layers: Finds the value that counts for a setting, among those of topic, broker and Kafka's
  defaults
- topic_settings: The settings of a topic in Kafka 3.9, in the order in which Kafka checks them
- unused_table: Settings of Kafka's broker for functions that this broker does not have

The engine has a parser of its own, for the settings of a log:
:meth:`kstore.LogConfig.from_properties` in :mod:`kstore.config`.
"""
