-- Durable writes with a key each, for `wrk`. Against `countersign serve --demo`:
--   wrk -t 2 -c 64 -d 15s --latency -s benches/wrk/write.lua http://127.0.0.1:8080
-- Each gives a cent back of an order of 6,200 dollars: enough for 620,000 calls, then start the server again.

wrk.method = "POST"
wrk.path = "/v1/capabilities/orders.refund/invoke"
wrk.headers["Authorization"] = "Bearer demo-dana"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"input":{"orderId":"ord_7","amountCents":1,"reason":"A scratch."}}'

local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init(arguments)
  calls = 0
  run = os.time()
end

function request()
  calls = calls + 1
  wrk.headers["Idempotency-Key"] = run .. "-" .. number .. "-" .. calls
  return wrk.format()
end
