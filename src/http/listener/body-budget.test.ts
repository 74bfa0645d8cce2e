import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { until } from '../../../test/support/http-client.ts';
import { LANES, listenerRig } from '../../../test/support/http-listener.ts';
import { BodyBudget } from '../context/body-budget.ts';

const KIB = 1024;
/** Bodies that are not small may take 896 KiB of a budget of 1 MiB: seven bodies of this size. */
const LARGE = 128 * KIB;

/** A client that writes what the test asks for, and keeps the answer. */
function sender(t: TestContext, port: number, lines: string, bytes: number) {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  t.after(() => socket.destroy());
  socket.write(`POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${lines}\r\n`);
  const send = (count: number): void => void socket.write(Buffer.alloc(count, 'x'));
  if (bytes > 0) send(bytes);
  const chunk = (count: number): void =>
    void socket.write(`${count.toString(16)}\r\n${'x'.repeat(count)}\r\n`, 'latin1');
  return { socket, send, chunk, text: () => text, status: () => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0) };
}

const length = (bytes: number): string => `Content-Length: ${bytes}\r\n`;

async function rig(t: TestContext, bodies = new BodyBudget(1024 * KIB)) {
  return { bodies, ...(await listenerRig(t, { maxBodyBytes: 16 * 1024 * KIB }, { bodies })) };
}

/** Seven slow clients, which together hold the whole budget for bodies of their size. */
async function seven(t: TestContext, port: number, bodies: BodyBudget) {
  const slow = Array.from({ length: 7 }, () => sender(t, port, length(LARGE), 70 * KIB));
  await until(() => bodies.heldBytes > 7 * LARGE - 8 * KIB);
  return { slow, held: bodies.heldBytes };
}

test('security:12 slow senders share one budget: a further one gets 503 and Retry-After, those with a share go on', async (t) => {
  const { bodies, port, reached } = await rig(t);
  const { slow, held } = await seven(t, port, bodies);
  // The further client sends nothing of its body.
  for (const lines of [length(LARGE), `${length(LARGE)}Expect: 100-continue\r\n`]) {
    const more = sender(t, port, lines, 0);
    await until(() => more.text().includes('}}'));
    assert.equal(more.status(), 503, more.text());
    assert.match(more.text(), /\r\nRetry-After: 1\r\n/);
    assert.match(more.text(), /"code":"overloaded"/);
  }
  assert.deepEqual([bodies.refused, bodies.heldBytes], [2, held]);
  for (const { send } of slow) send(LARGE - 70 * KIB);
  await until(() => slow.every(({ status }) => status() === 200));
  assert.equal(reached.length, 7);
  assert.equal(bodies.heldBytes, 0);
  const after = sender(t, port, length(LARGE), LARGE);
  await until(() => after.status() === 200);
});

for (const [fastPath, lines] of Object.entries(LANES)) {
  test(`security:12 small bodies in pieces have a part of the budget that slow uploads cannot take: ${fastPath}`, async (t) => {
    const { bodies, port } = await rig(t);
    const { held } = await seven(t, port, bodies);
    const small = sender(t, port, length(20 * KIB) + lines, 9 * KIB);
    await until(() => bodies.heldBytes > held);
    small.send(11 * KIB);
    await until(() => small.status() === 200);
    assert.equal(bodies.heldBytes, held);
  });

  test(`security:12 a small body gets 503 too once the budget is spent, in one piece with its head or in several: ${fastPath}`, async (t) => {
    const { bodies, port } = await rig(t);
    const { held } = await seven(t, port, bodies);
    const others = Array.from({ length: 2 }, () => sender(t, port, length(64 * KIB) + lines, 40 * KIB));
    await until(() => bodies.heldBytes > held + 120 * KIB);
    const small = sender(t, port, length(20 * KIB) + lines, 9 * KIB);
    await until(() => small.status() === 503);
    for (const { socket } of others) socket.destroy();
    await until(() => bodies.heldBytes === held);
  });
}

test('security:12 announced lengths alone reserve nothing, and other requests are served', async (t) => {
  const { bodies, port } = await rig(t);
  const silent = Array.from({ length: 64 }, () =>
    sender(t, port, `${length(16 * 1024 * KIB)}Expect: 100-continue\r\n`, 0),
  );
  await until(() => silent.every(({ text }) => text().startsWith('HTTP/1.1 100')));
  assert.equal(bodies.heldBytes, 0);
  const upload = sender(t, port, length(800 * KIB), 800 * KIB);
  await until(() => upload.status() === 200);
});

test('security:12 growing bodies never hold more than the budget: those that cannot go on get 503 and return their share', async (t) => {
  const { bodies, port } = await rig(t);
  const growing = Array.from({ length: 24 }, (_, i) =>
    sender(t, port, i % 2 === 0 ? length(512 * KIB) : 'Transfer-Encoding: chunked\r\n', 0),
  );
  let most = 0;
  for (let round = 0; round < 16; round++) {
    for (const [i, one] of growing.entries()) {
      if (one.status() !== 0) continue;
      if (i % 2 === 0) one.send(32 * KIB);
      else one.chunk(32 * KIB);
      await new Promise(setImmediate);
      most = Math.max(most, bodies.heldBytes);
    }
  }
  for (const [i, one] of growing.entries()) if (i % 2 === 1 && one.status() === 0) one.socket.write('0\r\n\r\n');
  await until(() => growing.every(({ status }) => status() !== 0));
  const answers = growing.map(({ status }) => status());
  assert.ok(most <= 1024 * KIB && most > 512 * KIB, `${most}`);
  assert.ok(answers.includes(503) && answers.every((status) => status === 503 || status === 200), answers.join());
  await until(() => bodies.heldBytes === 0);
});

test('security:12 a share returns however its body ends: cut, closed, malformed, too large, too slow', async (t) => {
  const bodies = new BodyBudget(1024 * KIB);
  const { port } = await listenerRig(t, { maxBodyBytes: 256 * KIB }, { bodies });
  type Sender = ReturnType<typeof sender>;
  const ends: Record<string, (one: Sender) => void> = {
    cut: ({ socket }) => socket.resetAndDestroy(),
    closed: ({ socket }) => socket.end(),
    malformed: ({ socket }) => socket.write('no chunk\r\n'),
    large: ({ chunk }) => chunk(200 * KIB),
  };
  for (const [what, end] of Object.entries(ends)) {
    const one = sender(t, port, 'Transfer-Encoding: chunked\r\n', 0);
    one.chunk(100 * KIB);
    await until(() => bodies.heldBytes > 0);
    end(one);
    await until(() => bodies.heldBytes === 0);
    if (what === 'large') await until(() => one.status() === 413);
  }
  for (const lines of Object.values(LANES)) {
    for (const end of [ends['cut']!, ends['closed']!]) {
      const one = sender(t, port, length(50 * KIB) + lines, 20 * KIB);
      await until(() => bodies.heldBytes > 0);
      end(one);
      await until(() => bodies.heldBytes === 0);
    }
  }
});

test('security:12 a body that comes too slowly loses its share and gets 408, also on an HTTP server without time limits', async (t) => {
  const bodies = new BodyBudget(1024 * KIB, 200);
  const { listener, port, reached } = await listenerRig(t, { maxBodyBytes: 256 * KIB }, { bodies });
  const server = createServer({ requestTimeout: 0, headersTimeout: 0 }, (request, response) =>
    listener.serve(request, response),
  );
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  t.after(() => server.close());
  for (const at of [port, (server.address() as AddressInfo).port]) {
    const slow = sender(t, at, length(LARGE), 70 * KIB);
    await until(() => bodies.heldBytes > 0);
    const trickle = setInterval(() => slow.send(1), 20);
    t.after(() => clearInterval(trickle));
    await until(() => slow.status() === 408);
    assert.equal(bodies.heldBytes, 0);
    clearInterval(trickle);
  }
  assert.deepEqual(reached, []);
});

test('security:12 closing the listener returns all shares', async (t) => {
  const { bodies, listener, port } = await rig(t);
  await seven(t, port, bodies);
  await listener.close();
  await until(() => bodies.heldBytes === 0);
});
