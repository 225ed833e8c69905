#!/usr/bin/env bash
# A backup is made while agents pay; then the journal, the wallet file, or both are lost.
. "$(dirname "$0")/lib.sh"

engine
furnish
bursar_ --json wallet backup "$WORK/monday.backup"
grep -q '"entries"' "$WORK/command.log" || fail 'the answer names no entries'
[ "$(stat -c %a "$WORK/monday.backup")" = 600 ] || fail 'others may read it'
if bursar wallet backup "$WORK/monday.backup" >/dev/null 2>&1; then fail 'it was overwritten'; fi
grep -aq reader "$WORK/monday.backup" && fail 'an agent is named in clear text'
agent /small
paid
said 'a backup of a running engine, and a payment after it'

if bursar wallet restore "$WORK/monday.backup" --yes --password-file "$WORK/password" > "$WORK/command.log" 2>&1
then fail 'restored under a running engine'; fi
grep -q 'stop it' "$WORK/command.log" || fail 'the engine is not named'
stop_engine() { kill -TERM "$ENGINE"; wait "$ENGINE" || true; }
stop_engine

sleep_past_a_second() { until_true 'the second never ended' later_than "$(date +%s)"; }
alone() { bursar "$@" --password-file "$WORK/password"; }
# untrusted: nothing is automatic until the operator accepts it, and the day's allowance is spent.
untrusted() {
  engine
  # Requests signed in the second of the restore are refused, like all those before it.
  sleep_past_a_second
  WALLET_URL=$(grep -oE 'http://[^ ]+' "$WORK/engine.out" | head -1)
  agent /small
  unpaid
  grep -Eq 'LIMIT_REACHED|daily limit' "$WORK/agent.log" || fail 'refused for another reason'
  bursar --json agent show reader | grep -Eq '"spent_today": ?"10.00' || fail 'the allowance is not spent'
  bursar_ audit accept --password-file "$WORK/password"
  bursar_ policy edit careful --day 20 --yes
  agent /small
  paid
  stop_engine
}

rm "$DATA"/journal*.redb
if alone wallet restore "$WORK/monday.backup" > "$WORK/command.log" 2>&1; then fail 'nobody was asked'; fi
alone wallet restore "$WORK/monday.backup" --yes > "$WORK/command.log" 2>&1 || fail 'not restored'
grep -q 'replaced-' "$WORK/command.log" || fail 'it does not say where the wallet went'
untrusted
said 'the journal was lost'

rm -r "$DATA/wallets"
terminal shell 120 30
run shell "bursar wallet restore '$WORK/monday.backup'"
see shell 'Restore the backup'
# As slow as a person: every question of this command must be the same when it is asked again.
sleep_past_a_second
run shell y
see shell '[Pp]assword'
sleep_past_a_second
type_ shell "$(cat "$WORK/password")"
press shell Enter
see shell 'Let payments be automatic'
tmux kill-session -t shell
untrusted
said 'the wallet file was lost, and a person answers the questions'

rm -r "$DATA"
alone wallet restore "$WORK/monday.backup" > "$WORK/command.log" 2>&1 || fail 'not restored into a new folder'
untrusted
said 'both were lost'

printf 'another password\n' > "$WORK/other"
mkdir "$WORK/elsewhere"
if bursar --data "$WORK/elsewhere/data" wallet restore "$WORK/monday.backup" --password-file "$WORK/other" > "$WORK/command.log" 2>&1
then fail 'another password opens it'; fi
head -c 20000 "$WORK/monday.backup" > "$WORK/short.backup"
if bursar --data "$WORK/elsewhere/data" wallet restore "$WORK/short.backup" --password-file "$WORK/password" > "$WORK/command.log" 2>&1
then fail 'half a backup was restored'; fi
cp "$WORK/monday.backup" "$WORK/bent.backup"
printf 'x' | dd of="$WORK/bent.backup" bs=1 seek=40 conv=notrunc status=none
if bursar --data "$WORK/elsewhere/data" wallet restore "$WORK/bent.backup" --password-file "$WORK/password" > "$WORK/command.log" 2>&1
then fail 'a damaged backup was restored'; fi
grep -q 'cannot be restored: it is damaged' "$WORK/command.log" || fail 'the damage is not named'
[ -e "$WORK/elsewhere/data/wallets" ] && fail 'something of it was left'
said 'another password and half a file restore nothing'

words=$(alone --json --reveal seed words S001 | grep -o '"phrase": *"[^"]*"')
key=$(alone --json --reveal address export research | grep -oE '0x[0-9a-f]{64}') || fail 'no private key'
[ ${#key} = 66 ] || fail 'the key is no key'
rm "$DATA"/journal*.redb
if alone wallet open > "$WORK/command.log" 2>&1; then fail 'opened without a journal'; fi
command="bursar $(grep -oE 'wallet recover [a-z]+' "$WORK/command.log")" || fail 'the error names no command'
alone ${command#bursar } > "$WORK/command.log" 2>&1 || fail 'not recovered'
again=$(alone --json --reveal seed words S001 | grep -o '"phrase": *"[^"]*"')
[ "$words" = "$again" ] || fail 'other words'
alone audit accept > /dev/null
alone address create research 0 > "$WORK/command.log" 2>&1 || fail 'no address'
[ "$(alone --json --reveal address export research | grep -oE '0x[0-9a-f]{64}')" = "$key" ] || fail 'another key'
alone agent list | grep -q "recovered $WALLET_AGENT_ID" || fail 'the agent is lost'
said 'only the wallet file is left, and everything in it comes back'
done_ 'backup, restore and recovery'
