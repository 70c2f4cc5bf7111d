#!/bin/sh
# Speaks as macOS' `security` does, as far as this project asks it. Items are files in `items` beside it; `locked` and
# `silent` beside it make it refuse and hang, `mute` say nothing and hang, `endless` find no end; `calls` keeps the
# arguments of all calls.
LC_ALL=C
export LC_ALL
place=$(dirname "$0")
mkdir -p "$place/items"
printf '%s\n' "$*" >>"$place/calls"
[ -e "$place/silent" ] && exec sleep 60
[ -e "$place/mute" ] && exec sleep 60 >&-
[ -e "$place/endless" ] && exec yes
[ -e "$place/locked" ] && exit 36

options() {
    account= service= hex= plain=no
    while [ $# -gt 0 ]; do
        case $1 in
            -a) account=$2 && shift ;;
            -s) service=$2 && shift ;;
            -X) hex=$2 && shift ;;
            -w) plain=yes ;;
            -U) ;;
            *) exit 2 ;;
        esac
        shift
    done
    item="$place/items/$(printf %s "$service.$account" | tr '/ ' '__')"
}

add() {
    options "$@"
    printf %s "$hex" | awk '{
        for (i = 0; i < 256; i++) byte[sprintf("%02x", i)] = i
        for (i = 1; i < length($0); i += 2) printf "%c", byte[substr($0, i, 2)]
    }' >"$item.new" && mv "$item.new" "$item"
    echo "$$ $item" >"$place/.database" && mv "$place/.database" "$place/login.keychain-db"
}

command=$1
shift
case $command in
    find-generic-password)
        options "$@"
        [ -e "$item" ] || exit 44
        # What is no plain text is shown as digits.
        if tr -d ' -~' <"$item" | grep -q .; then
            od -An -v -tx1 "$item" | tr -d ' \n'
            echo
        else
            cat "$item"
            echo
        fi
        ;;
    delete-generic-password)
        options "$@"
        [ -e "$item" ] || exit 44
        rm "$item"
        echo "$$ gone" >"$place/.database" && mv "$place/.database" "$place/login.keychain-db"
        ;;
    -i)
        while IFS= read -r line; do
            [ ${#line} -lt 4096 ] || exit 1
            eval "set -- $line"
            [ "$1" = add-generic-password ] || exit 2
            shift
            add "$@"
        done
        ;;
    *) exit 2 ;;
esac
