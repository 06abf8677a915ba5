"""The error codes of Apache Kafka 4.3."""

from enum import IntEnum


class ErrorCode(IntEnum):
    """An error code of a response, by Kafka's name.

    ``message`` is a sentence for people. ``is_retriable``: a retry of the request may succeed, and
    Kafka's clients retry automatically.
    """

    message: str
    is_retriable: bool

    def __new__(cls, code: int, message: str = "", is_retriable: bool = False) -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.is_retriable = is_retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "An unexpected error occurred in the broker."
    NONE = 0, ""
    OFFSET_OUT_OF_RANGE = 1, "The offset is outside the range that the partition has."
    CORRUPT_MESSAGE = (
        2,
        "The records fail a checksum, exceed a size, or are otherwise corrupt.",
        True,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "The broker has no such topic or partition.", True
    INVALID_FETCH_SIZE = 4, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", True
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "The broker is not the leader, or not a replica, of the partition.",
        True,
    )
    REQUEST_TIMED_OUT = 7, "The request timed out.", True
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica of the partition is not available.", True
    MESSAGE_TOO_LARGE = 10, "The batch is larger than the broker accepts."
    STALE_CONTROLLER_EPOCH = 11, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata of a committed offset is too long."
    NETWORK_EXCEPTION = 13, "The connection was lost before a response arrived.", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is loading its state.", True
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", True
    NOT_COORDINATOR = 16, "The broker is not the coordinator.", True
    INVALID_TOPIC_EXCEPTION = 17, "The operation is not allowed for a topic of this name."
    RECORD_LIST_TOO_LARGE = 18, "The records are larger than a segment may be."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than the topic requires.", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written to fewer replicas than the topic requires.",
        True,
    )
    INVALID_REQUIRED_ACKS = 21, "The number of required acknowledgements is invalid."
    ILLEGAL_GENERATION = 22, "The generation of the group is not the current one."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        "The member shares no protocol with the other members of the group.",
    )
    INVALID_GROUP_ID = 24, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know the member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the broker's limits."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing, and the member must rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The size of the committed offset's data is invalid."
    TOPIC_AUTHORIZATION_FAILED = 29, "Access to the topic is denied."
    GROUP_AUTHORIZATION_FAILED = 30, "Access to the group is denied."
    CLUSTER_AUTHORIZATION_FAILED = 31, "The cluster operation is denied."
    INVALID_TIMESTAMP = 32, "The timestamp of a record is outside the limits of the topic."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not support the SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request is not valid in this state of the authentication."
    UNSUPPORTED_VERSION = 35, "The version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists."
    INVALID_PARTITIONS = 37, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = (
        38,
        "The replication factor is below 1 or above the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas is invalid."
    INVALID_CONFIG = 40, "The configuration is invalid."
    NOT_CONTROLLER = 41, "The broker is not the controller.", True
    INVALID_REQUEST = 42, "The request contradicts the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        "The message format of the topic does not support the request.",
    )
    POLICY_VIOLATION = 44, "The request violates a policy of the broker."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        "The sequence number of the producer does not follow the last one.",
    )
    DUPLICATE_SEQUENCE_NUMBER = 46, "The sequence number of the producer was used before."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is older than the current one."
    INVALID_TXN_STATE = 48, "The operation is not valid in the state of the transaction."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above the broker's limit."
    CONCURRENT_TRANSACTIONS = 51, "Another operation of the transactional id is in progress.", True
    TRANSACTION_COORDINATOR_FENCED = 52, "A newer transaction coordinator exists."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Access to the transactional id is denied."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = (
        55,
        "The broker did not attempt the operation, since others of the request failed.",
    )
    KAFKA_STORAGE_ERROR = 56, "The disk failed, or the log directory is offline.", True
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The partition has no records of the producer."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are disabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The broker has no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal is neither owner nor renewer of the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "The connection may not request delegation tokens."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Access to the delegation token is denied."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The type of principal is not supported."
    NON_EMPTY_GROUP = 68, "The group has members."
    GROUP_ID_NOT_FOUND = 69, "The broker has no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker has no such fetch session.", True
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        "The epoch of the fetch session is not the expected one.",
        True,
    )
    LISTENER_NOT_FOUND = 72, "The partition's leader has no such listener.", True
    TOPIC_DELETION_DISABLED = 73, "Topics may not be deleted."
    FENCED_LEADER_EPOCH = 74, "The leader epoch is older than the broker's.", True
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch is newer than the broker's.", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The request's version does not support the compression."
    STALE_BROKER_EPOCH = 77, "The broker's epoch is not the current one."
    OFFSET_NOT_AVAILABLE = 78, "The new leader's high watermark has not reached the offset.", True
    MEMBER_ID_REQUIRED = 79, "The member must join again with the id in the response."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", True
    GROUP_MAX_SIZE_REACHED = 81, "The group has reached its maximum size."
    FENCED_INSTANCE_ID = 82, "Another member has taken over the static member's instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (
        83,
        "No replica that may lead the partition is available.",
        True,
    )
    ELECTION_NOT_NEEDED = 84, "The partition has the leader that an election would choose.", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "A group that reads a topic may not delete its offsets."
    INVALID_RECORD = 87, "A record violates the rules of the topic."
    UNSTABLE_OFFSET_COMMIT = 88, "A transaction has offsets pending for the partition.", True
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up; retry later.", True
    PRODUCER_FENCED = 90, "A newer producer uses the transactional id."
    RESOURCE_NOT_FOUND = 91, "The resource does not exist."
    DUPLICATE_RESOURCE = 92, "The request names a resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, "The sender or receiver is not among the expected voters."
    INVALID_UPDATE_VERSION = 95, "The version of the update is invalid."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "The broker has no topic of this id.", True
    DUPLICATE_BROKER_REGISTRATION = 101, "A broker of this id is registered."
    BROKER_ID_NOT_REGISTERED = 102, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic id differs from the one in the log.", True
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id differs from the broker's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The broker has no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "The fetch session mixes requests with and without topic ids.",
        True,
    )
    INELIGIBLE_REPLICA = 107, "The replica may not join the replicas in sync."
    NEW_LEADER_ELECTED = 108, "The partition change elected a new leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is in tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The coordinator has fenced the member, which must rejoin."
    UNRELEASED_INSTANCE_ID = 111, "Another member uses the instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The coordinator does not support the assignor."
    STALE_MEMBER_EPOCH = 113, "The member's epoch is not the current one."
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        "The request was sent to another type of endpoint than it names.",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The type of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "The controller id is unknown."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is not the current one."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The broker refuses the registration."
    TRANSACTION_ABORTABLE = 120, "The transaction failed and must be aborted."
    INVALID_RECORD_STATE = 121, "The record is not in the state that the acknowledgement expects."
    SHARE_SESSION_NOT_FOUND = 122, "The broker has no such share session.", True
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        "The epoch of the share session is not the expected one.",
        True,
    )
    FENCED_STATE_EPOCH = 124, "The share coordinator has a newer state epoch."
    INVALID_VOTER_KEY = 125, "The voter key differs from the receiver's."
    DUPLICATE_VOTER = 126, "The voter is already in the voter set."
    VOTER_NOT_FOUND = 127, "The voter is not in the voter set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is invalid."
    REBOOTSTRAP_REQUIRED = 129, "The client must bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the topology is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, "A newer epoch of the topology exists."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker has reached its limit of share sessions.", True

    @classmethod
    def of(cls, code: int) -> "ErrorCode":
        """The member with this code; UNKNOWN_SERVER_ERROR for a code that Kafka does not have."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR
