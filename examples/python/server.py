"""Procedures of a warehouse that agents may request through Countersign: an HTTP server of the standard library alone.

COUNTERSIGN_SIGNING_KEY holds the secret that calls are signed with, `whsec_..`; PORT the port, 8700 unless it is set.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LONGEST_BODY = 2 * 1024 * 1024
TOLERANCE_SECONDS = 300


class Memory:
    """The last 10,000 names that were put in, with a value each."""

    def __init__(self):
        self.lock = threading.Lock()
        self.values = OrderedDict()

    def put_new(self, name, value):
        """Whether the name was new."""
        with self.lock:
            if name in self.values:
                return False
            self.values[name] = value
            if len(self.values) > 10_000:
                self.values.popitem(last=False)
            return True

    def get(self, name):
        with self.lock:
            return self.values.get(name)


def verify(key, headers, body):
    """Whether Countersign made this call, and lately. What is signed is `id.timestamp.body`."""
    identifier = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    signed = f"{identifier}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    given = [it[3:].encode() for it in headers.get("webhook-signature", "").split(" ") if it.startswith("v1,")]
    return any([hmac.compare_digest(expected, it) for it in given])


def completed(output):
    return 200, {"status": "completed", "output": output}


def failed(code):
    return 422, {"status": "failed", "code": code}


def not_executed(status):
    """Only ever where it is certain that nothing happened."""
    return status, {"status": "not_executed"}


class Warehouse:
    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {"bolt": 40, "nut": 12, "washer": 7}
        self.being_counted = {"washer"}
        self.done = Memory()  # answers of writes, by idempotency key

    def get(self, given, _):
        count = self.counts.get(given["sku"])
        return failed("NO_SUCH_ITEM") if count is None else completed({"sku": given["sku"], "count": count})

    def adjust(self, given, invocation):
        # The key is the same for every attempt of one call: a second run answers as the first one did.
        key = invocation["idempotencyKey"]
        with self.lock:
            answer = self.done.get(key)
            if answer is None:
                answer = self.adjust_once(given, invocation)
                if answer[1]["status"] != "not_executed":
                    self.done.put_new(key, answer)
            return answer

    def adjust_once(self, given, invocation):
        sku, by = given["sku"], given["by"]
        if sku not in self.counts:
            return failed("NO_SUCH_ITEM")
        if sku in self.being_counted:
            return not_executed(503)
        if self.counts[sku] + by < 0:
            return failed("NOT_ENOUGH")
        self.counts[sku] += by
        approvers = [it["id"] for it in invocation.get("approval", {}).get("approvers", [])]
        return completed({"sku": sku, "count": self.counts[sku], "approvedBy": approvers, "ledger": f"row-{sku}"})

    def stocktake(self, _, invocation):
        time.sleep(3_600)  # longer than anybody waits
        return completed({})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    key = b""
    seen = Memory()
    warehouse = Warehouse()

    def do_POST(self):
        procedures = {
            "/stock.get": self.warehouse.get,
            "/stock.adjust": self.warehouse.adjust,
            "/stock.stocktake": self.warehouse.stocktake,
        }
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            self.close_connection = True
            return self.answer(*not_executed(413))
        body = self.rfile.read(int(length))
        procedure = procedures.get(self.path)
        if procedure is None:
            return self.answer(*not_executed(404))
        if not verify(self.key, self.headers, body):
            return self.answer(*not_executed(401))
        if not self.seen.put_new(self.headers["webhook-id"], True):
            # The same call a second time. What became of the first is not known here, so nothing is claimed.
            return self.answer(409, {"error": "this call was here before"})
        print(self.path, flush=True)
        call = json.loads(body)
        self.answer(*procedure(call["input"], call["invocation"]))

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass  # calls are printed once they are verified


def main():
    secret = os.environ.get("COUNTERSIGN_SIGNING_KEY", "")
    Handler.key = base64.b64decode(secret.removeprefix("whsec_"))
    if len(Handler.key) < 24:
        sys.exit("COUNTERSIGN_SIGNING_KEY holds no secret of 24 bytes at least")
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8700"))), Handler)
    server.daemon_threads = True
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
