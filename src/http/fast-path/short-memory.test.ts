import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listenerRig } from '../../../test/support/http-listener.ts';
import type { MemoryLevel } from '../../model/pooled-buffers.ts';
import type { RequestContext } from '../listener/request-context.ts';

const SMALL = 'x'.repeat(60 * 1024);
const LARGE = 'x'.repeat(70 * 1024);

test('fault:F40 as memory gets short: large bodies are refused with 503 and Retry-After, then all calls, never other requests', async (t) => {
  const memory: { level: MemoryLevel } = { level: 'ample' };
  const { listener, port } = await listenerRig(t, { maxBodyBytes: 1024 * 1024 }, { memory });
  const routes = listener.routes;
  routes.add(
    '/calls',
    {
      GET: (context) => context.empty(204),
      POST: (context) => context.readJson((body) => context.json(200, `{"bytes":${body.length}}`)),
    },
    { sheds: true },
  );
  routes.add('/probe', { POST: (context) => context.readJson(() => context.empty(202)) });
  const send = async (path: string, method: string, text = ''): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      ...(text === '' ? {} : { body: JSON.stringify(text), headers: { 'content-type': 'application/json' } }),
    });
    await response.arrayBuffer();
    return `${response.status}${response.headers.has('retry-after') ? ' later' : ''}`;
  };
  const all = async (level: MemoryLevel): Promise<string[]> => {
    memory.level = level;
    const calls = [
      ['/calls', 'POST', SMALL],
      ['/calls', 'POST', LARGE],
      ['/calls', 'GET'],
      ['/probe', 'POST', LARGE],
    ] as const;
    const statuses: string[] = [];
    for (const [path, method, text] of calls) statuses.push(await send(path, method, text));
    return statuses;
  };
  assert.deepEqual(await all('ample'), ['200', '200', '204', '202']);
  assert.deepEqual(await all('short'), ['200', '200', '204', '202']);
  assert.deepEqual(await all('scarce'), ['200', '503 later', '204', '202']);
  assert.deepEqual(await all('spent'), ['503 later', '503 later', '204', '202']);
  assert.deepEqual(await all('ample'), ['200', '200', '204', '202']);
});

test('fault:F40 a body without a length ends at the same bound while memory is scarce', async (t) => {
  const { listener, port } = await listenerRig(t, { maxBodyBytes: 1024 * 1024 }, { memory: { level: 'scarce' } });
  let bodies = 0;
  const POST = (context: RequestContext): void =>
    context.readJson(() => {
      bodies++;
      context.empty(202);
    });
  listener.routes.add('/calls', { POST }, { sheds: true });
  const send = async (text: string): Promise<number> => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(JSON.stringify(text)));
        controller.close();
      },
    });
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`http://127.0.0.1:${port}/calls`, {
      method: 'POST',
      body,
      headers,
      duplex: 'half',
    } as RequestInit);
    await response.arrayBuffer();
    return response.status;
  };
  assert.equal(await send(SMALL), 202);
  assert.equal(await send(LARGE), 413);
  assert.equal(bodies, 1);
});
