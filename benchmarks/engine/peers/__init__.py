"""What is measured beside kstore: Apache Kafka, brokers, key-value stores."""
