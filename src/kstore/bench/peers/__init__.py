"""Who is measured beside kstore: optional packages, Apache Kafka, brokers, key-value stores."""
