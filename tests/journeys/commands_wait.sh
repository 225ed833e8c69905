#!/usr/bin/env bash
# No engine runs. One operator's command waits at its questions, and others go on meanwhile.
. "$(dirname "$0")/lib.sh"

alone() { bursar "$@" --password-file "$WORK/password" >/dev/null; }

alone wallet create main
alone agent register bot
said 'a wallet and an agent, without an engine'

terminal you 120 40
run you 'bursar agent delete bot'
see you 'Type its name'
# Exit 3: it is answered, and no engine runs.
bursar status >/dev/null || [ $? = 3 ] || fail 'status did not answer'
alone policy create first --txn 1
type_ you bot
press you Enter
see you 'bot is deleted|[Dd]eleted'
bursar agent list | grep -q bot && fail 'the agent is still there'
said 'a question keeps nobody waiting, and its answer is obeyed'

run you 'clear; bursar wallet passwd'
see you 'assword'
alone policy create second --txn 1
type_ you "$PASSWORD"
press you Enter
see you '[Nn]ew password'
alone policy create third --txn 1
type_ you 'another horse battery'
press you Enter
see you '[Aa]gain|[Rr]epeat|once more'
type_ you 'another horse battery'
press you Enter
see you 'wallet +main'
bursar wallet open --password-stdin <<< 'another horse battery' >/dev/null 2>&1 || fail 'not changed'
printf '%s\n' 'another horse battery' > "$WORK/password"
for policy in first second third; do
  bursar policy list | grep -q "$policy" || fail "the policy $policy is not there"
done
said 'nor do two questions of one command'

for number in 1 2 3 4 5 6; do
  alone policy create "p$number" --txn 1 &
  created[number]=$!
done
for number in 1 2 3 4 5 6; do
  wait "${created[number]}" || fail "command $number did not wait for the others"
done
said 'six commands at once wait for each other'
done_ 'commands without an engine wait for each other'
