-- Reads, for `wrk`. Against `countersign serve --demo`:
--   wrk -t 2 -c 64 -d 15s --latency -s benches/wrk/read.lua http://127.0.0.1:8080

wrk.method = "POST"
wrk.path = "/v1/capabilities/orders.get/invoke"
wrk.headers["Authorization"] = "Bearer demo-dana"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"input":{"orderId":"ord_42"}}'
