#!/usr/bin/env bash
# The payments-only edition: a session, the console, the engine and single commands, in each of their states.
. "$(dirname "$0")/lib.sh"

unset BURSAR_DATA_DIR
export BURSAR_NETWORKS_1187947933_RPC=http://127.0.0.1:9
STICK=$WORK/stick
mkdir -p "$STICK"
ln "$BIN/bursar-pay" "$STICK/bursar-pay" 2>/dev/null || cp "$BIN/bursar-pay" "$STICK/bursar-pay"
PROGRAM=$STICK/bursar-pay
# An agent of this edition names itself by agent_code, which `pay` does.
agent() {
  until_true 'time stands still' later_than "${ASKED:-0}"
  ASKED=$(date +%s)
  "$PROGRAM" pay "$MERCHANT$1" > "$WORK/agent.log" 2>&1 &
  AGENT=$!
}
# answer TEXT: after the question can be read. What comes at once with it is ignored.
answer() { see you "$1"; command sleep 0.6; type_ you "$2"; press you Enter; }

engine "$PROGRAM" --headless
furnish
[ -e "$STICK/bursar-pay-data/journal.redb" ] || fail 'the folder is not next to the program'
grep -q '"agent_code"' <<< "$(curl -s "$WALLET_URL/openapi.json")" || fail 'the agents of this edition send agent_code'
said 'the engine alone, and commands that attach to it'

refused=$("$PROGRAM" --headless 2>&1) && fail 'a second engine started'
grep -q "process $ENGINE" <<< "$refused" || fail "$refused"
said 'a second engine names the first'

terminal you 90 40
run you "$PROGRAM"
see you 'line by line'
see you 'The wallet main is open'
never you 'The engine runs in this console'
agent /large
see you 'Decide with: approve [0-9a-f]{8}   or: deny [0-9a-f]{8}'
ID=$(flat you | grep -o 'Decide with: approve [0-9a-f]\{8\}' | tail -1 | grep -o '[0-9a-f]\{8\}$')
run you "approve $ID"
answer "Approve $ID\? Type yes\." yes
see you "Approved $ID"
paid
press you C-d
said 'a session attaches, announces what waits, and decides'

run you "clear; $PROGRAM --gui"
see you 'No requests are waiting'
agent /large
see you '1 WAITING'
press you 1
press you Enter
see you 'y approve'
command sleep 0.6
press you y
see you 'approved and signed'
paid
press you q
gone you 'approved and signed'
said 'the full-screen console attaches'

kill "$ENGINE"
wait "$ENGINE" 2>/dev/null || true
run you "clear; $PROGRAM"
see you 'The engine runs in this console'
run you 'wallet open'
see you 'Password of the wallet'
run you "$PASSWORD"
see you 'unlocked|is open'
eval "$("$PROGRAM" agent instructions reader)"
agent /small
paid
run you quit
answer 'Type yes to leave' yes
see you 'The engine has stopped'
agent /small
unpaid
said 'alone, a session is the engine, and ends it'
done_ 'payments alone'
