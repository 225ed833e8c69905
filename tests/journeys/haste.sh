#!/usr/bin/env bash
# A hand that is faster than its eyes approves nothing; the same keys, calmly, do.
. "$(dirname "$0")/lib.sh"

engine bursar engine
waiting 120 40
said 'a request waits'

# A person who types into what they take for a shell, and hits return.
type_ you 'yes'; press you Enter
type_ you 'yyyyyyyyyyyyyyyyyyyy'
see you 'leaves +1.500000 USDC'
paste_ you $'y\ny\nyes\n'
press you Enter; press you Enter
never you 'approved and signed'
signed 0
said 'nothing was approved'

close you
line you 'config set confirm_typing_above 1'
see you 'about +Approvals and sends of this amount'
close you
press you a
see you 'Type the amount to approve it \(1\.50\)'
see you 'y approve'
press you y
see you 'Type the amount first'
type_ you '15'
press you y
see you 'The amount is 1.50, not 15'
press you BSpace BSpace
type_ you '1.5'
see you '1\.5'
press you y
see you 'approved and signed'
paid
signed 1
press you q
see you 'the engine keeps running, and no requests are waiting'
done_ 'approve in haste'
