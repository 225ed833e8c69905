#!/usr/bin/env bash
# The smallest terminal: a card that does not fit is scrolled, and approved once all that matters was there.
. "$(dirname "$0")/lib.sh"

engine bursar engine
waiting 60 16
line you 'config set confirm_typing_above 1'
see you 'about +Approvals and sends of this amount'
close you
press you a
see you 'rows 1-[0-9]+ of'
see you 'scroll \(j\) to .[a-z]+., then y'
type_ you '1.5'
see you '1\.5 '
press you y
see you 'not yet: scroll \(j\) to '
never you 'approved and signed'
signed 0
said 'what was not on the screen is not approved'

press you PageDown
see you 'balance '
# The notice went with the rows, and the keys count again.
see you '^y approve'
press you y
see you 'approved and signed'
paid
signed 1
said 'and is, once it was'

press you '?'
see you 'attached: the engine is a'
close you
press you q
see you 'the engine keeps running'
done_ 'the smallest screen'
