import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { PACED_BYTES, PacedWrite } from './outbox.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A socket that the test writes to, and the socket that its client reads from. */
async function pair(run: (written: Socket, read: Socket) => Promise<void>): Promise<void> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const read = connect((server.address() as { port: number }).port, '127.0.0.1');
  const [written] = (await once(server, 'connection')) as [Socket];
  try {
    await run(written, read);
  } finally {
    read.destroy();
    written.destroy();
    server.close();
  }
}

test('goal:G12 a large answer is written in pieces, with other turns in between, and arrives unchanged', () =>
  pair(async (written, read) => {
    const parts = [1, 3_000_000, 0, 70_000, PACED_BYTES].map((length, i) => Buffer.alloc(length, `${i}part`));
    const whole = Buffer.concat(parts);
    const came: Buffer[] = [];
    read.on('data', (chunk) => came.push(chunk));
    let done = false;
    const paced = new PacedWrite(written, parts, whole.length, () => {
      done = true;
    });
    let most = 0;
    for (let left = whole.length; !done; left = paced.left) {
      most = Math.max(most, left - paced.left);
      await turn();
    }
    assert.ok(most <= 2 * 256 * 1024, `${most} bytes in one turn`);
    assert.equal(paced.left, 0);
    written.end();
    await once(read, 'end');
    assert.ok(Buffer.concat(came).equals(whole));
  }));

test('fault:F17 the writer stops when its client is gone', () =>
  pair(async (written, read) => {
    const parts = [Buffer.alloc(64 * 1024 * 1024)];
    let done = false;
    written.on('error', () => {});
    const paced = new PacedWrite(written, parts, parts[0]!.length, () => {
      done = true;
    });
    read.pause();
    read.destroy();
    await new Promise((closed) => written.once('close', closed));
    const { left } = paced;
    await turn();
    await turn();
    assert.equal(paced.left, left);
    assert.ok(left > 0 && !done);
  }));
