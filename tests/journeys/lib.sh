# What the journeys share. Each runs in a folder of its own, in terminals of its own (a tmux server that
# reads no configuration), with a port that the system chooses. Nothing waits by the clock: a key follows
# when the screen shows what a person would have waited for.
#
# BIN is where bursar, bursar-demo and bursar-test-engine are; without it, target/debug beside here.
set -euo pipefail

BIN=${BIN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/target/debug}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/bursar-journey-XXXXXX")
DATA=$WORK/data
PASSWORD='correct horse battery'
PROGRAM=bursar
PATIENCE=${PATIENCE:-60}
# Only what a journey sets, whatever the machine it runs on.
for name in $(compgen -e | grep -E '^(BURSAR_|WALLET_)' || true); do unset "$name"; done
unset TMUX NO_COLOR
export PATH=$BIN:$PATH LANG=C.UTF-8 LC_ALL=C.UTF-8
export BURSAR_DATA_DIR=$DATA BURSAR_SERVER_LISTEN=127.0.0.1:0
# Nothing of a journey leaves the machine: nobody listens there.
export BURSAR_NETWORKS_8453_RPC=http://127.0.0.1:9 BURSAR_NETWORKS_4663_RPC=http://127.0.0.1:9
export BURSAR_NETWORKS_8453_EXPLORER=none
umask 077
printf '%s\n' "$PASSWORD" > "$WORK/password"

tmux() { command tmux -f /dev/null -S "$WORK/tmux" "$@"; }

cleanup() {
  tmux kill-server 2>/dev/null || true
  for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  # A shell or its daemon may still write its history there.
  for _ in $(seq 100); do
    rm -rf "$WORK" 2>/dev/null && return
    command sleep 0.05
  done
}
trap cleanup EXIT

# terminal NAME COLUMNS ROWS: opens one with a shell in it. Its window has its name: tmux otherwise names a window after
# the program in it for half a second, and keys for the terminal `bash` reach the window `bash` of another terminal.
terminal() {
  tmux new-session -d -s "$1" -n "$1" -x "$2" -y "$3" "PS1='$ ' TERM=tmux-256color bash --norc --noprofile"
  tmux set-option -t "$1" status off >/dev/null
  see "$1" '\$ '
}

screen() { tmux capture-pane -p -t "$1"; }
# The screen as one text, so that what a terminal wrapped is found.
flat() { tmux capture-pane -p -J -t "$1"; }

fail() {
  echo "FAILED: $*" >&2
  for one in $(tmux list-sessions -F '#{session_name}' 2>/dev/null); do
    echo "--- $one" >&2
    screen "$one" >&2
  done
  for log in "$WORK"/*.log; do [ -e "$log" ] && { echo "--- $log" >&2; tail -20 "$log" >&2; }; done
  exit 1
}

# until_true WHAT COMMAND...: asks again and again.
until_true() {
  local what=$1 end=$((SECONDS + PATIENCE))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "$what"
    command sleep 0.03
  done
}

shows() { flat "$1" | grep -Eq -- "$2"; }
hides() { ! shows "$1" "$2"; }
# see TERMINAL PATTERN, gone TERMINAL PATTERN: waits until it is on the screen, or no longer.
see() { until_true "$1 never showed: $2" shows "$1" "$2"; }
gone() { until_true "$1 never stopped showing: $2" hides "$1" "$2"; }
# never TERMINAL PATTERN: it is not there now.
never() { hides "$1" "$2" || fail "$1 shows: $2"; }

press() { local one=$1; shift; tmux send-keys -t "$one" "$@"; }
type_() { tmux send-keys -t "$1" -l -- "$2"; }
paste_() {
  tmux set-buffer -b pasted -- "$2"
  # As a terminal does it for programs that know of pasting.
  tmux paste-buffer -p -b pasted -t "$1"
}
# close TERMINAL: closes the overlay and waits until it has gone. A terminal may read Escape and a key that follows
# at once as one key.
close() {
  local hint='esc (close|not now|leave unch|canc|back)'
  see "$1" "$hint"
  press "$1" Escape
  gone "$1" "$hint"
}
# line TERMINAL COMMAND: a console's command line.
line() { press "$1" :; see "$1" '^:'; type_ "$1" "$2"; press "$1" Enter; }
# run TERMINAL COMMAND: a shell's.
run() { type_ "$1" "$2"; press "$1" Enter; }

STEP=$(date +%s%N)
BEGUN=$STEP
said() { local now; now=$(date +%s%N); printf '  %5d ms  %s\n' $(((now - STEP) / 1000000)) "$1"; STEP=$now; }
done_() { printf 'passed in %d ms: %s\n' $((($(date +%s%N) - BEGUN) / 1000000)) "$1"; }

# engine [PROGRAM ARGUMENTS...]: starts one and waits until it is ready; its process is $ENGINE.
engine() {
  : > "$WORK/engine.out"
  if [ $# -eq 0 ]; then set -- bursar engine --password-file "$WORK/password"; fi
  "$@" > "$WORK/engine.out" 2> "$WORK/engine.log" &
  ENGINE=$!
  until_true 'the engine is not ready' grep -q READY "$WORK/engine.out"
}

# furnish: a wallet, an address, a policy, an agent that has paid once, its environment, a merchant.
furnish() {
  bursar_ wallet create main --password-file "$WORK/password"
  bursar_ seed create --reveal
  bursar_ address create research 0
  bursar_ policy create careful --day 10 --txn 5 --auto 0.50
  bursar_ agent register reader
  bursar_ agent commission reader careful research
  eval "$("$PROGRAM" agent instructions reader)"
  export WALLET_AGENT_ID WALLET_AGENT_TOKEN WALLET_AUTH_MODE WALLET_URL
  merchant
}

# merchant: starts a merchant, from which the agent of the environment buys once.
merchant() {
  start_merchant
  agent /small
  paid
}
SELLER=0x209693Bc6afc0C5328bA36FaF03C514EF312287C
# start_merchant [OPTIONS...]: it sells for $SELLER at $MERCHANT.
start_merchant() {
  # It ends when its standard input does: a pipe that this script holds open.
  mkfifo "$WORK/hold"
  exec 9<>"$WORK/hold"
  bursar-demo merchant "$SELLER" "$@" <&9 > "$WORK/merchant.out" 2> "$WORK/merchant.log" &
  until_true 'the merchant is not ready' grep -sq READY "$WORK/merchant.out"
  MERCHANT=$(cut -d' ' -f2 "$WORK/merchant.out")
}

# desk_settings FOLDER RPC: the settings of bursar-desk, which takes none from the environment.
desk_settings() {
  mkdir -p "$1"
  cat > "$1/settings.toml" <<T
[server]
listen = "127.0.0.1:0"
[networks.8453]
rpc = ["$2"]
explorer = "none"
[networks.4663]
rpc = ["http://127.0.0.1:9"]
T
}
# furnish_window TERMINAL FILE: what `furnish` does, in the window of bursar-desk; the agent's variables are in FILE.
furnish_window() {
  line "$1" 'wallet create main'
  see "$1" 'A new password'
  type_ "$1" "$PASSWORD"; press "$1" Enter
  see "$1" 'Repeat the password'
  type_ "$1" "$PASSWORD"; press "$1" Enter
  see "$1" 'state +unlocked'; close "$1"
  line "$1" 'seed create'; see "$1" 'Write these words down'; close "$1"
  line "$1" 'address create research 0'; see "$1" 'address +0x'
  # The panes behind the overlay may show the addresses of vaults.
  ADDRESS=$(flat "$1" | sed -nE 's/.*address +(0x[0-9a-fA-F]{40}).*/\1/p' | head -1); close "$1"
  line "$1" 'policy create careful --day 10 --txn 5 --auto 0.50'; see "$1" '10.00 USD a day'; close "$1"
  line "$1" 'agent register reader'
  see "$1" 'WALLET_AUTH_MODE'
  flat "$1" | grep -oE 'WALLET_[A-Z_]+=[^ │]+' | tr -d "'" > "$2"; close "$1"
  [ "$(cut -d= -f1 "$2" | sort -u | wc -l)" = 4 ] || fail "four variables: $(cat "$2")"
  line "$1" 'agent commission reader careful research'; see "$1" 'status +active'; close "$1"
}

bursar_() { "$PROGRAM" "$@" > "$WORK/command.log" 2>&1 || fail "$PROGRAM $*"; }

# agent PATH: buys in the background; its process is $AGENT, what it said is in agent.log.
agent() {
  # Its proofs carry whole seconds: within one, the same ask is the same request.
  until_true 'time stands still' later_than "${ASKED:-0}"
  ASKED=$(date +%s)
  bursar-demo agent "$MERCHANT$1" > "$WORK/agent.log" 2>&1 &
  AGENT=$!
}
later_than() { [ "$(date +%s)" -gt "$1" ]; }
# waiting COLUMNS ROWS: an agent's payment waits in the console of the terminal `you`.
waiting() {
  furnish
  terminal you "$1" "$2"
  run you bursar
  see you 'No requests are waiting'
  agent /large
  see you '1 WAITING'
}
# paid, unpaid: how that ended.
paid() { ended || fail 'the agent did not get what it paid for'; }
unpaid() { if ended; then fail 'the agent got it'; fi; }
# On a busy machine an agent asks later than it was started.
ended() {
  local failed=0
  wait "$AGENT" || failed=1
  ASKED=$(date +%s)
  return $failed
}

# signed COUNT: as many payments were signed after that first one.
signed() {
  # That one was signed is noted a moment after it was answered; one too many would be there by now.
  until_true "not $1 payments were signed" signed_are "$1"
}
signed_are() {
  local found
  found=$(bursar activity --limit 500 --json | grep -o '"payment\.signed"' | wc -l)
  [ "$found" -le $(($1 + 1)) ] || fail "$((found - 1)) payments were signed, not $1"
  [ "$found" -eq $(($1 + 1)) ]
}

# ask METHOD PARAMS: what the chain at $CHAIN itself says.
ask() {
  local body="{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":$2}"
  exec 8<>"/dev/tcp/${CHAIN%:*}/${CHAIN#*:}"
  printf 'POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s' \
    "${#body}" "$body" >&8
  tail -1 <&8
  exec 8<&-
}

# chain: a full local chain of Base at $CHAIN. It ends when its standard input does.
chain() {
  mkfifo "$WORK/node"
  exec 7<>"$WORK/node"
  bursar-devnet run 8453 <&7 > "$WORK/chain.out" 2> "$WORK/devnet.log" &
  until_true 'the chain is not ready' grep -sq READY "$WORK/chain.out"
  CHAIN=$(sed -n 's|^READY http://||p' "$WORK/chain.out")
  export BURSAR_NETWORKS_8453_RPC=http://$CHAIN
}
DOLLAR=0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913
# word HEX: 32 bytes of call data.
word() { printf '%064s' "$1" | tr ' ' 0; }
# dollars OWNER: its dollars on the chain, in millionths.
dollars() {
  local hex
  hex=$(ask eth_call "[{\"to\":\"$DOLLAR\",\"data\":\"0x70a08231$(word "${1#0x}")\"},\"latest\"]" |
    grep -oE '"0x[0-9a-f]+"' | tr -d '"')
  echo $((hex))
}
has_dollars() { [ "$(dollars "$1")" = "$2" ]; }
# fund OWNER MILLIONTHS: a coin for gas, and dollars. Any account may mint this stablecoin.
fund() {
  ask anvil_setBalance "[\"$1\",\"0xde0b6b3a7640000\"]" > /dev/null
  ask anvil_impersonateAccount "[\"$1\"]" > /dev/null
  ask eth_sendTransaction \
    "[{\"from\":\"$1\",\"to\":\"$DOLLAR\",\"data\":\"0x40c10f19$(word "${1#0x}")$(word "$(printf %x "$2")")\"}]" > /dev/null
  until_true 'no dollars' has_dollars "$1" "$2"
  ask anvil_stopImpersonatingAccount "[\"$1\"]" > /dev/null
}
