#!/usr/bin/env bash
# Each dialog of the console: what opens it, its title, and what `y` does there, in the order of docs/keys.md.
. "$(dirname "$0")/lib.sh"

TABLE=$(sed -n '/^## Dialogs/,$p' "$(dirname "$0")/../../docs/keys.md" | sed '1,/^|---/d')
ROW=0
# row TEXT: the next row of the table contains this text.
row() {
  ROW=$((ROW + 1))
  sed -n "${ROW}p" <<< "$TABLE" | grep -Fq -- "$1" || fail "row $ROW of the table of dialogs is not: $1"
}
# two_wait: two payments wait in the console; their processes are $FIRST and $SECOND.
two_wait() {
  agent /large; FIRST=$AGENT
  see you '1 WAITING'
  agent /large; SECOND=$AGENT
  see you '2 WAITING'
}

engine bursar engine
waiting 120 40

row '| `Request 4191fec7` | approves the request |'
press you a
see you 'Request [0-9a-f]{8} '
see you 'y approve'
press you y
see you 'approved and signed'
paid
said 'a, y: approved'

row '| `Deny 4191fec7?` | denies the request |'
agent /large
see you '1 WAITING'
press you d
see you 'Deny [0-9a-f]{8}\? '
see you ' y deny   esc not now '
press you a
see you 'Request [0-9a-f]{8} '
see you 'y approve'
press you d
see you 'Deny [0-9a-f]{8}\? '
see you ' y deny   esc not now '
press you n
gone you 'Deny [0-9a-f]{8}\? '
see you '1 WAITING'
press you d
see you ' y deny   esc not now '
press you y
see you '1.500000 USDC denied'
unpaid
signed 1
said 'd, y: denied'

row '| `Approve 2 requests?` | approves the marked requests |'
two_wait
press you '*'
see you '2 marked, 2 waiting'
press you A
see you 'Approve 2 requests\? '
see you 'sum +3.000000 USDC'
see you ' y approve   esc not now '
press you y
see you 'Approved 2 requests'
AGENT=$FIRST; paid
AGENT=$SECOND; paid
signed 3
said '*, A, y: both approved'

row '| `Deny 2 requests?` | denies the marked requests |'
two_wait
press you Space
press you Space
see you '2 marked, 2 waiting'
press you D
see you 'Deny 2 requests\? '
see you ' y deny   esc not now '
press you y
see you 'Denied 2 requests'
AGENT=$FIRST; unpaid
AGENT=$SECOND; unpaid
signed 3
said 'space, D, y: both denied'

row 'such as `policy edit` | the command | answers yes |'
line you 'policy edit careful --txn 6'
see you 'policy edit'
see you 'max per payment 5.00 -> 6.00 USD'
see you 'y yes'
press you y
see you 'effective at once: max per payment 5.00 -> 6.00 USD'
close you
said 'a question, y: yes'

row 'such as `agent delete` | the command | is a letter of the text |'
line you 'agent delete reader'
see you 'Type its name to continue \(reader\)'
until_true 'the field is not armed' eval 'press you y; command sleep 0.1; shows you "> y"'
press you Escape
gone you 'Type its name to continue'
bursar agent show reader > "$WORK/command.log" 2>&1 || fail 'the agent is gone'
said 'a field, y: a letter'

row '| the command or the row | nothing |'
press you 3
press you Enter
see you 'agent show'
press you y
press you j
see you 'agent show'
close you
said 'a text, y: nothing'

row '| `?` | `Help` | nothing |'
press you '?'
see you 'Help: keys'
press you y
type_ you '/freeze'
see you 'Help /freeze'
press you Enter
see you 'esc closes'
press you Escape
gone you 'Help /freeze'
said 'the help, y: nothing'

row '| `Leave?` | stops the engine and leaves |'
press you q
see you 'the engine keeps running'
kill "$ENGINE"
wait "$ENGINE" 2>/dev/null || true
run you "bursar --password-file '$WORK/password'"
see you 'engine: inside'
press you q
see you 'Leave\?'
see you 'y stop and leave +k leave'
until_true 'the question is not armed' eval 'press you k; command sleep 0.1; shows you "The engine keeps running in this"'
bursar status --check unlocked > /dev/null || fail 'the engine does not keep running'
press you C-c
see you 'The engine has stopped'
press you C-l
run you "bursar --password-file '$WORK/password'"
see you 'engine: inside'
press you q
see you 'y stop and leave'
until_true 'the question is not armed' eval 'press you y; command sleep 0.1; shows you "The engine has stopped"'
[ "$ROW" -eq "$(wc -l <<< "$TABLE")" ] || fail 'the table of dialogs has other rows'
done_ 'every dialog'
