"""Kafka 3.9's settings of topics and brokers: names, types, defaults, valid values, synonyms.

Modules:

- broker_settings: All broker settings that Kafka 3.9's DescribeConfigs lists
- broker_table: Those of Kafka 3.9's broker settings that concern this broker
- definition: One setting: its type, default and valid values; parses and checks a value as Kafka's
  ConfigDef does
- dynamic_settings: Which settings of a broker may change while it runs
- group_settings: The settings of one consumer group, as Kafka's GroupConfig has and checks them
- layers: Finds the effective value of a setting: the topic's, the broker's, or Kafka's default
- topic_settings: Kafka 3.9's topic settings, in the order in which Kafka checks them
- unused_table: Kafka's broker settings for functions that this broker does not have

The engine has a parser of its own, for the settings of a log:
:meth:`kstore.LogConfig.from_properties` in :mod:`kstore.config`. Files of Java properties are
parsed by :mod:`kstore.checkpoint.java_properties`.
"""
