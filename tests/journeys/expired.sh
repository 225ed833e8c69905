#!/usr/bin/env bash
# Nobody decides: the request runs out under the open card, and its keys do nothing.
. "$(dirname "$0")/lib.sh"

export BURSAR_TEST_CLOCK=$WORK/clock
echo 0 > "$WORK/clock"
engine bursar-test-engine "$DATA"
waiting 80 24
press you a
see you 'y approve'
# Fifteen minutes, for the engine alone.
echo 899000 > "$WORK/clock"
echo 901000 > "$WORK/clock"
see you 'Can no longer be decided: expired'
press you y
unpaid
signed 0
close you
see you 'expired'
press you q
see you 'no requests are waiting'
done_ 'expired'
