//! Every bound of the wallet, named, with its reason. A queue, body, loop or wait that is not bounded here
//! is a mistake.

/// One HTTP body: the original's bound, which agents may rely on.
pub const BODY_BYTES: usize = 1 << 20;
/// The payment-required header after base64: no honest offer comes near it.
pub const PAYMENT_HEADER_BYTES: usize = 64 << 10;
/// Nesting of a request body; the canonical-JSON vectors accept 127 and refuse 128.
pub const BODY_DEPTH: usize = 127;
/// Values in a request body or in a payment header, containers among them: 32 offers have a tenth of it, and a
/// mebibyte of nothing but small values would take a hundred in memory, from anybody who can connect.
pub const BODY_VALUES: usize = 1 << 14;
/// Nesting of the decoded payment header.
pub const PAYMENT_HEADER_DEPTH: usize = 32;
/// One URL that an agent or a merchant names.
pub const URL_BYTES: usize = 4 << 10;
/// What of an offer is kept to send back with the payment.
pub const ECHO_BYTES: usize = 16 << 10;
/// A bearer agent's idempotency key.
pub const IDEMPOTENCY_KEY_BYTES: usize = 128;
/// The largest payment the original reads: a thousand million dollars in micro-units.
pub const PAYMENT_MICROS: u64 = 1_000_000_000_000_000;

/// How long a request waits for the operator (wallet specification, States and transitions).
pub const HOLD_MS: i64 = 15 * 60 * 1000;
/// Requests of one agent that may wait at once: beyond it the queue is a flood, not a queue.
pub const HELD_PER_AGENT: usize = 20;
/// Requests that may wait at once in all.
pub const HELD_IN_ALL: usize = 500;
/// A signed timestamp may be this far from our clock, both ends included.
pub const SIGNATURE_WINDOW_S: i64 = 300;
/// How long an accepted HMAC signature is remembered, in days of the signed timestamp.
pub const IDENTITY_DAYS: i64 = 30;
/// How long a denied or expired bearer ask keeps its answer before it counts as a new ask.
pub const REJECTION_REPEATS_MS: i64 = 15 * 60 * 1000;
/// Longest life that a payment may be given without asking (setting `payments.max_validity`).
pub const MAX_VALIDITY_S: u64 = 3600;
/// Names in the setting `server.hosts`.
pub const MAX_HOSTS: usize = 64;
/// Reports about one payment that change something: an honest agent makes two.
pub const REPORTS_PER_PAYMENT: u8 = 8;
/// Text of an agent about a failed settlement that is kept.
pub const REPORT_TEXT_BYTES: usize = 200;
/// Settlements that wait to be looked up on the chain; beyond it reports are believed and not checked.
pub const CHECKS_IN_ALL: usize = 10_000;
/// How long a reported transaction is looked for before the search is given up.
pub const CHECK_LASTS_MS: i64 = 24 * 3600 * 1000;
/// An allowance must have lasted this long before it renews (wallet specification, Limits).
pub const ALLOWANCE_LASTS_MS: i64 = 20 * 3600 * 1000;
/// Slack for the boot clock against the wall clock in that rule: clocks are disciplined by seconds, not
/// by minutes.
pub const ALLOWANCE_BOOT_SLACK_MS: i64 = 5 * 60 * 1000;
/// A local clock this far ahead of the newest block does not renew an allowance by itself.
pub const CLOCK_AHEAD_OF_CHAIN_MS: i64 = 3600 * 1000;

/// A clock this far off the newest block approves nothing by itself: the times of an authorization are
/// reckoned by it.
pub const CLOCK_OFF_CHAIN_MS: i64 = 600 * 1000;
/// A clock this far off is worth a line in the log.
pub const CLOCK_OFF_CHAIN_WARN_MS: i64 = 120 * 1000;
/// Between two looks at a chain's newest block, while agents pay there.
pub const CHAIN_TIME_EVERY_MS: u64 = 10 * 60 * 1000;
/// How long such a look says anything.
pub const CHAIN_TIME_LASTS_MS: u64 = 3 * CHAIN_TIME_EVERY_MS;
/// A chain that makes no block for so long is asleep, and says nothing of our clock.
pub const CHAIN_AWAKE_MS: u64 = 15 * 1000;

/// Commands that may wait for the core; beyond it callers are told BUSY.
pub const CORE_QUEUE: usize = 1024;
/// Commands decided in one commit while commits are slow: the disk then sets the pace, and a larger batch
/// only lengthens the tail.
pub const CORE_BATCH: usize = 64;
/// Commands decided in one commit while commits are quick: callers and core then work side by side instead
/// of waiting for each other.
pub const CORE_BATCH_QUICK: usize = 32;
/// A step that took as long was held up by the disk.
pub const CORE_STEP_SLOW_MS: u64 = 6;
/// Records that may wait for the next commit before one is made for them.
pub const RECORD_DELAY_MS: u64 = 100;
/// Entries between two snapshots of the state.
pub const SNAPSHOT_EVERY: u64 = 50_000;
/// Free disk space under which no new ask is taken.
pub const FREE_DISK_BYTES: u64 = 64 << 20;
/// How long an agent's call waits for a signer before it is told to poll.
pub const SIGNER_WAIT_MS: u64 = 5_000;
/// How long a stopping engine waits for calls in progress.
pub const DRAIN_MS: u64 = 10_000;

/// One frame of the control channel.
pub const FRAME_BYTES: usize = 1 << 20;
/// Nesting of a JSON frame.
pub const FRAME_DEPTH: usize = 32;
/// How long a client may take to prove that it knows the token.
pub const HANDSHAKE_MS: u64 = 5_000;
/// Consoles and commands attached at once.
pub const CONTROL_SESSIONS: usize = 64;

/// Requests a minute from one address (setting `server.rate_per_minute`).
pub const RATE_PER_MINUTE: u32 = 300;
/// Addresses that the rate limit keeps count of.
pub const RATE_KEYS: usize = 65_536;

/// Shortest password of a wallet.
pub const PASSWORD_CHARS: usize = 8;
/// Longest password file or line that is read.
pub const PASSWORD_BYTES: usize = 4 << 10;
