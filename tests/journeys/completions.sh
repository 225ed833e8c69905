#!/usr/bin/env bash
# Completion of commands and names in the shells that are installed, also with names that are commands themselves,
# and without an engine.
. "$(dirname "$0")/lib.sh"

engine bursar engine
bursar_ wallet create main --password-file "$WORK/password"
bursar_ seed create --reveal
bursar_ address create 'pay box' 0
bursar_ policy create careful --day 10 --txn 5
for name in 'my bot' 'zz$(touch owned)' 'semi;touch owned' "it's" 'back`touch owned`'; do
  bursar_ agent register "$name"
done
cd "$WORK"

# shell NAME COMMAND SETUP: a terminal that runs this shell with completions.
shell() {
  tmux new-session -d -s "$1" -n "$1" -x 120 -y 40 "TERM=tmux-256color HOME=$WORK $2"
  tmux set-option -t "$1" status off >/dev/null
  until_true "$1 does not start" prompts "$1"
  run "$1" "$3"
  run "$1" 'echo set-up'
  see "$1" '^set-up'
  empty_line "$1"
}
prompts() { [ -n "$(screen "$1" | tr -d ' \n')" ]; }
# completes SHELL TYPED EXPECTED: after Tab the line is as expected; the line is then run, and does what it names.
completes() {
  type_ "$1" "$2"
  press "$1" Tab
  see "$1" "$3"
}
# Ctrl-U is a key like any other, while Ctrl-C interrupts a completion that is still running and leaves its line. In
# Elvish, Ctrl-L opens a list.
empty_line() { press "$1" C-u; [ "$1" = elvish ] || press "$1" C-l; }

check() {
  completes "$1" 'bursar poli' 'bursar policy '
  empty_line "$1"
  completes "$1" 'bursar policy show care' 'bursar policy show careful'
  empty_line "$1"
  completes "$1" 'bursar policy test careful 1 --dom' '--domain'
  empty_line "$1"
  # A name with a space is one argument.
  completes "$1" 'bursar agent show my' "$2"
  press "$1" Enter
  see "$1" 'agent +my bot'
  press "$1" C-l
  # Names that would be commands are shown, and never run.
  for start in zz semi back it; do
    type_ "$1" "bursar agent show $start"
    press "$1" Tab
    until_true "$1 does not complete $start" completed "$1" "$start"
    press "$1" Enter
    see "$1" "agent +$start"
    press "$1" C-l
    [ ! -e "$WORK/owned" ] || fail "$1 ran the name $start"
  done
  said "$1 completes commands, options and names"
}
completed() { flat "$1" | grep -E "agent show .*$2" | grep -qvE "agent show $2 *\$"; }

shell bash "PS1='$ ' bash --norc --noprofile" 'source <(bursar completions bash)'
check bash 'agent show my\\ bot'
[ -z "$(command -v zsh)" ] || {
  shell zsh "zsh -f" "PS1='$ '; autoload -U compinit; compinit -u -d $WORK/zdump; source <(bursar completions zsh)"
  check zsh 'agent show my\\ bot'
}
[ -z "$(command -v fish)" ] || {
  shell fish "fish --no-config" "function fish_prompt; echo '\$ '; end; bursar completions fish | source"
  check fish 'agent show my\\ bot'
}
[ -z "$(command -v elvish)" ] || {
  shell elvish "elvish -norc" "set edit:prompt = { put '$ ' }; eval (bursar completions elvish | slurp)"
  completes elvish 'bursar policy show care' 'bursar policy show careful'
  empty_line elvish
  completes elvish 'bursar agent show my' "agent show 'my bot'"
  empty_line elvish
  said 'elvish completes names'
}

# Without an engine a shell completes commands, at once and without a word.
kill "$ENGINE"
wait "$ENGINE" || true
for one in bash zsh fish; do
  tmux has-session -t "$one" 2>/dev/null || continue
  completes "$one" 'bursar policy sh' 'bursar policy show '
  press "$one" Tab
  empty_line "$one"
  never "$one" '[Ee]rror|panick|ENGINE'
done
[ -z "$(COMPLETE=fish bursar -- bursar agent show '' 2>&1 | grep -v '^--help')" ] || fail 'it prints without an engine'
said 'without an engine only commands are offered'
done_ 'completion in real shells'
