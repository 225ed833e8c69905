#!/usr/bin/env bash
# The engine dies under an open card. Nothing is lost, nothing is signed twice, and the console finds it again.
. "$(dirname "$0")/lib.sh"

engine bursar engine
waiting 120 40
press you a
see you 'y approve'
said 'a card is open'

kill -9 "$ENGINE"
wait "$ENGINE" 2>/dev/null || true
see you 'ENGINE GONE'
see you 'no engine is connected'
press you y
never you 'approved and signed'
kill -0 "$AGENT" || fail 'the agent does not wait for its wallet'
said 'the engine is gone, and the console says so'

# The port that agents know.
export BURSAR_SERVER_LISTEN=${WALLET_URL#http://}
engine
see you 'Connected to the engine again'
see you 'y approve'
signed 0
press you y
see you 'approved and signed'
signed 1
paid
said 'the same request, approved at the new engine: the agent waited and got what it paid for'

# The engine dies again, with another request in the queue.
agent /large
see you '1 WAITING|AUTHORIZED|signed'
kill -9 "$ENGINE"
wait "$ENGINE" 2>/dev/null || true
see you 'ENGINE GONE'
line you 'status'
see you 'nothing was sent'
press you q
see you 'The engine could not be reached'
done_ 'engine killed under the console'
