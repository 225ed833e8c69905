#!/usr/bin/env bash
# The desktop edition: one window next to which nothing else can drive the wallet.
. "$(dirname "$0")/lib.sh"

STICK=$WORK/stick
DATA=$STICK/bursar-desk-data
mkdir -p "$STICK"
ln "$BIN/bursar-desk" "$STICK/bursar-desk" 2>/dev/null || cp "$BIN/bursar-desk" "$STICK/bursar-desk"
desk_settings "$DATA" http://127.0.0.1:9

terminal you 100 30
run you "$STICK/bursar-desk"
see you 'BURSAR_[A-Z0-9_]+ is set, but this program takes settings from its window and its data folder only'
run you 'unset $(compgen -e | grep ^BURSAR_); clear'
run you "$STICK/bursar-desk"
see you '\[>\] A wallet with a password'
see you 'engine: inside'
said 'the window is open'

furnish_window you "$WORK/agent.env"
set -a; . "$WORK/agent.env"; set +a
said 'a wallet and an agent'

merchant
said 'the agent pays a small price at once'

# Nothing but the window and its folder: no socket, no token file.
[ ! -e "$DATA/control.sock" ] && [ ! -e "$DATA/control.json" ] || fail 'a control channel is there'
refused=$(env -u BURSAR_DATA_DIR bursar --data "$DATA" status 2>&1) && fail 'bursar reached it'
grep -q 'belongs to the desktop edition' <<< "$refused" || fail "$refused"
refused=$(bursar-pay --data "$DATA" status 2>&1) && fail 'bursar-pay reached it'
grep -q 'belongs to the desktop edition' <<< "$refused" || fail "$refused"
terminal second 100 30
run second 'unset $(compgen -e | grep ^BURSAR_); clear'
run second "$STICK/bursar-desk; echo exit=\$?"
see second 'already uses the data folder .*/stick/bursar-desk-data: go to its window'
see second 'exit=10'
said 'a second instance and the other programs are refused'

# A card opens by itself over any view; later leaves it in the queue.
press you 5
agent /large
see you 'Request [0-9a-f]{8} '
see you 'y approve.* esc later'
press you Escape
gone you 'Request [0-9a-f]{8} '
see you '1 WAITING'
press you 1
press you a
see you 'y approve'
press you y
see you 'approved and signed'
paid
said 'a card was left, and approved from the queue'

agent /large
see you 'y approve'
press you n
see you '1.500000 USDC denied'
unpaid
said 'a card was denied'

# Where the operator types, no card opens.
press you :; see you '^:'; type_ you 'wallet pass'
agent /large
see you '1 WAITING'
never you 'Request [0-9a-f]{8} '
press you Escape
see you 'y approve'
press you y
see you 'approved and signed'
paid
said 'no card opened over a line'

# Commands with files use the folder for exports, after a question.
line you 'history export ../may.csv'; see you 'only a name'
line you 'history export may.csv'; see you 'exports/may.csv'; see you 'Write the file\?'; see you 'y yes'
[ ! -e "$DATA/exports/may.csv" ] || fail 'written before the answer'
press you y
see you 'Wrote 4 requests'; close you
[ -s "$DATA/exports/may.csv" ] || fail 'no history'
line you 'address export research'; see you 'not encrypted'; see you 'y yes'
press you y
see you "The wallet.s password"
type_ you "$PASSWORD"; press you Enter
until_true 'the key is written' test -s "$DATA/exports/research.key"
grep -Eq '^(0x)?[0-9a-f]{64}$' "$DATA/exports/research.key" || fail 'a private key'
see you 'Delete the file once it was used'
line you 'wallet backup main-1'; see you 'Write the file\?'; see you 'y yes'
press you y
until_true 'the backup is written' test -s "$DATA/exports/main-1"
[ "$(stat -c %a "$DATA/exports" "$DATA"/exports/* | sort -u | tr '\n' ' ')" = '600 700 ' ] || fail 'open to others'
see you 'wallet +main'; close you
said 'history, key and backup are in exports'

# A restore closes the window, asks in this terminal, and opens the window again.
line you 'wallet restore main-1'; see you 'Close the window and restore it\?'; see you 'y yes'
press you y
see you 'Restore the backup\?'
type_ you y; press you Enter
see you 'assword'
type_ you "$PASSWORD"; press you Enter
see you 'Press Enter to open the window again'
press you Enter
see you 'LOCKED'
ls "$DATA" | grep -q '^replaced-' || fail 'the files before the restore are gone'
said 'restored'

line you 'install-service'; see you 'bursar-desk has no .install-service.: only the full edition'
press you q
see you 'This window is the engine'
never you 'keep the engine'
see you 'y stop and close'; see you '^y yes'
press you y
see you 'The engine has stopped'
agent /small
unpaid
[ ! -s "$DATA/engine.lock" ] || fail 'the lock still names its holder'
done_ 'one window, sealed'
