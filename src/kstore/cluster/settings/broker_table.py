"""Those broker settings in Kafka 3.9's DescribeConfigs that concern this broker, and ``kstore.*``
settings that are also topic settings.

A line that begins with ``*`` has a dynamic setting, which can change while the broker runs.
"""

BROKER_TABLE = """
advertised.listeners STRING null
authorizer.class.name STRING ""
auto.create.topics.enable BOOLEAN true
auto.include.jmx.reporter BOOLEAN true
*background.threads INT 10 [1,...]
broker.id INT -1
broker.id.generation.enable BOOLEAN true
broker.rack STRING null
client.quota.callback.class CLASS null
*compression.gzip.level INT -1 [1,...,9] or -1
*compression.lz4.level INT 9 [1,...,17]
*compression.type STRING producer [uncompressed, zstd, lz4, snappy, gzip, producer]
*compression.zstd.level INT 3 [-131072,...,22]
connection.failed.authentication.delay.ms INT 100 [0,...]
connections.max.idle.ms LONG 600000
connections.max.reauth.ms LONG 0
controlled.shutdown.enable BOOLEAN true
controlled.shutdown.max.retries INT 3
controlled.shutdown.retry.backoff.ms LONG 5000
create.topic.policy.class.name CLASS null
default.replication.factor INT 1
delete.records.purgatory.purge.interval.requests INT 1
delete.topic.enable BOOLEAN true
early.start.listeners STRING null
eligible.leader.replicas.enable BOOLEAN false
fetch.max.bytes INT 57671680 [1024,...]
fetch.purgatory.purge.interval.requests INT 1000
group.coordinator.append.linger.ms INT 10 [0,...]
group.consumer.assignors LIST \
org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor
group.consumer.heartbeat.interval.ms INT 5000 [1,...]
group.consumer.max.heartbeat.interval.ms INT 15000 [1,...]
group.consumer.max.session.timeout.ms INT 60000 [1,...]
group.consumer.max.size INT 2147483647 [1,...]
group.consumer.min.heartbeat.interval.ms INT 5000 [1,...]
group.consumer.min.session.timeout.ms INT 45000 [1,...]
group.consumer.session.timeout.ms INT 45000 [1,...]
group.coordinator.rebalance.protocols LIST classic [consumer, classic, share, unknown]
group.coordinator.threads INT 1 [1,...]
group.initial.rebalance.delay.ms INT 3000
group.max.session.timeout.ms INT 1800000
group.max.size INT 2147483647 [1,...]
group.min.session.timeout.ms INT 6000
initial.broker.registration.timeout.ms INT 60000
kstore.acks.durable BOOLEAN false
listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,\
SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners STRING PLAINTEXT://:9092
*log.cleaner.backoff.ms LONG 15000 [0,...]
*log.cleaner.dedupe.buffer.size LONG 134217728
*log.cleaner.delete.retention.ms LONG 86400000 [0,...]
log.cleaner.enable BOOLEAN true
*log.cleaner.io.buffer.load.factor DOUBLE 0.9
*log.cleaner.io.buffer.size INT 524288 [0,...]
*log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308
*log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 [1,...]
*log.cleaner.min.cleanable.ratio DOUBLE 0.5 [0,...,1]
*log.cleaner.min.compaction.lag.ms LONG 0 [0,...]
*log.cleaner.threads INT 1 [0,...]
*log.cleanup.policy LIST delete [compact, delete]
log.dir STRING /tmp/kafka-logs
log.dir.failure.timeout.ms LONG 30000 [1,...]
log.dirs STRING null
*log.flush.interval.messages LONG 9223372036854775807 [1,...]
*log.flush.interval.ms LONG null
log.flush.offset.checkpoint.interval.ms INT 60000 [0,...]
log.flush.scheduler.interval.ms LONG 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms INT 60000 [0,...]
*log.index.interval.bytes INT 4096 [0,...]
*log.index.size.max.bytes INT 10485760 [4,...]
log.initial.task.delay.ms LONG 30000 [0,...]
*log.local.retention.bytes LONG -2 [-2,...]
*log.local.retention.ms LONG -2 [-2,...]
*log.message.downconversion.enable BOOLEAN true
log.message.format.version STRING 3.0-IV1
*log.message.timestamp.after.max.ms LONG 9223372036854775807 [0,...]
*log.message.timestamp.before.max.ms LONG 9223372036854775807 [0,...]
*log.message.timestamp.difference.max.ms LONG 9223372036854775807 [0,...]
*log.message.timestamp.type STRING CreateTime [CreateTime, LogAppendTime]
*log.preallocate BOOLEAN false
*log.retention.bytes LONG -1
log.retention.check.interval.ms LONG 300000 [1,...]
log.retention.hours INT 168
log.retention.minutes INT null
*log.retention.ms LONG null
log.roll.hours INT 168 [1,...]
log.roll.jitter.hours INT 0 [0,...]
*log.roll.jitter.ms LONG null
*log.roll.ms LONG null
*log.segment.bytes INT 1073741824 [14,...]
*log.segment.delete.delay.ms LONG 60000 [0,...]
max.connection.creation.rate INT 2147483647 [0,...]
*max.connections INT 2147483647 [0,...]
*max.connections.per.ip INT 2147483647 [0,...]
max.connections.per.ip.overrides STRING ""
max.incremental.fetch.session.cache.slots INT 1000 [0,...]
max.request.partition.size.limit INT 2000 [1,...]
*message.max.bytes INT 1048588 [0,...]
*min.insync.replicas INT 1 [1,...]
node.id INT -1
num.io.threads INT 8 [1,...]
*num.network.threads INT 3 [1,...]
num.partitions INT 1 [1,...]
num.recovery.threads.per.data.dir INT 1 [1,...]
num.replica.alter.log.dirs.threads INT null
*num.replica.fetchers INT 1
offset.metadata.max.bytes INT 4096
offsets.commit.required.acks SHORT -1
offsets.commit.timeout.ms INT 5000 [1,...]
offsets.load.buffer.size INT 5242880 [1,...]
offsets.retention.check.interval.ms LONG 600000 [1,...]
offsets.retention.minutes INT 10080 [1,...]
offsets.topic.compression.codec INT 0
offsets.topic.num.partitions INT 50 [1,...]
offsets.topic.replication.factor SHORT 3 [1,...]
offsets.topic.segment.bytes INT 104857600 [1,...]
principal.builder.class CLASS \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles LIST "" [broker, controller]
*producer.id.expiration.ms INT 86400000 [1,...]
producer.purgatory.purge.interval.requests INT 1000
queued.max.request.bytes LONG -1
queued.max.requests INT 500 [1,...]
request.timeout.ms INT 30000
reserved.broker.max.id INT 1000 [0,...]
sasl.enabled.mechanisms LIST GSSAPI
sasl.oauthbearer.clock.skew.seconds INT 30
sasl.oauthbearer.expected.audience LIST null
sasl.oauthbearer.expected.issuer STRING null
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
sasl.oauthbearer.jwks.endpoint.url STRING null
sasl.oauthbearer.scope.claim.name STRING scope
sasl.oauthbearer.sub.claim.name STRING sub
sasl.server.max.receive.size INT 524288
security.inter.broker.protocol STRING PLAINTEXT [PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL]
security.providers STRING null
socket.connection.setup.timeout.max.ms LONG 30000
socket.connection.setup.timeout.ms LONG 10000
socket.listen.backlog.size INT 50 [1,...]
socket.receive.buffer.bytes INT 102400
socket.request.max.bytes INT 104857600 [1,...]
socket.send.buffer.bytes INT 102400
ssl.client.auth STRING none [required, requested, none]
ssl.enabled.protocols LIST TLSv1.2,TLSv1.3
ssl.key.password PASSWORD null
ssl.keystore.location STRING null
ssl.keystore.password PASSWORD null
ssl.keystore.type STRING JKS
ssl.principal.mapping.rules STRING DEFAULT
ssl.truststore.certificates PASSWORD null
ssl.truststore.location STRING null
ssl.truststore.password PASSWORD null
ssl.truststore.type STRING JKS
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 [1,...]
transaction.max.timeout.ms INT 900000 [1,...]
*transaction.partition.verification.enable BOOLEAN true
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 [1,...]
transaction.state.log.load.buffer.size INT 5242880 [1,...]
transaction.state.log.min.isr INT 2 [1,...]
transaction.state.log.num.partitions INT 50 [1,...]
transaction.state.log.replication.factor SHORT 3 [1,...]
transaction.state.log.segment.bytes INT 104857600 [1,...]
transactional.id.expiration.ms INT 604800000 [1,...]
*unclean.leader.election.enable BOOLEAN false
"""
