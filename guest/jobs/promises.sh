#!/bin/sh
# Promises of fsync, and whether they were kept.
#
# promises make TURNS: in each turn writes random bytes to the file `new`, calls fsync, renames it over one of nine files,
#   and calls fsync for the directory. It marks the file's MD5 sum before the rename ("TURN wrote SUM FILE": from now on
#   FILE may have it) and after the second fsync ("TURN kept SUM FILE": from now on it must).
# promises check: of the marks in $MARKS, exit code 0 if each file is as it was last kept; that of the turn under way may
#   also be as it was written.
case $1 in
make)
    turn=0
    while [ $turn -lt "$2" ]; do
        file=f$((turn % 9))
        dd if=/dev/urandom of=new bs=$((turn * 1237 % 20000 + 1)) count=1 conv=fsync 2>/dev/null || exit 1
        sum=$(md5sum <new) && sum=${sum%% *} || exit 1
        echo "$turn wrote $sum $file" >/dev/nandlab-mark
        mv new $file && sync . || exit 1
        echo "$turn kept $sum $file" >/dev/nandlab-mark
        turn=$((turn + 1))
    done
    ;;
check)
    last=none under_way=
    while read -r turn what sum file; do
        last="turn $turn"
        case $what in
        wrote) under_way=$file written=$sum ;;
        kept) under_way='' && eval "kept_$file=$sum" ;;
        esac
    done <"$MARKS"
    md5sum f* >/run/found 2>/dev/null
    while read -r sum file; do
        eval "kept=\$kept_$file found_$file=yes"
        [ "$sum" = "$kept" ] || { [ "$file" = "$under_way" ] && [ "$sum" = "$written" ]; } ||
            { echo "after $last: $file has $sum, promised ${kept:-no such file}" && exit 1; }
    done </run/found
    for file in f0 f1 f2 f3 f4 f5 f6 f7 f8; do
        eval "kept=\$kept_$file found=\$found_$file"
        [ -z "$kept" ] || [ -n "$found" ] || { echo "after $last: $file is gone, promised $kept" && exit 1; }
    done
    ;;
*)
    echo "promises make TURNS, or promises check" >&2
    exit 2
    ;;
esac
