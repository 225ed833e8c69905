#!/usr/bin/env bash
# The three editions next to each other: a folder, a port and an agent each, and one local chain, whose balances decide.
. "$(dirname "$0")/lib.sh"

# A full local chain, which ends when its standard input does.
mkfifo "$WORK/node"
exec 7<>"$WORK/node"
bursar-devnet run 8453 <&7 > "$WORK/chain.out" 2> "$WORK/devnet.log" &
until_true 'the chain is not ready' grep -sq READY "$WORK/chain.out"
CHAIN=$(sed -n 's|^READY http://||p' "$WORK/chain.out")
export BURSAR_NETWORKS_8453_RPC=http://$CHAIN BURSAR_NETWORKS_1187947933_RPC=http://127.0.0.1:9
DOLLAR=0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913
SELLER=0x209693Bc6afc0C5328bA36FaF03C514EF312287C

# word HEX: 32 bytes of call data.
word() { printf '%064s' "$1" | tr ' ' 0; }
# dollars OWNER: its dollars on the chain, in millionths.
dollars() {
  local hex
  hex=$(ask eth_call "[{\"to\":\"$DOLLAR\",\"data\":\"0x70a08231$(word "${1#0x}")\"},\"latest\"]" |
    grep -oE '"0x[0-9a-f]+"' | tr -d '"')
  echo $((hex))
}
has_dollars() { [ "$(dollars "$1")" = "$2" ]; }
# fund OWNER: 20 dollars. Any account may mint this stablecoin.
fund() {
  ask anvil_setBalance "[\"$1\",\"0xde0b6b3a7640000\"]" > /dev/null
  ask anvil_impersonateAccount "[\"$1\"]" > /dev/null
  ask eth_sendTransaction \
    "[{\"from\":\"$1\",\"to\":\"$DOLLAR\",\"data\":\"0x40c10f19$(word "${1#0x}")$(word 1312d00)\"}]" > /dev/null
  until_true 'no dollars' has_dollars "$1" 20000000
  ask anvil_stopImpersonatingAccount "[\"$1\"]" > /dev/null
}

mkfifo "$WORK/hold"
exec 9<>"$WORK/hold"
bursar-demo merchant "$SELLER" --chain "http://$CHAIN" <&9 > "$WORK/merchant.out" 2> "$WORK/merchant.log" &
until_true 'the merchant is not ready' grep -sq READY "$WORK/merchant.out"
MERCHANT=$(cut -d' ' -f2 "$WORK/merchant.out")

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

mkdir "$WORK/bursar-desk/bursar-desk-data"
cat > "$WORK/bursar-desk/bursar-desk-data/settings.toml" <<T
[server]
listen = "127.0.0.1:0"
[networks.8453]
rpc = ["http://$CHAIN"]
explorer = "none"
[networks.4663]
rpc = ["http://127.0.0.1:9"]
T
terminal desk 120 40
run desk "unset \$(compgen -e | grep ^BURSAR_); clear; $DESK"
see desk 'engine: inside'
line desk 'wallet create main'
see desk 'A new password'
type_ desk "$PASSWORD"; press desk Enter
see desk 'Repeat the password'
type_ desk "$PASSWORD"; press desk Enter
see desk 'state +unlocked'; close desk
line desk 'seed create'; see desk 'Write these words down'; close desk
line desk 'address create research 0'; see desk 'address +0x'
DESK_ADDRESS=$(flat desk | grep -oE '0x[0-9a-fA-F]{40}' | head -1); close desk
line desk 'policy create careful --day 10 --txn 5 --auto 0.50'; see desk '10.00 USD a day'; close desk
line desk 'agent register reader'
see desk 'WALLET_AUTH_MODE'
flat desk | grep -oE 'WALLET_[A-Z_]+=[^ │]+' | tr -d "'" > "$WORK/desk.env"; close desk
line desk 'agent commission reader careful research'; see desk 'status +active'; close desk
said 'bursar-desk, in its window'

ports=$(sed -n 's/^WALLET_URL=//p' "$WORK"/*.env | sort -u | wc -l)
[ "$ports" = 3 ] || fail "three ports: $(cat "$WORK"/*.env)"
for one in "$FULL_ADDRESS" "$PAY_ADDRESS" "$DESK_ADDRESS"; do fund "$one"; done

# buys NAME PATH: the agent of an edition pays with the client of its edition; its process is $AGENT.
buys() {
  local program=bursar
  if [ "$1" = pay ]; then program=$PAY; fi
  until_true 'time stands still' later_than "${ASKED:-0}"
  ASKED=$(date +%s)
  # In a folder that is no wallet's: a client needs none.
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
