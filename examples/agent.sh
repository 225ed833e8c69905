#!/bin/sh
# Pays for a URL with curl, as a bearer agent (x402 version 2).
#
#   eval "$(bursar agent instructions NAME --regenerate)"      # four variables; ends the agent's old token
#   examples/agent.sh https://shop.example/report [PURCHASE]
#
# PURCHASE names the purchase. A run with the same name and the same offer is the same payment, also after a crash;
# by default every run is a new purchase. The answer goes to standard output, everything else to standard error.
# Exit code 0: the answer has status 2xx. 1: it has another status, or nothing was paid. 2: wrong usage.
set -eu
umask 077
export LC_ALL=C

say() { echo "agent.sh: $*" >&2; }
fail() { say "$*"; exit 1; }
usage() { say "$*"; exit 2; }

[ $# -ge 1 ] || usage "usage: agent.sh URL [PURCHASE]"
url=$1
purchase=${2:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
for variable in WALLET_URL WALLET_AGENT_ID WALLET_AGENT_TOKEN WALLET_AUTH_MODE; do
  eval "[ -n \"\${$variable:-}\" ]" || usage "$variable is not set: see bursar agent instructions"
done
[ "$WALLET_AUTH_MODE" = bearer ] || usage "this agent signs its requests: use agent.py or agent.mjs"
# Both are put into JSON below as they are.
for text in "$url" "$purchase"; do
  case $text in *[!\!-~]* | *[\"\\]*) usage "only visible ASCII without quotes and backslashes: $text" ;; esac
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

# Prints the status of the URL's answer. curl reads further options from standard input, because other users of the
# machine can read its arguments. It follows no redirect: a payment is for one merchant only.
fetch() {
  : > "$folder/goods"
  curl -sS --globoff --proto =http,https --max-time 120 -D "$folder/headers" -o "$folder/goods" \
    -w '%{http_code}' --config - --url "$url"
}
# Prints the status of the wallet's answer, or 000 if there is no whole answer.
wallet() {
  : > "$folder/answer"
  curl -sS --globoff --noproxy '*' --max-time 30 -o "$folder/answer" -w '%{http_code}' "$@" || {
    : > "$folder/answer"
    printf '\n000'
  }
}
post() { wallet -H 'Content-Type: application/json' --data-binary @- --url "${WALLET_URL%/}$1" | tail -n 1; }
header() { tr -d '\r' < "$folder/headers" | awk -v name="$1:" 'tolower($1) == name { print $2 }' | tail -n 1; }
# Prints the text with this name in an object of JSON.
text() { sed -nE "s/.*\"$1\": *\"(([^\"\\\\]|\\\\.)*)\".*/\\1/p"; }
field() { text "$1" < "$folder/answer"; }
# Prints the delay that the wallet names in its answer, or two seconds.
delay() { sed -nE 's/.*"retry_after": *([0-9]+).*/\1/p' "$folder/answer" | grep . || echo 2; }

status=$(fetch < /dev/null) || fail "$url gives no whole answer"
if [ "$status" != 402 ]; then
  cat "$folder/goods"
  case $status in 2*) exit 0 ;; *) fail "HTTP $status without an offer: nothing was paid" ;; esac
fi
offer=$(header payment-required)
# A merchant must not be able to add fields to the body below.
case $offer in
  '') fail "the 402 answer has no offer of x402 version 2: nothing was paid" ;;
  *[!A-Za-z0-9+/=_-]*) fail "the offer is not base64" ;;
esac

sign() {
  post /sign << EOF
{"agent_id": "$WALLET_AGENT_ID", "signature": "$WALLET_AGENT_TOKEN", "payment_required": "$offer",
 "request_url": "$url", "idempotency_key": "$purchase"}
EOF
}
poll() { wallet --url "${WALLET_URL%/}/sign/status/$request" | tail -n 1; }

status=$(sign)
request=
end=$(($(date +%s) + 30))
# No answer, held, too many calls or busy: later. The same body again is the same payment.
while [ "$status" = 000 ] || [ "$status" = 202 ] || grep -q '"retry_after"' "$folder/answer"; do
  if [ "$status" = 202 ] && [ -z "$request" ]; then
    request=$(field request_id)
    say "held: request $request waits for the operator"
    end=$(($(date +%s) + 960)) # the wallet itself gives up after 15 minutes
  fi
  [ "$(date +%s)" -lt "$end" ] || break
  sleep "$(delay)"
  if [ -n "$request" ]; then status=$(poll); else status=$(sign); fi
done
payment=$(field header_value)
if [ "$status" != 200 ] || [ -z "$payment" ]; then
  [ "$status" != 000 ] || fail "the wallet gives no answer: run it again with the purchase name $purchase"
  fail "not paid: $(field code): $(field error)$(field reason)$(field message)"
fi
id=$(field transaction_id)
say "signed: transaction $id"

status=$(printf 'header = "%s: %s"\n' "$(field header_name)" "$payment" | fetch) \
  || fail "no whole answer to payment $id: run it again with the purchase name $purchase"
cat "$folder/goods"

receipt=$(header payment-response | base64 -d 2> /dev/null || true)
hash=$(printf '%s\n' "$receipt" | text transaction | grep -Ex '0x[0-9a-fA-F]{64}' || true)
case $receipt in *'"success":true'* | *'"success": true'*) ;; *) hash= ;; esac
if [ -n "$hash" ]; then
  reported=$(post /callback << EOF
{"agent_id": "$WALLET_AGENT_ID", "signature": "$WALLET_AGENT_TOKEN", "transaction_id": "$id",
 "event": "settled", "tx_hash": "$hash"}
EOF
  )
  say "settled by $hash; the wallet's answer to the report: $reported $(field code)"
fi
case $status in 2*) ;; *) fail "HTTP $status after payment $id" ;; esac
