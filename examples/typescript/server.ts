/**
 * Procedures of a help desk that agents may request through Countersign, on Node alone.
 *
 * COUNTERSIGN_SIGNING_KEY holds the secret that calls are signed with, `whsec_..`; PORT the port, 8800 unless it is set.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const LONGEST_BODY = 2 * 1024 * 1024;
const TOLERANCE_SECONDS = 300;

/** Who asked, and how: what Countersign tells with every call. */
interface Invocation {
  executionId: string;
  tenant: string;
  actor: { id: string; kind: string };
  approval?: { id: string; approvers: { id: string }[] };
  idempotencyKey: string;
  attempt: number;
  deadline: string;
}

interface Call {
  input: Record<string, unknown>;
  invocation: Invocation;
}

/** What a procedure may say of its run. */
type Answer =
  | { status: "completed"; output: unknown }
  | { status: "failed"; code: string; message?: string }
  | { status: "not_executed" };

/** The answer, or nothing if the caller is gone. */
type Procedure = (call: Call, gone: AbortSignal) => Promise<Answer>;

interface Ticket {
  subject: string;
  state: "open" | "closed" | "being edited";
}

const tickets = new Map<string, Ticket>([
  ["T-1", { subject: "The door does not close.", state: "open" }],
  ["T-2", { subject: "The light does not go out.", state: "closed" }],
  ["T-3", { subject: "The lift does not come.", state: "being edited" }],
]);

/** Answers of writes, by idempotency key: a second run answers as the first one did. */
const done = new Map<string, Answer>();
/** The calls that were here, and when. */
const seen = new Map<string, number>();

async function get({ input }: Call): Promise<Answer> {
  const ticket = tickets.get(String(input["ticketId"]));
  if (ticket === undefined) return { status: "failed", code: "NO_SUCH_TICKET" };
  return { status: "completed", output: { subject: ticket.subject, state: ticket.state } };
}

async function close({ input, invocation }: Call): Promise<Answer> {
  const before = done.get(invocation.idempotencyKey);
  if (before !== undefined) return before;
  const ticket = tickets.get(String(input["ticketId"]));
  if (ticket?.state === "being edited") return { status: "not_executed" };
  const answer = closeOnce(ticket, invocation);
  done.set(invocation.idempotencyKey, answer);
  return answer;
}

function closeOnce(ticket: Ticket | undefined, invocation: Invocation): Answer {
  if (ticket === undefined) return { status: "failed", code: "NO_SUCH_TICKET" };
  if (ticket.state === "closed") {
    return { status: "failed", code: "ALREADY_CLOSED", message: "Somebody has closed it before." };
  }
  ticket.state = "closed";
  const approvedBy = invocation.approval?.approvers.map((it) => it.id) ?? [];
  return { status: "completed", output: { closedFor: invocation.actor.id, approvedBy, audit: "internal" } };
}

/** Works until the caller is gone: at the deadline, Countersign closes the connection. */
async function exportAll(_: Call, gone: AbortSignal): Promise<Answer> {
  await new Promise((resolve) => gone.addEventListener("abort", resolve, { once: true }));
  console.log("the export was stopped");
  return { status: "not_executed" };
}

const procedures = new Map<string, Procedure>([
  ["/tickets.get", get],
  ["/tickets.close", close],
  ["/tickets.export", exportAll],
]);

/** Whether Countersign made this call, and lately. What is signed is `id.timestamp.body`. */
function verify(key: Buffer, request: IncomingMessage, body: Buffer): boolean {
  const header = (name: string) => String(request.headers[name] ?? "");
  const timestamp = header("webhook-timestamp");
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return false;
  const expected = createHmac("sha256", key).update(`${header("webhook-id")}.${timestamp}.`).update(body).digest();
  return header("webhook-signature")
    .split(" ")
    .filter((it) => it.startsWith("v1,"))
    .map((it) => Buffer.from(it.slice(3), "base64"))
    .some((it) => it.length === expected.length && timingSafeEqual(it, expected));
}

/** Whether the call is here for the first time. */
function isNew(id: string): boolean {
  const now = Date.now() / 1000;
  for (const [name, at] of seen) {
    if (now - at <= 2 * TOLERANCE_SECONDS) break; // in the order of their arrival
    seen.delete(name);
  }
  if (seen.has(id)) return false;
  seen.set(id, now);
  return true;
}

async function read(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > LONGEST_BODY) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function answer(response: ServerResponse, status: number, document: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(document));
}

async function serve(key: Buffer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const nothing: Answer = { status: "not_executed" };
  const procedure = procedures.get(request.url ?? "");
  const body = await read(request);
  if (body === undefined) return answer(response, 413, nothing);
  if (request.method !== "POST" || procedure === undefined) return answer(response, 404, nothing);
  if (!verify(key, request, body)) return answer(response, 401, nothing);
  // The same call a second time: what became of the first is not known here, so nothing is claimed.
  if (!isNew(String(request.headers["webhook-id"]))) return answer(response, 409, { error: "this call was here before" });
  console.log(request.url);
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const said = await procedure(JSON.parse(body.toString("utf8")) as Call, gone.signal);
  answer(response, said.status === "completed" ? 200 : said.status === "failed" ? 422 : 503, said);
}

function main(): void {
  const secret = process.env["COUNTERSIGN_SIGNING_KEY"] ?? "";
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (key.length < 24) {
    console.error("COUNTERSIGN_SIGNING_KEY holds no secret of 24 bytes at least");
    process.exit(1);
  }
  const server = createServer((request, response) => {
    serve(key, request, response).catch((error: unknown) => {
      console.error(error);
      response.destroy(); // no answer: what happened is not known
    });
  });
  server.listen(Number(process.env["PORT"] ?? "8800"), "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}

main();
