#!/usr/bin/env bash
# The console line by line: a dumb terminal, a payment approved and one denied, and how it ends.
. "$(dirname "$0")/lib.sh"

# answer TEXT: after the question can be read. What comes at once with it is ignored.
answer() { see you "$1"; command sleep 0.6; type_ you "$2"; press you Enter; }
waiting_id() { flat you | grep -o 'Decide with: approve [0-9a-f]\{8\}' | tail -1 | grep -o '[0-9a-f]\{8\}$'; }

engine bursar engine
furnish
terminal you 80 50
run you 'TERM=dumb bursar; echo "exit $?"'
see you 'No full screen is possible here: TERM is dumb'
see you 'The wallet main is open'
see you 'No requests are waiting'
said 'a dumb terminal: line by line, with the reason'

agent /large
see you 'Decide with: approve [0-9a-f]{8}   or: deny [0-9a-f]{8}'
ID=$(waiting_id)
run you "approve $ID"
see you "Approve $ID\? Type yes\."
[ "$(flat you | grep -c '^leaves ')" -eq 1 ] || fail 'the card was printed twice'
answer "Approve $ID\?" y
see you 'Nothing was decided: type yes'
signed 0
run you "approve $ID"
until_true 'the card is not printed again' eval '[ "$(flat you | grep -c "^leaves ")" -eq 2 ]'
command sleep 0.6
run you yes
see you "Approved $ID"
paid
signed 1
said 'approve, y: nothing; approve, yes: paid'

run you status
see you '^wallet '
agent /large
until_true 'no second card' eval '[ "$(waiting_id)" != "$ID" ]'
ID=$(waiting_id)
run you "deny $ID too dear"
answer "Deny $ID\?" yes
see you "Denied $ID"
unpaid
signed 1
said 'deny, yes: denied'

agent /large
until_true 'no third card' eval '[ "$(waiting_id)" != "$ID" ]'
ID=$(waiting_id)
# Typed before the question: it must not answer it.
tmux send-keys -t you -l "approve $ID"
tmux send-keys -t you Enter
tmux send-keys -t you -l yes
tmux send-keys -t you Enter
see you "Approve $ID\?"
command sleep 1
never you "Approved $ID"
signed 1
press you C-d
see you 'Nothing was decided: the input has ended'
see you 'exit 8'
signed 1
said 'typed ahead: nothing; the end of the input in a question: exit 8'

run you 'bursar --plain --observe; echo "exit $?"'
see you 'This console only observes'
run you "approve $ID"
see you 'only observes \(--observe\): nothing was sent'
press you C-d
see you 'exit 0'
bursar_ deny "$ID"
unpaid
signed 1
said 'an observer decides nothing; Ctrl-D leaves'

kill "$ENGINE"
wait "$ENGINE" 2>/dev/null || true
run you clear
run you 'TERM=dumb bursar; echo "exit $?"'
see you 'The wallet main is locked. Open it with: wallet open'
run you 'wallet open'
see you 'Password of the wallet'
never you "$PASSWORD"
run you "$PASSWORD"
see you 'unlocked|is open'
never you "$PASSWORD"
run you quit
answer 'Type yes to leave' yes
see you 'The engine has stopped'
see you 'exit 0'
said 'the engine inside: a password without echo, and a question before it stops'
# Nothing was drawn: no line is longer than the terminal, and no character is outside ASCII.
if flat you | grep -P '[^\x00-\x7f]'; then fail 'a character outside ASCII'; fi
done_ 'plain'
