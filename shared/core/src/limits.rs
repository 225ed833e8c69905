//! Limits of the wallet; some modules define more. A queue, body, loop or wait without a bound is a bug. A suffix
//! such as `_BYTES` or `_MS`, or the comment, names the unit; other values are counts.

/// Longest HTTP body: the limit of the original wallet, which agents may rely on.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// A body larger than this counts as large.
pub const SMALL_BODY_BYTES_MAX: usize = 64 << 10;
/// Memory for large bodies, in multiples of [`BODY_BYTES_MAX`].
///
/// Arriving bodies may use this much memory, and the bodies of requests in progress may use as much again. Without
/// this limit, one body of maximum length on every connection would take a gigabyte.
pub const LARGE_BODIES_MAX: usize = 64;
/// Memory for large bodies from other machines, arriving and in progress together, in multiples of [`BODY_BYTES_MAX`].
pub const LARGE_BODIES_REMOTE_MAX: usize = 32;
/// Longest payment challenge as JSON; a header is measured after base64 decoding.
pub const PAYMENT_HEADER_BYTES_MAX: usize = 64 << 10;
/// Nesting depth of a request body; the canonical-JSON vectors accept 127 and refuse 128.
pub const BODY_DEPTH_MAX: usize = 127;
/// Maximum number of JSON values in a request body or payment header, including containers.
///
/// Without the limit, any caller could make a 1 MiB body of small values take 100 MiB of memory.
pub const BODY_VALUES_MAX: usize = 1 << 12;
/// Nesting depth of a payment challenge.
pub const PAYMENT_HEADER_DEPTH_MAX: usize = 32;
/// Longest URL that an agent or a merchant names.
pub const URL_BYTES_MAX: usize = 4 << 10;
/// Maximum number of bytes of a challenge that are kept to send back with the payment.
pub const ECHO_BYTES_MAX: usize = 16 << 10;
/// Longest idempotency key of a bearer agent.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;
/// Largest payment, in micro-dollars: a billion dollars, the most that the original wallet accepts.
pub const PAYMENT_MICROS_MAX: u64 = 1_000_000_000_000_000;

/// How long a request waits for the operator (wallet specification, States and transitions).
///
/// A bearer agent also receives the result of a denied or expired request for this long.
pub const HOLD_MS: i64 = 15 * 60 * 1000;
/// Maximum number of pending requests of one agent: an operator could not decide more.
pub const HELD_PER_AGENT_MAX: usize = 20;
/// Maximum number of pending requests of all agents.
pub const HELD_TOTAL_MAX: usize = 500;
/// An agent's maximum number of open payments is the number of calls that the rate limit allows in this many minutes.
///
/// While the rate limit is off, the number of open payments is not limited.
pub const OPEN_PAYMENTS_RATE_MINUTES: u32 = 60;
/// Maximum number of new requests of one agent in a UTC day, while the rate limit is on.
pub const REQUESTS_PER_DAY_MAX: u32 = 100_000;
/// Bytes of a payment challenge that do not count as padding: most honest challenges are shorter.
pub const HEADER_BYTES_BEFORE_PADDING: usize = 1 << 10;
/// Maximum number of bytes of padding in one agent's payment challenges in a UTC day.
///
/// Padding is the part of a challenge beyond [`HEADER_BYTES_BEFORE_PADDING`].
pub const PADDING_BYTES_PER_DAY_MAX: u64 = 32 << 20;
/// Maximum number of trades and supplies of one agent that pay for gas and fail in a UTC day.
///
/// After that, further trades and supplies of the day need the operator's approval.
pub const FAILED_PLANS_PER_DAY_MAX: u32 = 20;
/// Maximum number of pending settlement checks of one agent; further reports are accepted without a check on the
/// chain.
pub const SETTLEMENT_CHECKS_PER_AGENT_MAX: usize = 50;
/// Maximum number of refusals recorded for one agent in a minute; further refusals are answered without a record.
pub const RECORDED_REFUSALS_PER_MINUTE_MAX: u32 = 30;
/// Default of `server.signature_window_s`, the largest accepted difference between a signed timestamp and our clock.
pub const SIGNATURE_WINDOW_S: u64 = 300;
/// Values that the setting `server.signature_window_s` accepts.
pub const SIGNATURE_WINDOW_RANGE_S: std::ops::RangeInclusive<u64> = 60..=900;
/// Minimum number of days for which an accepted HMAC signature is remembered, counted from its timestamp.
pub const SIGNATURE_MEMORY_DAYS_MIN: i64 = 30;
/// Default of `payments.max_validity`: the longest validity of a payment without approval.
pub const MAX_VALIDITY_S: u64 = 3600;
/// Maximum number of names in the setting `server.hosts`.
pub const SERVER_HOSTS_MAX: usize = 64;

/// The longest URL of a registry of mandates, in bytes.
pub const REGISTRY_URL_BYTES_MAX: usize = 2_048;
/// Maximum number of characters of a URL in a list of requests; a longer host is not cut.
pub const LISTED_URL_CHARS_MAX: usize = 200;
/// Maximum number of reports about one payment that may change its record; an honest agent sends two.
pub const REPORTS_PER_PAYMENT_MAX: u8 = 8;
/// Maximum number of reports about one payment of which those without a proof count.
pub const UNPROVEN_REPORTS_PER_PAYMENT_MAX: u8 = REPORTS_PER_PAYMENT_MAX / 2;
/// Longest text that is kept of an agent's report about a failed settlement.
pub const REPORT_TEXT_BYTES_MAX: usize = 200;
/// Maximum number of pending settlement checks of all agents; further reports are accepted without a check on the
/// chain.
pub const SETTLEMENT_CHECKS_MAX: usize = 10_000;
/// How long the chain is searched for a reported transaction.
pub const SETTLEMENT_CHECK_MS_MAX: i64 = 24 * 3600 * 1000;
/// Shortest life of an allowance before it renews (wallet specification, Limits).
pub const ALLOWANCE_LIFE_MS_MIN: i64 = 20 * 3600 * 1000;
/// Tolerance between boot clock and wall clock when an allowance renews.
///
/// Time synchronization corrects seconds, not minutes.
pub const ALLOWANCE_BOOT_SLACK_MS: i64 = 5 * 60 * 1000;
/// If the local clock is further ahead of the newest block than this, no allowance renews automatically.
pub const CLOCK_AHEAD_OF_CHAIN_MS_MAX: i64 = 3600 * 1000;

/// If the local clock differs by more than this from the newest block, nothing is approved automatically, because the
/// validity times of authorizations depend on the local clock.
pub const CLOCK_OFF_CHAIN_MS_MAX: i64 = 600 * 1000;
/// If the local clock differs by more than this from the newest block, the engine logs it and `doctor` reports it.
pub const CLOCK_OFF_CHAIN_WARN_MS: i64 = 120 * 1000;
/// Interval between two reads of a chain's newest block, while agents pay on that chain.
pub const CHAIN_TIME_INTERVAL_MS: u64 = 10 * 60 * 1000;
/// How long the time of a chain's newest block is used after the block was read.
pub const CHAIN_TIME_VALID_MS: u64 = 3 * CHAIN_TIME_INTERVAL_MS;
/// A chain without a new block for this long is idle: its old block time does not contradict our clock.
pub const CHAIN_IDLE_AFTER_MS: u64 = 15 * 1000;

/// Maximum number of commands queued for the core; further callers receive `BUSY`.
pub const CORE_QUEUE_MAX: usize = 1024;
/// Maximum number of commands per commit while commits are slow.
///
/// The disk then sets the pace, and a larger batch only raises tail latency.
pub const CORE_BATCH_MAX: usize = 64;
/// Maximum number of commands per commit while commits are quick, so that callers and core work in parallel.
pub const CORE_BATCH_QUICK_MAX: usize = 32;
/// A core step that takes at least this long counts as delayed by the disk.
pub const SLOW_CORE_STEP_MS_MIN: u64 = 6;
/// How long records of signatures wait to join another commit before they get their own.
pub const SIGNATURE_RECORD_DELAY_MS_MAX: u64 = 100;
/// Minimum number of journal entries between two snapshots of the state.
pub const SNAPSHOT_INTERVAL_ENTRIES_MIN: u64 = 10_000;
/// Free disk space below which new requests are refused.
pub const FREE_DISK_BYTES_MIN: u64 = 64 << 20;
/// How long a call or an approval waits for a signer; after that, the agent must poll.
pub const SIGNER_WAIT_MS: u64 = 5_000;
/// How long a stopping engine waits for a program to read each remaining frame.
pub const FINAL_FRAME_TIMEOUT_MS: u64 = 1_000;
/// How long a stopping engine waits for calls in progress.
pub const DRAIN_TIMEOUT_MS: u64 = 10_000;

/// Timeout of reading one address's balances; an agent's HTTP client waits about as long.
pub const FUNDS_TIMEOUT_MS: u64 = 10_000;
/// How long an address's balances are returned from the cache.
///
/// This is about one block time: an agent that polls in a loop then costs one query per block.
pub const FUNDS_FRESH_MS: u64 = 2_000;
/// How long a card waits for its balance.
pub const CARD_BALANCE_WAIT_MS: u64 = 1_000;
/// How long cards reuse a balance, or a failure to read one.
pub const CARD_BALANCE_FRESH_MS: u64 = 10_000;
/// Maximum age of a balance that a card shows, with its time, if no newer balance can be read.
pub const CARD_BALANCE_AGE_MS_MAX: u64 = 600_000;
/// Maximum number of accounts (address and network) whose latest balances are cached.
pub const FUNDS_CACHE_ACCOUNTS_MAX: usize = 1024;
/// Maximum number of addresses per `balances` command: the result for all networks must fit one frame.
pub const FUNDS_ADDRESSES_MAX: usize = 50;
/// Maximum number of tokens outside our table, as explorers list them, in one result with balances.
pub const FUNDS_FOREIGN_TOKENS_MAX: usize = 500;

/// Maximum number of vaults of one network that the scan of the lending lane keeps; it ignores vaults created later.
///
/// Any account can create vaults, and each poll of the scan queries all of them for deposits.
pub const SCAN_VAULTS_MAX: usize = 2_000;
/// Maximum number of addresses of the wallet whose deposits the scan follows.
pub const SCAN_OWNERS_MAX: usize = 1_000;
/// Maximum number of venues that the scan keeps for one address because the address itself made deposits there.
pub const SCAN_OWN_DEPOSIT_VENUES_MAX: usize = 200;
/// Maximum number of venues that the scan keeps for one address because other accounts made deposits there for it.
///
/// The bound is separate from [`SCAN_OWN_DEPOSIT_VENUES_MAX`], because any account can make such deposits.
pub const SCAN_RECEIVED_DEPOSIT_VENUES_MAX: usize = 100;
/// Maximum number of contracts or addresses in one query of the scan; some nodes refuse longer lists.
pub const SCAN_QUERY_ADDRESSES_MAX: usize = 100;
/// Maximum number of blocks in one query of the scan; the scan asks for fewer if the node refuses so many.
pub const SCAN_QUERY_BLOCKS_MAX: u64 = 900_000;
/// Interval between two queries for new blocks, once the scan has reached the newest block.
pub const SCAN_INTERVAL_MS: u64 = 30_000;
/// Longest pause of the scan after failures; the first pause lasts [`SCAN_PAUSE_MS`], and each further pause twice as
/// long.
pub const SCAN_PAUSE_MAX_MS: u64 = 60_000;
/// Pause of the scan after a failure, or after a range that the node refused.
pub const SCAN_PAUSE_MS: u64 = 1_000;
/// Maximum number of blocks by which the safe block of one node may be behind the safe block of another node.
///
/// If the scan is further ahead than this, a node reported blocks that did not exist, and the scan searches all blocks
/// again.
pub const SCAN_LAG_BLOCKS_MAX: u64 = 2_000;
/// Number of searches after which a long scan pauses and queries the safe block again.
pub const SCAN_SEARCHES_BEFORE_PAUSE: u32 = 64;
/// Interval between two saves of the scan's results, while it finds something or catches up.
pub const SCAN_SAVE_INTERVAL_MS: u64 = 10_000;
/// Interval between two saves of the scan's progress, while it only follows new blocks.
///
/// After a restart, the scan repeats at most the blocks of this interval.
pub const SCAN_SAVE_IDLE_INTERVAL_MS: u64 = 10 * 60 * 1000;
/// Longest accepted file of the scan; a scan within the bounds above writes less.
pub const SCAN_FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of vaults outside our table that one answer about vaults reads.
pub const FOREIGN_VAULTS_READ_MAX: usize = 200;

/// Longest frame of the control channel.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Nesting depth of a JSON frame.
pub const FRAME_DEPTH_MAX: usize = 32;
/// How long engine and client each wait for the handshake to complete.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 5_000;
/// Maximum number of rows of one `history` or `activity` result, because more would not fit a frame.
///
/// Exports are not limited.
pub const HISTORY_ROWS_MAX: usize = 500;
/// Maximum number of journal entries in one frame of `watch`.
pub const WATCH_FRAME_ENTRIES_MAX: u64 = 256;
/// Longest text of one frame of `watch`.
///
/// All frames queued for a slow reader are held in memory.
pub const WATCH_FRAME_BYTES_MAX: usize = 64 << 10;
/// Length of the text that an export collects before it sends a part.
pub const EXPORT_PART_BYTES: usize = 64 << 10;
/// How long an export waits for a program that has stopped reading.
///
/// While an export waits, the journal cannot reuse space.
pub const EXPORT_PART_TIMEOUT_MS: u64 = 60_000;
/// Maximum number of consoles and commands attached at the same time.
pub const CONTROL_SESSIONS_MAX: usize = 64;
/// Maximum number of sessions at the control socket that have not proven the token yet; a new session evicts the
/// oldest.
pub const CONTROL_UNPROVEN_SESSIONS_MAX: usize = 32;
/// Longest frame before the token is proven.
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 4 << 10;

/// Default of `server.rate_per_minute`: calls of one agent, or calls from one IP address without a valid proof.
pub const RATE_PER_MINUTE: u32 = 300;
/// The sliding window of all rate limits.
pub const RATE_WINDOW_MS: u64 = 60_000;
/// Maximum number of IP addresses with their own rate count; further addresses share one count.
///
/// Two counters have this bound, one for calls without a proof and one for polls. At the default rate, each takes up to
/// 16 MiB.
pub const RATE_ADDRESSES_MAX: usize = 4_096;
/// Maximum number of pairs of address and agent name with their own count of failed proofs.
pub const RATE_KEYS_MAX: usize = 65_536;
/// Maximum number of failed proofs per minute for one agent from one address.
///
/// A program that lost its secret stays below this; a guessing attacker does not.
pub const FAILED_AUTH_PER_MINUTE_MAX: u32 = 30;
/// Maximum number of bearer agents remembered as callers from other machines; no operator registers that many.
pub const LAN_BEARER_AGENTS_MAX: usize = 1024;
/// Minimum time between two warnings about a bearer agent that calls from another machine.
///
/// Operators would ignore a warning for each payment.
pub const LAN_BEARER_WARN_INTERVAL_MS: u64 = 60_000;

/// Maximum length of request line and headers together; those of an agent take less than one KiB.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum number of header lines of one request.
pub const HEAD_LINES_MAX: usize = 64;
/// Longest request line (method, target, version); a target contains at most one id.
pub const REQUEST_LINE_BYTES_MAX: usize = 4 << 10;
/// Longest response of the agent server that a client reads.
///
/// Responses are small; the largest is a document.
pub const AGENT_REPLY_BYTES_MAX: usize = 1 << 20;

/// How long a request's head may take from its first byte; a local client sends it in one piece.
pub const HEAD_TIMEOUT_MS: u64 = 5_000;
/// How long a request's body may take.
pub const BODY_TIMEOUT_MS: u64 = 10_000;
/// How long a body may arrive at any rate; after that, [`BODY_BYTES_PER_S_MIN`] applies.
pub const BODY_GRACE_MS: u64 = 1_000;
/// Lowest average rate of a body after [`BODY_GRACE_MS`].
///
/// A slower peer is holding a connection, not sending.
pub const BODY_BYTES_PER_S_MIN: u64 = 1 << 10;
/// How long a connection may be idle between two requests.
pub const IDLE_TIMEOUT_MS: u64 = 30_000;
/// How long a peer may stop reading its response.
pub const WRITE_TIMEOUT_MS: u64 = 10_000;
/// Time from the first byte of an agent's call until its response begins, including the wait for a signer.
pub const HANDLER_TIMEOUT_MS: u64 = 30_000;
/// Time from the first byte of a call that trades or lends until its answer.
///
/// It covers measuring, recording, and the wait for the end of the plan. It is below [`HANDLER_TIMEOUT_MS`], and below
/// the timeout of clients that give up after 30 seconds.
pub const ANSWER_TIMEOUT_MS: u64 = 25_000;
/// How long arriving bytes are discarded after the last response.
///
/// A socket closed with unread data is reset, which can destroy the response.
pub const LINGER_MS_MAX: u64 = 2_000;
/// Maximum number of bytes that are discarded after the last response: a few bodies that were refused for their size.
pub const LINGER_BYTES_MAX: usize = 4 << 20;

/// Maximum number of connections of the agent server: one each for a thousand agents, and some spare.
pub const CONNECTIONS_MAX: usize = 1_100;
/// Maximum number of connections of one remote peer.
pub const CONNECTIONS_PER_PEER_MAX: usize = 32;
/// Number of connections reserved for programs on this machine.
pub const LOOPBACK_CONNECTIONS_RESERVED: usize = 8;
/// Maximum number of connections that are refused at the same time; further connections are closed without a
/// response.
pub const REFUSED_CONNECTIONS_MAX: usize = 64;
/// Backlog of the listening socket.
pub const LISTEN_BACKLOG: u32 = 1024;
/// Number of open files reserved for the engine's own connections: endpoints, explorers and control sessions.
pub const OUTBOUND_FILES_RESERVED: usize = 128;
/// Number of open files that an engine needs: connections, refusals, control sessions, journal, endpoints and some
/// spare.
pub const OPEN_FILES_NEEDED: u64 = 2_048;

/// Shortest password of a wallet, in characters.
pub const PASSWORD_CHARS_MIN: usize = 8;
/// Longest password or seed phrase that is read from a file or a line.
pub const PASSWORD_BYTES_MAX: usize = 4 << 10;
