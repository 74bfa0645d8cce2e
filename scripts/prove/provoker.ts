/**
 * A process that calls one tool again and again, by four callers, between the messages `go` and `stop` of its parent:
 * what it costs to take in what a bad server says must not disturb whoever measures. Argument: a `Provocation` as JSON.
 */
import { setTimeout as sleep } from 'node:timers/promises';

export interface Provocation {
  readonly url: string;
  /** Null: it calls nothing and only computes. */
  readonly tool: string | null;
  readonly args: Record<string, unknown>;
}

const CALLERS = 4;
const PAUSE_MS = 5;
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'provoker', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

const { url, tool, args } = JSON.parse(process.argv[2]!) as Provocation;
let running = false;
let calls = 0;

async function call(name: string): Promise<void> {
  const n = ++calls;
  const params = { name, arguments: { call: `provoked-${process.pid}-${n}`, ...args }, _meta: META };
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: n, method: 'tools/call', params }),
  });
  for await (const _ of response.body ?? []);
}

async function live(): Promise<void> {
  for (;;) {
    if (running && tool !== null) await call(tool).catch(() => {});
    await sleep(PAUSE_MS);
  }
}

process.on('message', (message) => {
  running = message === 'go';
  while (running && tool === null);
});
process.on('disconnect', () => process.exit(0));
for (let i = 0; i < CALLERS; i++) void live();
process.send?.('ready');
