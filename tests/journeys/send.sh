#!/usr/bin/env bash
# Money is moved away by the operator: on a card, with its amount typed, once.
. "$(dirname "$0")/lib.sh"

TO=0x209693Bc6afc0C5328bA36FaF03C514EF312287C

# A local chain that makes a block a second, as a real one does by itself.
ANVIL=$(bursar-devnet install 2>"$WORK/devnet.log" | tail -1)
"$ANVIL" --port 0 --chain-id 8453 --block-time 1 > "$WORK/chain.out" 2>&1 &
until_true 'the chain is not ready' grep -q 'Listening on' "$WORK/chain.out"
CHAIN=$(sed -n 's/^Listening on //p' "$WORK/chain.out")
export BURSAR_NETWORKS_8453_RPC=http://$CHAIN

# shows_done TERMINAL: the list of sends says so; it is asked for again.
shows_done() {
  shows "$1" 'done +0.25' && return
  close "$1"
  line "$1" 'address sends'
  see "$1" 'SEND +WHEN'
  shows "$1" 'done +0.25'
}
# amount TERMINAL AMOUNT: typed once the field takes keys: in its first moments it takes none.
amount() { see "$1" 'Type the amount'; until_true 'the field takes no keys' try_amount "$@"; press "$1" Enter; }
try_amount() { press "$1" BSpace BSpace BSpace BSpace; type_ "$1" "$2"; command sleep 0.1; shows "$1" "> $2 "; }
holds() { ask eth_getBalance "[\"$1\",\"latest\"]" | grep -q "\"$2\""; }

engine
bursar_ wallet create main --password-file "$WORK/password"
bursar_ seed create --reveal
bursar_ address create savings 0
FROM=$(bursar address list --json | grep -oE '0x[0-9a-fA-F]{40}' | head -1)
ask anvil_setBalance "[\"$FROM\",\"0xde0b6b3a7640000\"]" > /dev/null
said 'an address with one coin'

terminal you 120 40
run you bursar
see you 'engine: attached'
line you "address send savings $TO 0.25 --network base"
see you 'send +0.25 ETH on Base'
see you "to +$TO"
see you 'NOT KNOWN to this wallet'
see you 'balance +1 -> 0\.7[0-9]+ ETH'
see you 'gas +at most 0\.0'
said 'a card says what goes where'

press you Enter
see you '0.25 ETH on Base'
amount you 0.5
see you 'Nothing was sent: the amount is 0.25'
holds "$TO" 0x0 || fail 'something was sent'
close you
said 'another amount sends nothing'

line you "address send savings $TO 0.25 --network base"
see you 'NOT KNOWN to this wallet'
amount you 0.25
see you 'state +(in|done in) block [0-9]+'
close you
until_true 'it never arrived' holds "$TO" 0x3782dace9d90000
line you 'address sends'
see you 'SEND +WHEN'
until_true 'it is never final' shows_done you
close you
said 'sent, in a block, final'

press you 5
see you 'transaction finished'
said 'the activity tells it'

kill -9 "$ENGINE"
wait "$ENGINE" 2>/dev/null || true
engine
see you 'engine: attached'
sends=$(bursar address sends)
grep -Eq 'done +0.25 ETH on Base' <<<"$sends" || fail "forgotten: $sends"
holds "$TO" 0x3782dace9d90000 || fail 'it was sent again'
said 'once, also after kill -9'
done_ 'send'
