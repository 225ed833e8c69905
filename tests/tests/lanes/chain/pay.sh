#!/bin/sh
# Buys the item at $1 with plain curl, in either version of x402, for an agent in bearer mode. Reports the settlement
# and prints the wallet's answer to the report.
set -eu
resource=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

call() { curl -sS --noproxy '*' --max-time 60 "$@"; }
# Prints the string with this name in flat JSON.
text() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }
# Prints the header with this name in the file $2.
header() { tr -d '\r' < "$2" | awk -v name="$1:" 'tolower($1) == name { print $2 }'; }
who="\"${WALLET_AGENT_FIELD:-agent_id}\": \"$WALLET_AGENT_ID\", \"signature\": \"$WALLET_AGENT_TOKEN\""

call -D asked -o challenge "$resource"
offer=$(header payment-required asked)
if [ -n "$offer" ]; then
  offer="\"payment_required\": \"$offer\""
else
  offer="\"x402_data\": $(cat challenge)"
fi
cat > ask <<EOF
{$who, $offer, "request_url": "$resource", "idempotency_key": "$(cat /proc/sys/kernel/random/uuid)"}
EOF
call --fail-with-body -d @ask -o answer "$WALLET_URL/sign"

name=$(text header_name < answer)
call --fail-with-body -D paid -o goods -H "$name: $(text header_value < answer)" "$resource"
receipt=$(header payment-response paid)$(header x-payment-response paid)

cat > report <<EOF
{$who, "transaction_id": "$(text transaction_id < answer)", "event": "settled",
 "tx_hash": "$(printf %s "$receipt" | base64 -d | text transaction)"}
EOF
call --fail-with-body -d @report "$WALLET_URL/callback"
