#!/bin/sh
# Buys what is at $1 with curl alone, in either version of x402, for an agent in bearer mode, and reports the
# settlement. Prints the wallet's answer to the report.
set -eu
resource=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

call() { curl -sS --noproxy '*' --max-time 60 "$@"; }
# A text in flat JSON, by its name.
text() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }
# A header in the file $2, by its name.
header() { tr -d '\r' < "$2" | awk -v name="$1:" 'tolower($1) == name { print $2 }'; }
who="\"agent_id\": \"$WALLET_AGENT_ID\", \"signature\": \"$WALLET_AGENT_TOKEN\""

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
