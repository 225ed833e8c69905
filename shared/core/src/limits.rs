//! Every bound of the wallet, named, with its reason. A queue, body, loop or wait that is not bounded here
//! is a mistake.

/// One HTTP body: the original's bound, which agents may rely on.
pub const BODY_BYTES: usize = 1 << 20;
/// A body of which more has come counts as large.
pub const SMALL_BODY_BYTES: usize = 64 << 10;
/// Longest bodies for which there is memory while they arrive, and as many while they are answered: all connections with
/// one each would take a gigabyte.
pub const LARGE_BODIES: usize = 64;
/// How many of them may be of other machines.
pub const LARGE_BODIES_REMOTE: usize = 32;
/// The payment-required header after base64: no honest offer comes near it.
pub const PAYMENT_HEADER_BYTES: usize = 64 << 10;
/// Nesting of a request body; the canonical-JSON vectors accept 127 and refuse 128.
pub const BODY_DEPTH: usize = 127;
/// Values in a request body or in a payment header, containers among them: 32 offers have an eighth of it, and a
/// mebibyte of nothing but small values would take a hundred in memory, from anybody who can connect.
pub const BODY_VALUES: usize = 1 << 12;
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

/// How long a request waits for the operator (wallet specification, States and transitions), and how long a bearer
/// agent hears the same of it after it was denied or has expired.
pub const HOLD_MS: i64 = 15 * 60 * 1000;
/// Requests of one agent that may wait at once: beyond it the queue is a flood, not a queue.
pub const HELD_PER_AGENT: usize = 20;
/// Requests that may wait at once in all.
pub const HELD_IN_ALL: usize = 500;
/// Payments of one agent that may be redeemed at once: what the rate limit lets through in so many minutes.
pub const OPEN_MINUTES: u32 = 60;
/// New requests of one agent in a day (UTC).
pub const REQUESTS_A_DAY: u32 = 100_000;
/// What of each payment header is no padding: honest offers are shorter.
pub const HEADER_FREE_BYTES: usize = 1 << 10;
/// Padding of one agent's headers in a day (UTC): what is beyond that of each of them.
pub const PADDING_A_DAY: u64 = 32 << 20;
/// Settlements of one agent that wait to be looked up on the chain; beyond it reports are believed and not checked.
pub const CHECKS_PER_AGENT: usize = 50;
/// Refused asks of one agent that are recorded in a minute; the others are refused without a trace.
pub const REFUSALS_PER_MINUTE: u32 = 30;
/// A signed timestamp may be this far from our clock, both ends included (setting `server.signature_window_s`).
pub const SIGNATURE_WINDOW_S: u64 = 300;
/// What the setting may be.
pub const SIGNATURE_WINDOW_RANGE_S: std::ops::RangeInclusive<u64> = 60..=900;
/// How long an accepted HMAC signature is remembered, in days of the signed timestamp.
pub const IDENTITY_DAYS: i64 = 30;
/// Longest life that a payment may be given without asking (setting `payments.max_validity`).
pub const MAX_VALIDITY_S: u64 = 3600;
/// Names in the setting `server.hosts`.
pub const MAX_HOSTS: usize = 64;
/// Characters of a URL in a list of requests, unless its host is longer.
pub const LISTED_URL: usize = 200;
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
pub const SNAPSHOT_EVERY: u64 = 10_000;
/// Free disk space under which no new ask is taken.
pub const FREE_DISK_BYTES: u64 = 64 << 20;
/// How long an agent's call waits for a signer before it is told to poll.
pub const SIGNER_WAIT_MS: u64 = 5_000;
/// How long a stopping engine lets a program take for each frame that is still to be delivered.
pub const FAREWELL_MS: u64 = 1_000;
/// How long a stopping engine waits for calls in progress.
pub const DRAIN_MS: u64 = 10_000;

/// How long looking up what one address holds may take: the patience of an agent's HTTP client.
pub const FUNDS_WAIT_MS: u64 = 10_000;
/// How long an address's balances are told without asking again: about a block, and asking in a loop then
/// costs our nodes one question in that time.
pub const FUNDS_FRESH_MS: u64 = 2_000;
/// How long a card waits for the balance that it shows.
pub const GLANCE_WAIT_MS: u64 = 1_000;
/// How long cards show a balance, or that there is none, without asking again.
pub const GLANCE_FRESH_MS: u64 = 10_000;
/// How old a balance may be on a card, with its time, where nothing newer can be had.
pub const GLANCE_KEPT_MS: u64 = 600_000;
/// Addresses and networks whose latest balances are remembered.
pub const FUNDS_KEPT: usize = 1024;
/// Addresses whose balances one command looks up: its answer, on every network there is, fits into a frame.
pub const FUNDS_ADDRESSES: usize = 50;
/// Tokens of explorers in that answer.
pub const FUNDS_FOREIGN_TOKENS: usize = 500;

/// One frame of the control channel.
pub const FRAME_BYTES: usize = 1 << 20;
/// Nesting of a JSON frame.
pub const FRAME_DEPTH: usize = 32;
/// How long a client may take to prove that it knows the token.
pub const HANDSHAKE_MS: u64 = 5_000;
/// Rows of the history in one answer: more would not fit a frame. An export has no such bound.
pub const HISTORY_ROWS: usize = 500;
/// Entries of the journal that one frame hands to a program that watches.
pub const WATCH_ENTRIES: u64 = 256;
/// Text of such a frame: as many as wait for a slow reader are held in memory.
pub const WATCH_BYTES: usize = 64 << 10;
/// Text in one piece of an export.
pub const PART_BYTES: usize = 64 << 10;
/// How long an export waits for a program that takes no more pieces: it keeps the journal from reusing space.
pub const PART_WAIT_MS: u64 = 60_000;
/// Consoles and commands attached at once.
pub const CONTROL_SESSIONS: usize = 64;
/// Programs at the control socket that have not proven its token yet; the oldest makes room for another.
pub const CONTROL_UNPROVEN: usize = 32;
/// One frame of a program that has not proven the token yet.
pub const HANDSHAKE_BYTES: usize = 4 << 10;

/// Calls a minute of one agent, and of one address that proves none (setting `server.rate_per_minute`).
pub const RATE_PER_MINUTE: u32 = 300;
/// The minute of all rate limits, which slides.
pub const RATE_WINDOW_MS: u64 = 60_000;
/// Addresses whose calls are counted one by one; newcomers beyond them share one count. With a default limit each they
/// take ten mebibytes.
pub const RATE_ADDRESSES: usize = 4_096;
/// Pairs of an address and a name whose failed proofs are counted one by one.
pub const RATE_KEYS: usize = 65_536;
/// Failed proofs a minute for one agent from one address: a program that lost its secret asks less often,
/// whoever guesses asks more often.
pub const FAILED_AUTH_PER_MINUTE: u32 = 30;
/// Bearer agents that came from another machine and are remembered: more than anybody registers.
pub const LAN_BEARER_AGENTS: usize = 1024;
/// One of them is warned of once in as long: a warning for every payment would be read by nobody.
pub const LAN_BEARER_WARN_MS: u64 = 60_000;

/// A request's line and headers: an agent's take less than one.
pub const HEAD_BYTES: usize = 16 << 10;
/// Header lines of one request.
pub const HEAD_LINES: usize = 64;
/// Method, target and version: a target carries one id at most.
pub const REQUEST_LINE_BYTES: usize = 4 << 10;
/// One answer: ours are small, and the largest is a document.
pub const REPLY_BYTES: usize = 1 << 20;

/// A request's head, from its first byte: a local client sends it in one piece.
pub const HEAD_MS: u64 = 5_000;
/// A request's body.
pub const BODY_MS: u64 = 10_000;
/// How long a body may come at any pace.
pub const BODY_GRACE_MS: u64 = 1_000;
/// The pace of a body after that, on average: slower is holding a connection, not sending.
pub const BODY_BYTES_PER_S: u64 = 1 << 10;
/// A connection between two requests.
pub const IDLE_MS: u64 = 30_000;
/// A peer that does not read its answer.
pub const WRITE_MS: u64 = 10_000;
/// An agent's call in all, the wait for a signer and the arrival of the body included.
pub const HANDLER_MS: u64 = 30_000;
/// How long what still arrives is read away after the last answer: a socket that is closed with unread
/// data takes the answer with it.
pub const LINGER_MS: u64 = 2_000;
/// How much is read away: a few bodies that were refused for their size.
pub const LINGER_BYTES: usize = 4 << 20;

/// Connections of the agent server: a thousand agents that keep one each, and some.
pub const CONNECTIONS: usize = 1_100;
/// Connections of one remote peer.
pub const CONNECTIONS_PER_PEER: usize = 32;
/// Connections that only this machine's programs may have.
pub const CONNECTIONS_FOR_LOOPBACK: usize = 8;
/// Callers that are being told at once that there is no room; more are hung up on.
pub const TURNED_AWAY: usize = 64;
/// Connections that may wait to be accepted.
pub const LISTEN_BACKLOG: u32 = 1024;
/// Connections that the engine makes itself, at most: endpoints, explorers and control sessions.
pub const OUTBOUND_FILES: usize = 128;
/// Open files that an engine needs: its connections, those that are turned away, control sessions,
/// journal, endpoints, and room to spare.
pub const OPEN_FILES: u64 = 2_048;

/// Shortest password of a wallet.
pub const PASSWORD_CHARS: usize = 8;
/// Longest password file or line that is read.
pub const PASSWORD_BYTES: usize = 4 << 10;
