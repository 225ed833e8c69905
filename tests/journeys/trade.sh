#!/usr/bin/env bash
# An agent's swap waits for the operator, who reads its card in a small and a large terminal, approves it once, and
# sees it end. The agent knows only the wire format.
. "$(dirname "$0")/lib.sh"

chain

# trader AMOUNT: asks for a swap of dollars into ETH; its process is $TRADER, its report is in trader.json.
trader() {
  until_true 'time stands still' later_than "${ASKED:-0}"
  ASKED=$(date +%s)
  local trade="{\"chain_id\":8453,\"token_in\":\"$DOLLAR\",\"token_out\":\"ETH\",\"amount_in\":\"$1\",\"fee_tier\":500,\"max_slippage_bps\":100}"
  python3 "$(dirname "$0")/../agents/trader.py" "$trade" --wait 120 > "$WORK/trader.json" 2> "$WORK/trader.log" &
  TRADER=$!
}
# amount_typed TERMINAL AMOUNT: a card takes no keys in its first moments, and a key that is too early begins them again.
amount_typed() { command sleep 0.6; type_ "$1" "$2"; command sleep 0.1; shows "$1" "\\[$2 "; }
# ends STATUS: the trade ended so, and the wallet's answers have the form that agents know.
ends() {
  wait "$TRADER" || fail "the agent reports $(cat "$WORK/trader.json" "$WORK/trader.log")"
  grep -q "\"status\": \"$1\"" "$WORK/trader.json" || fail "not $1: $(cat "$WORK/trader.json")"
}

engine
bursar_ wallet create main --password-file "$WORK/password"
bursar_ seed create --reveal
bursar_ address create desk 0
# No price of ETH from outside: only this machine is asked.
bursar_ config set prices.url none
bursar_ policy create trader --trading --trade-daily 100 --trade-max 50
bursar_ agent register mover
bursar_ agent commission mover trader desk
eval "$(bursar agent instructions mover)"
export WALLET_AGENT_ID WALLET_AGENT_TOKEN WALLET_AUTH_MODE WALLET_URL
OWNER=$(bursar address list --json | grep -oE '0x[0-9a-fA-F]{40}' | head -1)
fund "$OWNER" 100000000
said 'an agent that may trade up to 50 dollars, each trade with approval'

terminal you 80 24
run you bursar
see you 'engine: attached'
terminal wide 200 60
run wide bursar
see wide 'engine: attached'
trader 30
see you '1 WAITING'
see wide '1 WAITING'
press wide a
see wide 'gives +30\.000000 USDC on Base'
see wide 'gets +0\.00[0-9]+ ETH'
see wide 'at least +0\.00[0-9]+ ETH +\(slippage 1%'
see wide 'impact +0\.[0-9]+%, at most 5%'
see wide 'step 1 +approve exactly 30\.000000 USDC for SwapRouter02'
see wide 'today +traded 0\.00 -> 30\.00 of 100\.00 USD'
see wide 'held +the price of ETH, and so the worth of the output, is not known'
close wide
said 'the card in a large terminal'

press you a
see you 'gives +30\.000000 USDC on Base'
see you 'Type the amount to approve it \(30\.00\)'
# Not all rows that matter fit.
press you PageDown
until_true 'the field takes no keys' amount_typed you 30
press you y
see you 'approved'
ends executed
has_dollars "$OWNER" 70000000 || fail "not 70 dollars: $(dollars "$OWNER")"
said 'the card in a small terminal, approved and executed once'

press you 6
see you 'for 0\.00[0-9]+ "?ETH"? +30\.000000 USDC executed'
press wide 6
see wide '30\.000000 USDC +executed'
grep -q 'executed' <<<"$(bursar history)" || fail "$(bursar history)"
said 'the console and the history show what was bought'

trader 20
see you '1 WAITING'
press you 1
press you a
see you 'gives +20\.000000 USDC'
close you
bursar_ deny "$(bursar requests --json | grep -oE '"id": ?"[0-9a-f-]{36}"' | head -1 | grep -oE '[0-9a-f-]{36}')"
ends rejected
has_dollars "$OWNER" 70000000 || fail 'a denied trade moved money'
said 'denied: nothing moves, and the agent is told'

kill -9 "$ENGINE"
wait "$ENGINE" 2>/dev/null || true
engine
history=$(bursar history)
grep -q 'executed' <<<"$history" || fail "forgotten: $history"
has_dollars "$OWNER" 70000000 || fail 'it was traded again'
said 'once, also after kill -9'
done_ 'trade'
