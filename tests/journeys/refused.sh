#!/usr/bin/env bash
# An agent is refused: what was it, and why? A held request outlives a change of the policy: what now?
. "$(dirname "$0")/lib.sh"

engine bursar engine
furnish
bursar_ policy edit careful --txn 1
terminal you 120 40
run you bursar
see you 'No requests are waiting'
agent /large
unpaid
see you 'payment refused'
press you 5
see you 'per-request maximum'
said 'the feed says why'
press you Enter
see you 'entry [0-9]+ of the journal'
see you 'about +.*per-request maximum'
see you 'The whole request: .:receipt '
close you
said 'and its entry what it was'

bursar_ policy edit careful --txn 5 --yes --password-file "$WORK/password"
agent /large
see you '1 WAITING'
bursar_ policy edit careful --txn 1
press you 1
press you a
see you 'cannot be approved'
see you '.it cannot be approved.'
press you y
see you 'Not approved: Exceeds per-request maximum'
never you 'approved and signed'
press you n
see you 'denied'
unpaid
signed 0
said 'a card says that an approval would be refused'
press you q
see you 'the engine keeps running'
done_ 'refused, and why'
