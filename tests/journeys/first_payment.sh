#!/usr/bin/env bash
# From an empty folder to a paid request, reading nothing but the screen.
. "$(dirname "$0")/lib.sh"

terminal you 80 24
run you bursar
see you 'First steps'
see you '\[>\] A wallet with a password'
said 'the console is there'

# The command of the next step, once it is the next.
next() { see you " :$1"; press you n; see you "^:$1"; press you Enter; }

next 'wallet create main'
see you 'A new password'
type_ you "$PASSWORD"; press you Enter
see you 'Repeat the password'
type_ you "$PASSWORD"; press you Enter
see you 'state +unlocked'
close you
see you '\[>\] A seed phrase'
said 'a wallet'

next 'seed create'
see you 'Write these words down'
words=$(screen you | grep '^│ │' | grep -oE '[0-9]+  [a-z]+' | sort -n | awk '{print $2}')
[ "$(wc -w <<<"$words")" -eq 12 ] || fail 'twelve words'
press you Enter
for _word in 1 2 3; do
  see you 'Word number [0-9]+:'
  number=$(screen you | grep -oE 'Word number [0-9]+' | grep -oE '[0-9]+')
  word=$(sed -n "${number}p" <<<"$words")
  if [ "$_word" = 2 ]; then
    type_ you "not$word"; press you Enter
    see you 'This word is wrong'
  fi
  type_ you "$word"; see you "> $word"; press you Enter
  gone you "Word number $number:"
done
see you 'The words match'
# A word may also be one of the console's own, such as leave.
never you "1  $(head -1 <<<"$words")"
said 'a seed, on paper and checked'

next 'address create research 0'; see you 'address +0x'; close you
next 'policy create careful'; see you '10.00 USD a day'; close you
next 'agent register reader'; see you 'WALLET_AGENT_TOKEN'; close you
next 'agent commission reader careful research'; see you 'status +active'; close you
see you '\[>\] A first payment'
said 'an address, a policy, an agent, the server'

# The one line, as it stands there.
shown=$(screen you | sed -n '/\$ eval/,/bursar-demo pay/p' | sed -E 's/^│ *//; s/ *│$//' | tr '\n' ' ' | sed -E 's/^\$ //')
terminal agent 100 30
run agent 'unset BURSAR_DATA_DIR'
run agent "$shown"
see you '1 WAITING'
said 'the agent pays: 0.012 at once, 1.50 waits'

press you a
see you 'leaves +1.500000 USDC on Base'
see you 'y approve'
press you y
see you 'approved and signed'
see agent 'Both are paid'
said 'approved'

press you 6; see you '0.012000 USDC'
press you q; see you 'If it stops, agents are refused'; see you 'y stop and leave'
until_true 'the question is not armed' eval 'press you y; command sleep 0.1; shows you "The engine has stopped"'
done_ 'first payment'
