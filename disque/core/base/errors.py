"""Error replies, once each: the bytes that follow the dash on the wire.

The texts are those of Disque 1.0 wherever it has one, since old clients compare them. The first word is the code that
client libraries turn into an exception class.
"""

from typing import Final

SYNTAX: Final = b"ERR syntax error"
BAD_ID: Final = b"BADID Invalid Job ID format."
NO_AUTH: Final = b"NOAUTH Authentication required."
NO_PASSWORD_SET: Final = b"ERR Client sent AUTH, but no password is set"
WRONG_PASSWORD: Final = b"ERR invalid password"
WRONG_PASS: Final = b"WRONGPASS invalid username-password pair or user is disabled."
NO_PROTOCOL: Final = b"NOPROTO unsupported protocol version"
OUT_OF_MEMORY: Final = b"OOM command not allowed when used memory > 'maxmemory'."
NO_DEBUG: Final = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    b"connection, otherwise you need to set this option in the configuration file, and then restart the server."
)
INTERNAL: Final = b"ERR internal error, see the log of the server"
LOADING: Final = b"LOADING Disque is loading the dataset in memory"
LEAVING: Final = b"LEAVING This node is leaving the cluster, please connect to a different one"
NOT_AN_INTEGER: Final = b"ERR value is not an integer or out of range"
BAD_TIMEOUT: Final = b"ERR timeout is not an integer or out of range"
NEGATIVE_TIMEOUT: Final = b"ERR timeout is negative"

BAD_REPLICATE: Final = b"ERR REPLICATE must be between 1 and 65535"
BAD_TTL: Final = b"ERR TTL must be a number > 0"
BAD_RETRY: Final = b"ERR RETRY time must be a non negative number"
BAD_DELAY: Final = b"ERR DELAY time must be a non negative number"
BAD_AT: Final = b"ERR AT must be milliseconds since 1970, as a non negative number"
AT_AND_DELAY: Final = b"ERR AT and DELAY cannot be used together"
BAD_PRIORITY: Final = b"ERR PRIORITY must be a number from 0 to 255"
BAD_MAXLEN: Final = b"ERR MAXLEN must be a positive number"
TOO_MANY_QUEUES: Final = b"ERR GETJOB can wait in at most 4096 queues at once"
TOO_MANY_PLACES: Final = b"ERR too many clients wait in many queues at once: wait in at most %d queues"
BAD_COUNT: Final = b"ERR COUNT must be a number greater than zero"
ONTO_ITSELF: Final = b"ERR QMOVE needs two different queues"
BAD_LEASE: Final = b"ERR LEASE must be a number of seconds greater than zero"
BAD_BYTES: Final = b"ERR BYTES must be a number greater than zero"
TOO_FAR: Final = b"ERR %b must be at most 4294967295 seconds"
BAD_WINDOW: Final = b"ERR UNIQUE needs a key of 1 to 512 bytes and a window of 0 to 604800 seconds"
BAD_TRIES: Final = b"ERR TRIES must be a number between 0 and 65535"
BAD_BACKOFF: Final = (
    b"ERR BACKOFF must be kind:base[:max[:jitter]], with kind fixed, linear or exponential, base and max in seconds, "
    b"max not below base, and jitter between 0 and 1"
)
BAD_RETAIN: Final = b"ERR RETAIN must be a number of seconds between 0 and 31536000"
BAD_RESULT: Final = b"ERR RESULT is longer than max-result-bytes (%d bytes)"
RESULTS_FULL: Final = b"ERR there are 64mb of results here for jobs that no node has known yet: try again later"
MANY_IDS: Final = b"ERR WAITJOB takes at most %d IDs"
MANY_WAITS: Final = b"ERR clients of this node wait for too many jobs already: at most %d"
BAD_PROGRESS: Final = b"ERR PROGRESS takes one text, behind the IDs"
BAD_DEADLETTER: Final = b"ERR DEADLETTER must be the name of a queue with at most 512 bytes, or empty"
BAD_HEADER: Final = (
    b"ERR the name of a HEADER must have 1 to 128 printable characters, and its value no control characters"
)
MANY_HEADERS: Final = b"ERR a job can have at most 64 headers, 65536 bytes together"
SAME_HEADER: Final = b"ERR a job can have one HEADER of each name"
TWICE: Final = b"ERR %b can be said once"
ONE_DELIVERY: Final = b"ERR with RETRY 0 a job is delivered once: it has no TRIES, BACKOFF or DEADLETTER"
BAD_METRICS_COUNT: Final = b"ERR COUNT must be a number from 0 to 10000"
LONG_PATTERN: Final = b"ERR A pattern of channels may have at most 256 bytes"
TOO_MANY_PATTERNS: Final = b"ERR Clients of this node listen to too many different patterns: at most 1000"
LONG_CHANNEL: Final = b"ERR The name of a channel may have at most 4096 bytes"
LONG_MESSAGE: Final = b"ERR A message may have at most 1048576 bytes; ADDJOB takes larger bodies"
OWN_CHANNEL: Final = b"ERR Channels that begin with 'job:' are the server's own: it tells there what happens to jobs"
TOO_MANY_SUBSCRIPTIONS: Final = b"ERR A connection may listen to at most 4096 channels and patterns"
LACKING: Final = b"ERR %b needs all nodes to know it: node %b runs an older version"
#: The same of one that has not said it yet.
UNHEARD: Final = b"ERR %b needs all nodes to know it: node %b is away, and nobody knows which version it runs"
NACK_CONTRADICTS: Final = b"ERR NACK: NOCOUNT cannot be said with ERROR or DEAD, nor DEAD with DELAY"
BAD_KEY: Final = b"ERR a UNIQUE key has 1 to 512 bytes"
UNIQUE_ASYNC: Final = b"ERR UNIQUE cannot be used with ASYNC: the reply must wait until the key is known to be new"
AT_MOST_ONCE: Final = b"ERR With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)"
AT_BEYOND_TTL: Final = b"ERR AT is after the end of the TTL. Job refused since it would never be delivered"
DELAY_BEYOND_TTL: Final = b"ERR The specified DELAY is greater than TTL. Job refused since would never be delivered"
NO_REPL: Final = b"NOREPL Not enough reachable nodes for the requested replication level"
NO_REPL_LEAVING: Final = (
    NO_REPL + b", since I'm unable to hold a copy of the message for the following reason: I'm leaving the cluster"
)
NO_REPL_MEMORY: Final = (
    NO_REPL + b", since I'm unable to hold a copy of the message for the following reason: I'm out of memory"
)
NO_REPL_SIZE: Final = NO_REPL + b": the body has %d bytes, which is more than proto-max-bulk-len of some of them"
NO_REPL_TIMEOUT: Final = b"NOREPL Timeout reached before replicating to the requested number of nodes"
NO_REPL_DISK: Final = b"NOREPL Timeout reached before the journal could be written (%b). The job may still be delivered"
NO_REPL_REMOVED: Final = b"NOREPL job removed (expired?) before the requested replication level was achieved"
MAXLEN: Final = b"MAXLEN Queue is already longer than the specified MAXLEN count"
PAUSED: Final = b"PAUSED Queue paused in input, try later"
CANCELLED: Final = b"CANCELLED Job was cancelled, nobody wants it any more."
NO_JOB: Final = b"NOJOB Job not known in the context of this node."
TOO_LATE: Final = b"TOOLATE Half of job TTL already elapsed, you are no longer allowed to postpone the next delivery."
NO_QUEUE: Final = b"NOPERM this user has no permissions to access one of the keys used as arguments"
NO_CHANNEL: Final = b"NOPERM this user has no permissions to access one of the channels used as arguments"
NO_COMMAND: Final = b"NOPERM this user has no permissions to run the '%b' command"
MANY_CLAIMS: Final = b"ERR a user with rights to some queues only can name at most %d jobs in one command"
MANY_QUEUES: Final = b"ERR a user with rights to some queues only can name at most %d queues in one command"
MANY_NAMES: Final = b"ERR too many names, or too long ones, for the patterns of this user"
NOT_CHECKED: Final = (
    b"NOJOB Job not known, and some nodes cannot be reached: nobody can say whether this user may see it"
)
FIXED_USER: Final = b"ERR user '%b' stands in the configuration of this node, so ACL cannot change it here"
PASSWORD_FIXED: Final = (
    b"ERR the password of user 'default' is requirepass at this node: change it there, or set requirepass to nothing"
)
LAST_USER: Final = b"ERR nobody would be left who may do everything: only the configuration can do that"
NO_ACL_FILE: Final = (
    b"ERR Users need no ACL file here: all nodes keep those of ACL SETUSER, and the configuration may have more of them"
)
BAD_CURSOR: Final = b"ERR invalid cursor or option name"
BAD_STATE: Final = b"ERR Invalid job state name"
BAD_REPLY_TYPE: Final = b"ERR Invalid REPLY type, try ID or ALL"


def unknown_command(name: bytes) -> bytes:
    """The reply to a name that is in no table: as typed, harmless on the wire, at most 128 bytes of it."""
    shown = name.split(b"\0", 1)[0][:128].replace(b"\r", b" ").replace(b"\n", b" ")
    return b"ERR unknown command '%b'" % shown


def wrong_arity(name: bytes) -> bytes:
    """The reply to a command with too few or too many words."""
    return b"ERR wrong number of arguments for '%b' command" % name


def too_many_words(name: bytes, most: int) -> bytes:
    """The reply to a command with so many words that to look at them would stop everybody."""
    return b"ERR too many arguments for '%b' command: at most %d words" % (name, most)


def only_listens(name: bytes) -> bytes:
    """The reply to a command of a RESP2 connection that has subscribed: its replies could not be told from messages."""
    return (
        b"ERR Can't execute '%b': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        % name
    )


def one_line(text: bytes) -> bytes:
    """``text`` made fit for an error reply, which ends at the first line end."""
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


UNKNOWN_OPTION: Final = b"ERR unknown option of queues '%b', try one of: %b"
BAD_OPTION: Final = b"ERR %b must be %b"
LONG_NAME: Final = b"ERR the name of a queue that has options, or its beginning, can have at most 512 bytes"
REGISTRY_FULL: Final = b"ERR the nodes of this cluster share too many settings already: see registry-max-bytes"
BAD_CRON_NAME: Final = b"ERR the name of a schedule must have 1 to 256 bytes and no control characters"
BAD_CATCHUP: Final = b"ERR CATCHUP must be none, last or all"
CRON_OPTION: Final = b"ERR %b cannot be said in CRON SET: each tick has a UNIQUE key of its own"
LONG_SCHEDULE: Final = b"ERR a schedule, its body included, can have at most 1048576 bytes"
BAD_CRON_COUNT: Final = b"ERR the count must be a number from 1 to 1000"
NO_SCHEDULE: Final = b"ERR there is no schedule of this name"
