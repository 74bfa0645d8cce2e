import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { until } from '../support/http-client.ts';
import { ADA, Arena, modern } from './arena.ts';

/** Group http, rows on bodies: which callers may send one, and how much memory all of them together may take. */

const MIB = 1024 * 1024;
/** With a heap this small the budget for request bodies has its minimum. */
const BUDGET = 32 * MIB;
let arena: Arena;
before(async () => {
  arena = await Arena.start({ agents: true, env: { NODE_OPTIONS: '--max-old-space-size=128' } });
});
after(() => arena.stop());

async function metric(name: string): Promise<number> {
  const { text } = await arena.control('/metrics', 'GET', { authorization: `Bearer ${arena.controlToken}` });
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

test('security:12 http: without a key every endpoint answers 401 before the body, with Expect and without, and reads none of it', async () => {
  const endpoints = [
    ['mcp', 'POST /mcp'],
    ['mcp', 'POST /servers/probe/mcp'],
    ['mcp', 'POST /message?sessionId=none'],
    ['mcp', 'POST /servers/probe/message?sessionId=none'],
    ['control', 'POST /api/v1/servers'],
    ['control', 'PUT /api/v1/servers/probe'],
    ['control', 'POST /api/v1/servers/probe/call'],
  ] as const;
  // The first begins in the fast path for plain requests.
  const bodies = [
    'Content-Length: 60000\r\n',
    'Content-Length: 60000\r\nExpect: 100-continue\r\n',
    'Content-Length: 15000000\r\n',
    'Content-Length: 15000000\r\nExpect: 100-continue\r\n',
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n',
  ];
  const keys = ['', 'Authorization: Bearer wrong-key-0123456789\r\n'];
  for (const [listener, endpoint] of endpoints) {
    await Promise.all(
      bodies.flatMap((lines) =>
        keys.map(async (key) => {
          const head = `${endpoint} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n${key}${lines}\r\n`;
          const { statuses, text } = await arena.raw(head, listener);
          assert.deepEqual(statuses, [401], `${endpoint} ${lines}${key}: ${text.slice(0, 200)}`);
        }),
      ),
    );
  }
  assert.equal(await metric('trunkline_request_bodies_bytes'), 0);
  await arena.alive();
});

test('security:12 fault:F40 http: 100 slow uploads of 15 MB share one budget, small calls are served meanwhile, and all of it is freed', async (t) => {
  const resident = await metric('process_resident_memory_bytes');
  const length = 15_000_000;
  const head = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: ${ADA.authorization}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
  const piece = Buffer.alloc(64 * 1024, 'x');
  const uploads = Array.from({ length: 100 }, () => {
    const socket = connect(arena.mcpPort, '127.0.0.1');
    const upload = { socket, text: '', sent: 0, over: false };
    socket.on('error', () => {});
    socket.on('close', () => (upload.over = true));
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      upload.text += chunk;
      upload.over = true;
    });
    t.after(() => socket.destroy());
    socket.write(head);
    return upload;
  });
  // Each upload sends one piece per round, all but its last.
  for (let sent = 0; sent + piece.length < length; sent += piece.length) {
    await Promise.all(
      uploads
        .filter(({ over }) => !over)
        .map((upload) => new Promise<void>((done) => upload.socket.write(piece, () => done()))),
    );
    if (sent % (32 * piece.length) !== 0) continue;
    const held = await metric('trunkline_request_bodies_bytes');
    assert.ok(held <= BUDGET, `${held}`);
    await arena.alive(`at ${sent}`);
  }
  const refused = uploads.filter(({ text }) => text.startsWith('HTTP/1.1 503'));
  const going = uploads.filter(({ over }) => !over);
  assert.ok(going.length > 0, 'uploads within the budget go on');
  // Some uploads get no answer: they still write when the gateway closes, and the reset discards it.
  assert.equal(await metric('trunkline_request_bodies_refused_total'), uploads.length - going.length);
  assert.ok(refused.length > 0);
  for (const { text } of refused) assert.match(text, /\r\nRetry-After: 1\r\n[\s\S]*"code":53004/);
  const grown = (await metric('process_resident_memory_bytes')) - resident;
  assert.ok(grown < 200 * MIB, `${Math.round(grown / MIB)} MiB more`);
  const { body, headers } = modern('tools/call', { name: 'probe__echo', arguments: { text: 'y'.repeat(40_000) } });
  assert.equal((await arena.post(body, { ...headers, ...ADA })).status, 200);
  for (const { socket } of going) socket.destroy();
  let left = -1;
  await until(() => {
    void metric('trunkline_request_bodies_bytes').then((bytes) => (left = bytes));
    return left === 0;
  });
  await arena.alive();
});
