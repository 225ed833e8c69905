#!/usr/bin/env bash
# The console as a guest in a terminal: sizes, title, bell, clipboard, colours, and the terminal given back
# whatever ends the program.
. "$(dirname "$0")/lib.sh"

engine bursar engine
furnish
terminal you 80 24
tmux set-option -s set-clipboard on
tmux set-option -g monitor-bell on
tmux set-option -g window-size manual
about() { tmux display-message -p -t you "$1"; }
is() { [ "$(about "$1")" = "$2" ]; }
# Told by a file that is there only when it is whole: a word on the screen is there as soon as it is typed.
state() {
  rm -f "$WORK/$1"
  run you "clear; stty -g > $WORK/$1.new; mv $WORK/$1.new $WORK/$1"
  until_true "the modes $1 were never told" test -e "$WORK/$1"
}
given_back() {
  until_true 'the alternate screen stays' is '#{alternate_on}' 0
  until_true 'the cursor stays hidden' is '#{cursor_flag}' 1
  state after
  cmp -s "$WORK/before" "$WORK/after" || fail 'the terminal has other modes than before'
}
# Only below this journey's own terminals: others may run on the machine.
process() {
  local pane pid
  for pane in $(tmux list-panes -a -F '#{pane_pid}'); do
    for pid in $(pgrep -P "$pane" -f "^bursar${1:-}\$"); do echo "$pid"; done
  done | tail -1
}
runs() { [ -n "$(process)" ]; }
state before

run you bursar
see you 'No requests are waiting'
is '#{alternate_on}' 1 || fail 'it draws on the normal screen'
until_true 'no title' is '#{pane_title}' Bursar
agent /large
see you '1 WAITING'
until_true 'the title does not count' is '#{pane_title}' 'Bursar (1 waiting)'
until_true 'it does not ring' is '#{window_bell_flag}' 1
said 'the title counts what waits, and it rings'

# 59 x 15 and less: a message, and the command line.
press you a
see you 'esc not now'
tmux resize-window -t you -x 59 -y 15
see you 'needs 60 x 16'
press you y
tmux resize-window -t you -x 20 -y 5
see you 'has 20 x 5'
press you y
tmux resize-window -t you -x 200 -y 60
see you 'y approve'
never you 'approved and signed'
see you '3 Agents'
close you
tmux resize-window -t you -x 20 -y 5
see you 'has 20 x 5'
line you 'freeze'
tmux resize-window -t you -x 80 -y 24
see you 'FROZEN'
signed 0
said 'any size; nothing is decided where nothing can be read'

see you 'esc close'
close you
first() { bursar requests --json | grep -oE "\"$1\":\"$2\"" | head -1 | cut -d'"' -f4; }
copied() { [ "$(tmux show-buffer 2>/dev/null)" = "$1" ]; }
press you c
until_true 'the payee was not copied' copied "$(first payee '0x[0-9a-fA-F]{40}')"
press you c
until_true 'the id was not copied' copied "$(first id '[0-9a-f-]{36}')"
said 'payee and id are in the clipboard'

press you C-z
see you 'Stopped'
is '#{alternate_on}' 0 || fail 'a stopped console keeps the screen'
run you 'echo in the shell'
see you '^in the shell'
run you fg
see you 'FROZEN'
press you q
see you 'the engine keeps running'
given_back
said 'to the shell and back'

for signal in TERM HUP INT; do
  run you bursar
  see you 'FROZEN'
  until_true 'no console runs' runs
  kill -"$signal" "$(process)"
  see you 'Left the console'
  given_back
done
said 'given back at SIGTERM, SIGHUP and SIGINT'

run you 'NO_COLOR=1 bursar --ascii'
see you 'FROZEN'
if tmux capture-pane -p -e -t you | grep -qE $'\x1b\\[[0-9;]*[34][0-8]'; then fail 'colours in spite of NO_COLOR'; fi
if screen you | grep -qP '[^\x00-\x7f]'; then fail 'more than ASCII'; fi
press you q
see you 'the engine keeps running'
run you 'bursar --color always'
see you 'FROZEN'
tmux capture-pane -p -e -t you | grep -qE $'\x1b\\[[0-9;]*3[0-8]' || fail 'no colours'
press you q
see you 'the engine keeps running'
given_back
said 'plain where it was asked to be'

# The console asks for the background, and its reply is never typed: 25 and 44 are the colours of the focus.
for one in '#ffffff 25' '#000000 44' 'default 63'; do
  read -r background color <<< "$one"
  tmux set-option -g window-style "bg=$background"
  run you bursar
  see you 'FROZEN'
  colored() { tmux capture-pane -p -e -t you | grep -q "38;5;${color}m"; }
  until_true "no palette for the background $background" colored
  press you :
  see you 'enter run'
  see you '^:$'
  close you
  press you q
  see you 'the engine keeps running'
done
given_back
said 'each background has its palette'

# A log that was asked for is not written over the screen: not even that of an engine inside.
run you "BURSAR_LOG=trace bursar --data $WORK/other"
see you 'First steps'
press you 5
see you '> 5 Activity'
never you 'TRACE|DEBUG|INFO'
press you q; see you 'y stop and leave'
until_true 'the question is not armed' eval 'press you y; command sleep 0.1; shows you "The engine has stopped"'
see you 'Log lines are in .*console.log'
[ -s "$WORK/other/console.log" ] || fail 'the log is empty'
[ "$(stat -c %a "$WORK/other/console.log")" = 600 ] || fail 'others may read the log'
given_back
said 'the log goes to a file'

# A terminal that goes away ends its console and no engine.
run you bursar
see you 'FROZEN'
console=$(process)
tmux kill-session -t you
alive() { kill -0 "$console" 2>/dev/null; }
until_true 'the console outlives its terminal' eval '! alive'
bursar_ status
done_ 'manners'
