#!/usr/bin/env bash
# The three editions next to each other: a folder, a port and an agent each, and one local chain, whose balances decide.
. "$(dirname "$0")/lib.sh"

chain
export BURSAR_NETWORKS_1187947933_RPC=http://127.0.0.1:9
start_merchant --chain "http://$CHAIN"

# Copies, so that each has the folder that it takes without being asked.
for name in bursar-pay bursar-desk; do
  mkdir "$WORK/$name"
  ln "$BIN/$name" "$WORK/$name/$name" 2>/dev/null || cp "$BIN/$name" "$WORK/$name/$name"
done
PAY=$WORK/bursar-pay/bursar-pay
DESK=$WORK/bursar-desk/bursar-desk

# with_commands PROGRAM: a wallet and an agent by single commands; prints its variables.
with_commands() {
  "$1" wallet create main --password-file "$WORK/password" > /dev/null
  "$1" seed create --reveal > /dev/null
  "$1" address create research 0 > /dev/null
  "$1" policy create careful --day 10 --txn 5 --auto 0.50 > /dev/null
  "$1" agent register reader | grep -oE 'WALLET_[A-Z_]+=[^ ]+'
  "$1" agent commission reader careful research > /dev/null
}
address_of() { "$1" address list --json | grep -oE '0x[0-9a-fA-F]{40}' | head -1; }

engine
with_commands bursar > "$WORK/full.env"
FULL_ADDRESS=$(address_of bursar)
said 'bursar, with its folder in the account'

unset BURSAR_DATA_DIR
engine "$PAY" --headless
with_commands "$PAY" > "$WORK/pay.env"
PAY_ADDRESS=$(address_of "$PAY")
[ -e "$WORK/bursar-pay/bursar-pay-data/journal.redb" ] || fail 'the folder is not next to the program'
said 'bursar-pay, with its folder next to it'

desk_settings "$WORK/bursar-desk/bursar-desk-data" "http://$CHAIN"
terminal desk 120 40
run desk "unset \$(compgen -e | grep ^BURSAR_); clear; $DESK"
see desk 'engine: inside'
furnish_window desk "$WORK/desk.env"
DESK_ADDRESS=$ADDRESS
said 'bursar-desk, in its window'

ports=$(sed -n 's/^WALLET_URL=//p' "$WORK"/*.env | sort -u | wc -l)
[ "$ports" = 3 ] || fail "three ports: $(cat "$WORK"/*.env)"
for one in "$FULL_ADDRESS" "$PAY_ADDRESS" "$DESK_ADDRESS"; do fund "$one" 20000000; done

# buys NAME PATH: the agent of an edition pays with the client of its edition; its process is $AGENT.
buys() {
  local program=bursar
  if [ "$1" = pay ]; then program=$PAY; fi
  until_true 'time stands still' later_than "${ASKED:-0}"
  ASKED=$(date +%s)
  # A client needs no data folder.
  (set -a; . "$WORK/$1.env"; exec "$program" pay "$MERCHANT$2") > "$WORK/agent.log" 2>&1 &
  AGENT=$!
}
for name in full pay desk; do buys $name /small; paid; done
said 'each agent paid a small price at once'

id_of() { "$1" requests --json | grep -oE '"[0-9a-f-]{36}"' | head -1 | tr -d '"'; }
waits() { [ -n "$(id_of "$@")" ]; }
export BURSAR_DATA_DIR=$DATA
buys full /large
until_true 'nothing waits' waits bursar
bursar approve "$(id_of bursar)" --yes > /dev/null
paid
unset BURSAR_DATA_DIR
buys pay /large
until_true 'nothing waits' waits "$PAY"
"$PAY" approve "$(id_of "$PAY")" --yes > /dev/null
paid
buys desk /large
see desk 'y approve'
command sleep 1.1
press desk y
see desk 'approved and signed'
paid
said 'each operator approved a large price: by a command, by a command, in the window'

for one in "$FULL_ADDRESS" "$PAY_ADDRESS" "$DESK_ADDRESS"; do
  until_true "$one paid twice, or not" has_dollars "$one" 18488000
done
has_dollars "$SELLER" 4536000 || fail "the seller has $(dollars "$SELLER")"
echo "  full $(dollars "$FULL_ADDRESS"), pay $(dollars "$PAY_ADDRESS"), desk $(dollars "$DESK_ADDRESS"), seller $(dollars "$SELLER")"
said 'on the chain: 20 - 0.012 - 1.50 dollars each, and the rest is the seller'"'"'s'

# Each knows its own agent and its own balance only.
for name in full pay desk; do
  code=$(sed -n 's/^WALLET_AGENT_ID=//p' "$WORK/$name.env")
  url=$(sed -n 's/^WALLET_URL=//p' "$WORK/$name.env")
  for field in agent_id agent_code; do
    curl -s -X POST "$url/ping" -H 'content-type: application/json' -d "{\"$field\":\"$code\"}" > "$WORK/$name.$field"
  done
done
for name in full desk; do grep -q '"agent_name":"reader"' "$WORK/$name.agent_id" || fail "$name: agent_id"; done
grep -q 'MISSING_AGENT_CODE' "$WORK/pay.agent_id" || fail "$(cat "$WORK/pay.agent_id")"
grep -q '"agent_name":"reader"' "$WORK/pay.agent_code" || fail "$(cat "$WORK/pay.agent_code")"
grep -q 'MISSING_AGENT_ID' "$WORK/full.agent_code" || fail "$(cat "$WORK/full.agent_code")"
grep -qE 'USDC +18\.488' <<< "$("$PAY" balances)" || fail "$("$PAY" balances)"
BURSAR_DATA_DIR=$DATA bursar balances | grep -qE 'USDC +18\.488' || fail 'the balance of bursar'
press desk 2; press desk r
see desk 'USDC +18\.488'
said 'each wallet shows its own balance'

press desk q
see desk 'y stop and close'; see desk '^y yes'
press desk y
see desk 'The engine has stopped'
done_ 'three editions'
