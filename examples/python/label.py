#!/usr/bin/env python3
"""Prints a label for a shelf: a procedure that is a command. Reads one JSON document, writes another."""

import json
import sys

NOTHING_HAPPENED = 75


def main():
    call = json.load(sys.stdin)
    sku = call["input"]["sku"]
    if sku == "unprintable":
        answer = {"status": "failed", "code": "NOT_PRINTABLE"}
    elif sku == "jam":
        return NOTHING_HAPPENED  # the printer took no paper
    else:
        actor = call.get("invocation", {}).get("actor", {}).get("id", "nobody")
        answer = {"status": "completed", "output": {"text": f"{sku.upper()} for {actor}"}}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
