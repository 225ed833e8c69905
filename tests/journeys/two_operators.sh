#!/usr/bin/env bash
# Two consoles and a command line, one request: the first wins, the others learn of it.
. "$(dirname "$0")/lib.sh"

engine bursar engine
furnish
terminal anna 120 40
terminal ben 80 24
terminal guest 80 24
run anna bursar
run ben bursar
run guest 'bursar --observe'
for one in anna ben guest; do see "$one" 'No requests are waiting'; done
see guest 'OBSERVING'
agent /large
for one in anna ben guest; do see "$one" '1 WAITING'; done
press anna a; press ben a; press guest a
see anna 'y approve'; see ben 'y approve'
see guest 'leaves +1.500000 USDC'
never guest 'y approve'
press guest y
said 'all three look at one card'

press ben n
see ben 'denied'
see anna 'Can no longer be decided: denied by a console'
press anna y
unpaid
id=$(bursar requests --all --json | grep -oE '"id":"[0-9a-f-]{36}"' | head -1 | cut -d'"' -f4)
code=0
bursar approve "$id" --yes --json > "$WORK/late.log" 2>&1 || code=$?
[ "$code" -eq 10 ] || fail "a late approval ended with $code"
grep -q 'was denied by a console' "$WORK/late.log" || fail 'a late approval was not told so'
signed 0
said 'the first one decided, the others are told'

close anna
close guest
bursar_ freeze
for one in anna ben guest; do see "$one" 'FROZEN'; done
line ben thaw
see ben 'password'
type_ ben "$PASSWORD"; press ben Enter
for one in anna ben guest; do gone "$one" 'FROZEN'; done
said 'frozen from a shell, thawed in a console'
consoles() { bursar status --json | grep -q "\"consoles\":$1\b"; }
until_true 'not three consoles are counted' consoles 3
for one in anna ben guest; do press "$one" q; see "$one" 'the engine keeps running'; done
until_true 'consoles that left are counted' consoles 0

# A console that is the engine says who loses it.
kill "$ENGINE"; wait "$ENGINE" || true
run anna bursar
see anna 'engine: inside'
run ben bursar
see ben 'engine: attached'
press anna q
see anna 'Another attached console'
press anna n
gone anna 'stop and leave'
said 'who else is there is told before leaving'
done_ 'two operators'
