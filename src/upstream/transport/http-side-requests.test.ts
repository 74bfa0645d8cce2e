import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { HttpClientPort, HttpRequest, ResponseHandler } from '../../http/client/client-port.ts';
import { ResponseHeaders } from '../../http/client/response-headers.ts';
import { HttpSideRequests } from './http-side-requests.ts';
import { HttpHeads } from './http-wire.ts';

/** A client whose server does not answer; it keeps the requests and counts the aborted ones. */
class SilentClient implements HttpClientPort {
  readonly asked: { readonly request: HttpRequest; readonly handler: ResponseHandler }[] = [];
  aborted = 0;

  request(request: HttpRequest, handler: ResponseHandler) {
    this.asked.push({ request, handler });
    return {
      abort: () => {
        this.aborted++;
      },
      pause: () => {},
      resume: () => {},
    };
  }

  close(): void {}
}

function bench() {
  const client = new SilentClient();
  const clock = new FakeClock();
  const heads = new HttpHeads({ post: '', get: '' });
  const side = new HttpSideRequests({ client, path: '/mcp', heads, options: { clock } });
  const statuses: number[] = [];
  const post = () => side.post([Buffer.from('{}')], heads.post(null), [], (status) => statuses.push(status));
  return { client, clock, side, statuses, post };
}

test('the gateway waits at most half a minute for a server that does not answer a notification', async () => {
  const { client, clock, statuses, post } = bench();
  post();
  await clock.advance(29_999);
  assert.deepEqual([statuses, client.aborted], [[], 0]);
  await clock.advance(1);
  assert.deepEqual([statuses, client.aborted], [[0], 1]);
  await clock.advance(60_000);
  assert.deepEqual([statuses, client.aborted], [[0], 1]);
});

test('at most 256 notifications wait for an answer of the server, and the end of the session is sent all the same', async () => {
  const { client, side, statuses, post } = bench();
  for (let i = 0; i < 300; i++) post();
  assert.deepEqual([client.asked.length, statuses.length], [256, 0]);
  void side.finish(true, 1_000);
  assert.equal(client.asked.at(-1)?.request.method, 'DELETE');
  for (const { handler } of client.asked) {
    handler.head(202, new ResponseHeaders([]));
    await null;
  }
  assert.equal(client.asked.length, 301);
  assert.deepEqual(statuses, new Array(300).fill(202));
  post();
  assert.equal(client.asked.length, 302);
});

test('further notifications wait up to a bound, and are dropped when the transport ends', () => {
  const { client, clock, side, statuses, post } = bench();
  for (let i = 0; i < 256 + 4_096 + 3; i++) post();
  assert.deepEqual([client.asked.length, statuses], [256, [0, 0, 0]]);
  side.stop();
  assert.deepEqual([client.asked.length, client.aborted, clock.pending], [256, 256, 0]);
});

test('a request is aborted when its unrequested body exceeds 64 KiB', () => {
  const { client, post } = bench();
  post();
  const { handler } = client.asked[0]!;
  assert.equal(handler.head(200, new ResponseHeaders([])), 'stream');
  handler.data(Buffer.alloc(64 * 1024));
  assert.equal(client.aborted, 0);
  handler.data(Buffer.alloc(1));
  assert.equal(client.aborted, 1);
});

test('a body that comes slowly is aborted half a minute after its request', async () => {
  const { client, clock, statuses, post } = bench();
  post();
  const { handler } = client.asked[0]!;
  handler.head(202, new ResponseHeaders([]));
  await clock.advance(25_000);
  handler.data(Buffer.alloc(1));
  assert.deepEqual([statuses, client.aborted], [[202], 0]);
  await clock.advance(5_000);
  assert.deepEqual([statuses, client.aborted], [[202], 1]);
  post();
  client.asked[1]!.handler.head(202, new ResponseHeaders([]));
  client.asked[1]!.handler.end();
  assert.equal(clock.pending, 0);
});
