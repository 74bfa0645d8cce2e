import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CommandError, EXIT } from '../exit-code.ts';
import { ControlClient } from './control-client.ts';

async function clientOf(t: TestContext, end: (response: ServerResponse) => void): Promise<ControlClient> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => end(response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return clientAt(server.address() as AddressInfo);
}

function clientAt({ port }: Pick<AddressInfo, 'port'>, note?: (text: string) => void): ControlClient {
  const instance = {
    pid: 7,
    version: '1',
    mcpUrl: '',
    controlUrl: `http://127.0.0.1:${port}`,
    files: [],
    startedAt: 0,
  };
  return new ControlClient({ instance, token: 't', execToken: null, ...(note === undefined ? {} : { note }) });
}

async function failure(work: Promise<string>): Promise<CommandError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CommandError, String(error));
  return error;
}

const ENDS = {
  'before it answers': (response: ServerResponse) => response.destroy(),
  'within its answer': (response: ServerResponse) => {
    response.writeHead(200, { 'content-length': 100 });
    response.write('half', () => response.destroy());
  },
};
for (const [when, end] of Object.entries(ENDS)) {
  test(`a gateway that ends ${when} leaves a call or change UNKNOWN, and a question unanswered`, async (t) => {
    const client = await clientOf(t, end);
    const change = await failure(client.post('/api/v1/calls', '{}'));
    assert.equal(change.exitCode, EXIT.toolError);
    assert.match(change.message, /^UNKNOWN: the gateway \(pid 7\) ended before it answered/);
    const question = await failure(client.get('/api/v1/servers'));
    assert.equal(question.exitCode, EXIT.unreachable);
  });
}

test('a call to a gateway that refuses the connection was not sent', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = clientAt(server.address() as AddressInfo);
  await new Promise((resolve) => server.close(resolve));
  const error = await failure(client.post('/api/v1/calls', '{}'));
  assert.equal(error.exitCode, EXIT.unreachable);
  assert.match(error.message, /does not answer/);
});

const EVENTS = { 'content-type': 'text/event-stream' };

test('a stream of steps that ends without an event leaves the call UNKNOWN', async (t) => {
  const client = await clientOf(t, (response) => response.writeHead(200, EVENTS).end());
  const error = await failure(client.steps('/api/v1/calls', '{}', new AbortController().signal, () => {}));
  assert.equal(error.exitCode, EXIT.toolError);
  assert.match(error.message, /^UNKNOWN: the gateway \(pid 7\) ended/);
});

test('an error of the reader of a stream is not taken for the end of the gateway; a broken stream is', async (t) => {
  const client = await clientOf(t, (response) => {
    response.writeHead(200, EVENTS).write('data: 1\n\n');
  });
  const { signal } = new AbortController();
  const tell = (): void => {
    throw new Error('of the reader');
  };
  await assert.rejects(client.stream('/api/v1/live', signal, tell), { message: 'of the reader' });
  await assert.rejects(client.steps('/api/v1/calls', '{}', signal, tell), { message: 'of the reader' });
  const broken = await clientOf(t, (response) => {
    response.writeHead(200, EVENTS).write('data: 1\n\n', () => setImmediate(() => response.destroy()));
  });
  const seen: string[] = [];
  await broken.stream('/api/v1/live', signal, (data) => void seen.push(data));
  assert.deepEqual(seen, ['1']);
});

test('a request that gets 408, because its idle connection ended before it was read, is sent once more', async (t) => {
  const statuses = [408, 200, 408, 408];
  let received = 0;
  const client = await clientOf(t, (response) => response.writeHead(statuses[received++]!).end('{}'));
  assert.equal(await client.post('/api/v1/calls', '{}'), '{}');
  assert.equal(received, 2);
  await failure(client.post('/api/v1/calls', '{}'));
  assert.equal(received, 4);
});

for (const [when, isLive] of [
  ['a line after two seconds says that a gateway does not answer at all, as one that is suspended', false],
  ['a person who waits for a gateway that works for long gets no line', true],
] as const) {
  test(when, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const change = Promise.withResolvers<Response>();
    const asked: string[] = [];
    t.mock.method(globalThis, 'fetch', ({ pathname }: URL) => {
      asked.push(pathname);
      if (pathname !== '/livez') return change.promise;
      return isLive ? Promise.resolve(Response.json({})) : new Promise<never>(() => {});
    });
    const lines: string[] = [];
    const answer = clientAt({ port: 1 }, (text) => lines.push(text)).post('/api/v1/servers', '{}');
    for (let i = 0; i < 3; i++) {
      await turn();
      assert.deepEqual(lines, []);
      if (i < 2) t.mock.timers.tick(999);
    }
    t.mock.timers.tick(2);
    const line = /^waiting for the gateway \(pid 7\), which does not answer; .*kill -CONT 7\n$/;
    assert.deepEqual([asked, lines.length], [['/api/v1/servers', '/livez'], isLive ? 0 : 1]);
    for (const text of lines) assert.match(text, line);
    change.resolve(Response.json({}));
    assert.equal(await answer, '{}');
  });
}

test('a gateway that did not answer in time is not said to have ended', async (t) => {
  const cause = Object.assign(new Error('Headers Timeout Error'), { code: 'UND_ERR_HEADERS_TIMEOUT' });
  t.mock.method(globalThis, 'fetch', () => Promise.reject(new TypeError('fetch failed', { cause })));
  const client = clientAt({ port: 1 });
  const change = await failure(client.post('/api/v1/servers', '{}'));
  assert.equal(change.exitCode, EXIT.toolError);
  assert.match(change.message, /^UNKNOWN: the gateway \(pid 7\) did not answer within 300 s; the call or change may/);
  const question = await failure(client.get('/api/v1/servers'));
  assert.equal(question.exitCode, EXIT.unreachable);
  assert.equal(question.message, 'the gateway (pid 7) did not answer within 300 s');
});
