"""Kafka's broker settings for functions that this broker does not have.

Kafka 3.9's DescribeConfigs lists them, so this broker does, too. They have no effect.
As in the other table, a line that begins with ``*`` has a setting that can change while the broker
runs: administration programs set such a setting, and read it again.
"""

UNUSED_TABLE = """
alter.config.policy.class.name CLASS null
alter.config.policy.kraft.compatibility.enable BOOLEAN false
alter.log.dirs.replication.quota.window.num INT 11 [1,...]
alter.log.dirs.replication.quota.window.size.seconds INT 1 [1,...]
auto.leader.rebalance.enable BOOLEAN true
broker.heartbeat.interval.ms INT 2000
broker.session.timeout.ms INT 9000
control.plane.listener.name STRING null
controller.listener.names STRING null
controller.quorum.append.linger.ms INT 25
controller.quorum.bootstrap.servers LIST ""
controller.quorum.election.backoff.max.ms INT 1000
controller.quorum.election.timeout.ms INT 1000
controller.quorum.fetch.timeout.ms INT 2000
controller.quorum.request.timeout.ms INT 2000
controller.quorum.retry.backoff.ms INT 20
controller.quorum.voters LIST ""
controller.quota.window.num INT 11 [1,...]
controller.quota.window.size.seconds INT 1 [1,...]
controller.socket.timeout.ms INT 30000
delegation.token.expiry.check.interval.ms LONG 3600000 [1,...]
delegation.token.expiry.time.ms LONG 86400000 [1,...]
delegation.token.master.key PASSWORD null
delegation.token.max.lifetime.ms LONG 604800000 [1,...]
delegation.token.secret.key PASSWORD null
group.share.delivery.count.limit INT 5 [2,...,10]
group.share.heartbeat.interval.ms INT 5000 [1,...]
group.share.max.groups SHORT 10 [1,...,100]
group.share.max.heartbeat.interval.ms INT 15000 [1,...]
group.share.max.record.lock.duration.ms INT 60000 [30000,...,3600000]
group.share.max.session.timeout.ms INT 60000 [1,...]
group.share.max.size SHORT 200 [10,...,1000]
group.share.min.heartbeat.interval.ms INT 5000 [1,...]
group.share.min.record.lock.duration.ms INT 15000 [1000,...,30000]
group.share.min.session.timeout.ms INT 45000 [1,...]
group.share.partition.max.record.locks INT 200 [100,...,10000]
group.share.record.lock.duration.ms INT 30000 [1000,...,60000]
group.share.session.timeout.ms INT 45000 [1,...]
inter.broker.listener.name STRING null
inter.broker.protocol.version STRING 3.9-IV0
kafka.metrics.polling.interval.secs INT 10 [1,...]
kafka.metrics.reporters LIST ""
leader.imbalance.check.interval.seconds LONG 300 [1,...]
leader.imbalance.per.broker.percentage INT 10
metadata.log.dir STRING null
metadata.log.max.record.bytes.between.snapshots LONG 20971520 [1,...]
metadata.log.max.snapshot.interval.ms LONG 3600000 [0,...]
metadata.log.segment.bytes INT 1073741824 [12,...]
metadata.log.segment.ms LONG 604800000
metadata.max.idle.interval.ms INT 500 [0,...]
metadata.max.retention.bytes LONG 104857600
metadata.max.retention.ms LONG 604800000
metric.reporters LIST ""
metrics.num.samples INT 2 [1,...]
metrics.recording.level STRING INFO
metrics.sample.window.ms LONG 30000 [1,...]
password.encoder.cipher.algorithm STRING AES/CBC/PKCS5Padding
password.encoder.iterations INT 4096 [1024,...]
password.encoder.key.length INT 128 [8,...]
password.encoder.keyfactory.algorithm STRING null
password.encoder.old.secret PASSWORD null
password.encoder.secret PASSWORD null
quota.window.num INT 11 [1,...]
quota.window.size.seconds INT 1 [1,...]
*remote.fetch.max.wait.ms INT 500 [1,...]
*remote.log.index.file.cache.total.size.bytes LONG 1073741824 [1,...]
remote.log.manager.copier.thread.pool.size INT -1
*remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 [1,...]
remote.log.manager.copy.quota.window.num INT 11 [1,...]
remote.log.manager.copy.quota.window.size.seconds INT 1 [1,...]
remote.log.manager.expiration.thread.pool.size INT -1
*remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 [1,...]
remote.log.manager.fetch.quota.window.num INT 11 [1,...]
remote.log.manager.fetch.quota.window.size.seconds INT 1 [1,...]
remote.log.manager.task.interval.ms LONG 30000 [1,...]
remote.log.manager.thread.pool.size INT 10 [1,...]
remote.log.metadata.custom.metadata.max.bytes INT 128 [0,...]
remote.log.metadata.manager.class.name STRING \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path STRING null
remote.log.metadata.manager.impl.prefix STRING rlmm.config.
remote.log.metadata.manager.listener.name STRING null
remote.log.reader.max.pending.tasks INT 100 [1,...]
remote.log.reader.threads INT 10 [1,...]
remote.log.storage.manager.class.name STRING null
remote.log.storage.manager.class.path STRING null
remote.log.storage.manager.impl.prefix STRING rsm.config.
remote.log.storage.system.enable BOOLEAN false
replica.fetch.backoff.ms INT 1000 [0,...]
replica.fetch.max.bytes INT 1048576 [0,...]
replica.fetch.min.bytes INT 1
replica.fetch.response.max.bytes INT 10485760 [0,...]
replica.fetch.wait.max.ms INT 500
replica.high.watermark.checkpoint.interval.ms LONG 5000
replica.lag.time.max.ms LONG 30000
replica.selector.class STRING null
replica.socket.receive.buffer.bytes INT 65536
replica.socket.timeout.ms INT 30000
replication.quota.window.num INT 11 [1,...]
replication.quota.window.size.seconds INT 1 [1,...]
sasl.client.callback.handler.class CLASS null
sasl.jaas.config PASSWORD null
*sasl.kerberos.kinit.cmd STRING /usr/bin/kinit
*sasl.kerberos.min.time.before.relogin LONG 60000
*sasl.kerberos.principal.to.local.rules LIST DEFAULT
*sasl.kerberos.service.name STRING null
*sasl.kerberos.ticket.renew.jitter DOUBLE 0.05
*sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8
sasl.login.callback.handler.class CLASS null
sasl.login.class CLASS null
sasl.login.connect.timeout.ms INT null
sasl.login.read.timeout.ms INT null
*sasl.login.refresh.buffer.seconds SHORT 300
*sasl.login.refresh.min.period.seconds SHORT 60
*sasl.login.refresh.window.factor DOUBLE 0.8
*sasl.login.refresh.window.jitter DOUBLE 0.05
sasl.login.retry.backoff.max.ms LONG 10000
sasl.login.retry.backoff.ms LONG 100
sasl.mechanism.controller.protocol STRING GSSAPI
*sasl.mechanism.inter.broker.protocol STRING GSSAPI
sasl.oauthbearer.token.endpoint.url STRING null
sasl.server.callback.handler.class CLASS null
ssl.allow.dn.changes BOOLEAN false
ssl.allow.san.changes BOOLEAN false
ssl.cipher.suites LIST ""
*ssl.endpoint.identification.algorithm STRING https
ssl.engine.factory.class CLASS null
*ssl.keymanager.algorithm STRING SunX509
ssl.keystore.certificate.chain PASSWORD null
ssl.keystore.key PASSWORD null
ssl.protocol STRING TLSv1.3
ssl.provider STRING null
*ssl.secure.random.implementation STRING null
*ssl.trustmanager.algorithm STRING PKIX
telemetry.max.bytes INT 1048576 [1,...]
zookeeper.clientCnxnSocket STRING null
zookeeper.connect STRING null
zookeeper.connection.timeout.ms INT null
zookeeper.max.in.flight.requests INT 10 [1,...]
zookeeper.metadata.migration.enable BOOLEAN false
zookeeper.session.timeout.ms INT 18000
zookeeper.set.acl BOOLEAN false
zookeeper.ssl.cipher.suites LIST null
zookeeper.ssl.client.enable BOOLEAN false
zookeeper.ssl.crl.enable BOOLEAN false
zookeeper.ssl.enabled.protocols LIST null
zookeeper.ssl.endpoint.identification.algorithm STRING HTTPS
zookeeper.ssl.keystore.location STRING null
zookeeper.ssl.keystore.password PASSWORD null
zookeeper.ssl.keystore.type STRING null
zookeeper.ssl.ocsp.enable BOOLEAN false
zookeeper.ssl.protocol STRING TLSv1.2
zookeeper.ssl.truststore.location STRING null
zookeeper.ssl.truststore.password PASSWORD null
zookeeper.ssl.truststore.type STRING null
"""
