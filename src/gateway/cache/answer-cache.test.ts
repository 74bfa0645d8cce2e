import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import {
  agent,
  BenchExchange,
  client,
  dispatchTo,
  FakeUpstreams,
  serverNamed,
  UNPINNED,
} from '../../../test/support/gateway-bench.ts';
import { serverCatalog } from '../../../test/support/server-catalogs.ts';
import { CallAttempts } from '../../model/call-attempts.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { errorAnswer, notification, request, result } from '../../protocol/compose.ts';
import { MAX_TTL_MS } from '../../protocol/list-freshness.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { Guards } from '../drift/guards.ts';
import { Policies } from '../policy/policies.ts';
import { Target } from '../target.ts';
import { AnswerCache } from './answer-cache.ts';

const STATELESS = { era: 'stateless' as const };
const URI = '{"uri":"test://a"}';
const modern = client('stateless');

/** The cache before servers `one` and `two`, which count what reaches them. */
class Bench {
  readonly clock = new FakeClock();
  readonly upstreams = new FakeUpstreams(this.clock);
  readonly metrics = new Metrics();
  readonly cache: AnswerCache;
  hints = '"ttlMs":60000,"cacheScope":"public"';
  #count = 0;

  constructor(more: object = {}) {
    this.upstreams.list = [serverNamed('one', more), serverNamed('two', more)];
    for (const name of ['one', 'two']) this.upstreams.known.set(name, serverCatalog(name, STATELESS));
    this.upstreams.respond = () => this.numbered();
    const { upstreams, clock } = this;
    const policies = new Policies({ upstreams, clock, guards: new Guards(UNPINNED, upstreams) });
    this.cache = new AnswerCache({
      upstreams: this.upstreams,
      dispatch: dispatchTo(this.upstreams),
      policies,
      clock: this.clock,
      metrics: this.metrics,
    });
  }

  get sent(): number {
    return this.upstreams.calls.length;
  }

  numbered(): Outcome {
    return complete(`"n":${++this.#count},${this.hints}`);
  }

  exchange(params = URI, who: ClientProfile = modern, method = 'resources/read'): BenchExchange {
    return new BenchExchange(request(method, '"c"', params, who.sessionId === null ? 'stateless' : 'stateful'), who);
  }

  send(exchange: BenchExchange, server = 'one'): Promise<Outcome> {
    const { client, request } = exchange;
    const target = new Target(client.principal, server, 'resource', request, null);
    target.admitted = true;
    return this.cache.call(target, request, exchange);
  }

  /** The answer's result. */
  async ask(params = URI, who: ClientProfile = modern, method = 'resources/read', server = 'one'): Promise<Answered> {
    return read(await this.send(this.exchange(params, who, method), server));
  }
}

interface Answered {
  readonly n: number;
  readonly ttlMs: number;
}

function complete(members: string): Outcome {
  return answer(result('0', `{"resultType":"complete","big":12345678901234567890,${members}}`, 'stateless'));
}

function read(outcome: Outcome): Answered {
  assert.equal(outcome.kind, 'answer', JSON.stringify(outcome));
  return JSON.parse((outcome as Extract<Outcome, { kind: 'answer' }>).message.body.toString());
}

function deferred(): { readonly promise: Promise<Outcome>; readonly resolve: (outcome: Outcome) => void } {
  let resolve!: (outcome: Outcome) => void;
  const promise = new Promise<Outcome>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

const UPDATED = notification('notifications/resources/updated', URI, 'stateless');

test('an answer is kept as long as its server declares, byte for byte except for the remaining time', async () => {
  const bench = new Bench();
  const first = await bench.send(bench.exchange());
  bench.clock.advance(59_000);
  const second = await bench.send(bench.exchange());
  assert.ok(first.kind === 'answer' && second.kind === 'answer');
  const kept = second.message.body.toString();
  assert.equal(kept, first.message.body.toString().replace('"ttlMs":60000', '"ttlMs":1000'));
  assert.match(kept, /"big":12345678901234567890/);
  bench.clock.advance(1_000);
  assert.equal((await bench.ask()).n, 2);
});

test('proto:C3 an invalid hint counts as 0 and private, and no hint is valid for more than a day', async () => {
  for (const ttl of ['-1', '1.5', '"60000"', 'null', '1E400', 'true', '[60000]', '0']) {
    const bench = new Bench();
    bench.hints = `"ttlMs":${ttl},"cacheScope":"public"`;
    assert.deepEqual([(await bench.ask()).n, (await bench.ask()).n], [1, 2], ttl);
  }
  const long = new Bench();
  long.hints = `"ttlMs":${MAX_TTL_MS * 1000},"cacheScope":"public"`;
  await long.ask();
  assert.equal((await long.ask()).ttlMs, MAX_TTL_MS);
  long.clock.advance(MAX_TTL_MS);
  assert.equal((await long.ask()).n, 2);
});

test('proto:C5 answers of a round of input are not kept, and each caller is asked separately', async () => {
  const bench = new Bench();
  for (const round of ['"requestState":"s"', '"inputResponses":{}']) {
    const params = `{"uri":"test://a",${round}}`;
    assert.notEqual((await bench.ask(params)).n, (await bench.ask(params)).n);
  }
  const before = bench.sent;
  const held = deferred();
  bench.upstreams.respond = () => held.promise;
  const both = [bench.send(bench.exchange()), bench.send(bench.exchange())];
  bench.upstreams.respond = () => bench.numbered();
  held.resolve(answer(result('0', `{"resultType":"input_required",${bench.hints}}`, 'stateless')));
  const answered = await Promise.all(both);
  assert.equal(new Set(answered.map((outcome) => read(outcome).n)).size, 2, 'each has an answer of its own');
  assert.equal(bench.sent - before, 3);
  assert.equal(bench.upstreams.calls[before]!.exchange.takesInputRequired, true);
});

test('proto:C6 a notification removes what it names at once, and an answer being fetched is not kept', async () => {
  const bench = new Bench();
  await bench.ask();
  await bench.ask('{"uri":"test://b"}');
  await bench.ask('{}', modern, 'tools/list');
  bench.cache.invalidate('one', UPDATED);
  assert.equal((await bench.ask('{"uri":"test://b"}')).n, 2, 'another resource stays');
  assert.equal((await bench.ask('{}', modern, 'tools/list')).n, 3, 'and so do lists');
  bench.cache.invalidate('two', notification('notifications/tools/list_changed', null, 'stateless'));
  assert.equal((await bench.ask('{}', modern, 'tools/list')).n, 3, 'a notification of another server removes none');
  const held = deferred();
  bench.upstreams.respond = () => held.promise;
  const old = bench.send(bench.exchange());
  bench.cache.invalidate('one', UPDATED);
  bench.upstreams.respond = () => bench.numbered();
  assert.equal((await bench.ask()).n, 4, 'a later caller does not wait for a request from before the notification');
  held.resolve(complete(`"n":99,${bench.hints}`));
  assert.deepEqual([read(await old).n, read(await old).ttlMs], [99, 0], 'the earlier caller gets it, as stale');
  assert.equal((await bench.ask()).n, 4, 'and it does not replace the newer answer');
});

test('proto:C7 only requests fetch answers; while the server cannot be asked a stale answer is shown for a limited time', async () => {
  const bench = new Bench();
  await bench.ask();
  bench.clock.advance(60_000 + 5 * 60_000);
  assert.equal(bench.sent, 1);
  const down = failure(new GatewayError('NOT_SENT', 'down'));
  bench.upstreams.respond = () => down;
  assert.deepEqual(await bench.ask().then(({ n, ttlMs }) => [n, ttlMs]), [1, 0]);
  bench.upstreams.respond = () => failure(new GatewayError('OVERLOADED', 'no'));
  assert.equal((await bench.send(bench.exchange())).kind, 'failure', 'a refusal is an answer');
  bench.upstreams.respond = () => down;
  bench.clock.advance(5 * 60_000);
  assert.equal((await bench.send(bench.exchange())).kind, 'failure');
});

test('proto:C6 an invalidated answer is not shown as stale either', async () => {
  const bench = new Bench();
  await bench.ask();
  bench.cache.invalidate('one', null);
  bench.upstreams.respond = () => failure(new GatewayError('NOT_SENT', 'down'));
  assert.equal((await bench.send(bench.exchange())).kind, 'failure');
});

test('proto:C1 proto:C2 a private answer belongs to its caller, a public one to all, and both to one server', async () => {
  const ada = client('stateless', { principal: agent('ada', 'one', 'two') });
  const bob = client('stateless', { principal: agent('bob', 'one', 'two') });
  const bench = new Bench();
  assert.deepEqual([(await bench.ask(URI, ada)).n, (await bench.ask(URI, bob)).n], [1, 1]);
  assert.equal((await bench.ask(URI, ada, 'resources/read', 'two')).n, 2);
  bench.hints = '"ttlMs":60000,"cacheScope":"private"';
  const other = '{"uri":"test://b"}';
  assert.equal((await bench.ask(other, ada)).n, 3);
  assert.equal((await bench.ask(other, bob)).n, 4);
  assert.equal((await bench.ask(other, ada)).n, 3);
  assert.equal((await bench.ask(other, { ...ada, handle: 'h' })).n, 5, 'the handle that isolates requests counts too');
  assert.equal((await bench.ask(other, { ...ada, fingerprint: 'f' })).n, 6, 'and so do declared capabilities');
  bench.cache.clear();
  assert.equal((await bench.ask(other, ada)).n, 7, 'a cleared cache has no answers');
});

test('proto:C4 the key has every parameter that may affect the result', async () => {
  const bench = new Bench();
  const page = (params: string) => bench.ask(params, modern, 'resources/list').then(({ n }) => n);
  assert.deepEqual(
    [await page('{}'), await page('{"cursor":"a"}'), await page('{"cursor":""}'), await page('{"x":1}')],
    [1, 2, 3, 4],
  );
  assert.deepEqual([await page('{"cursor":"a"}'), await page('{ "cursor" : "\\u0061" }')], [2, 2]);
  const meta = '{"cursor":"a","_meta":{"traceparent":"00-1","io.modelcontextprotocol/clientInfo":{"name":"x"}}}';
  assert.deepEqual([await page(meta), await page('{"cursor":"a","_meta":{"vendor/x":1}}')], [2, 5]);
  bench.upstreams.respond = () => answer(errorAnswer('0', -32602, 'no such cursor', null, 'stateless'));
  await bench.send(bench.exchange('{"cursor":"gone"}', modern, 'resources/list'));
  bench.upstreams.respond = () => bench.numbered();
  assert.equal(await page('{}'), 6, 'an invalid cursor removes all pages of its list');
});

test('callers that need the same answer at once share a request; one that cancels does not affect the others', async () => {
  const bench = new Bench();
  const held = deferred();
  bench.upstreams.respond = () => held.promise;
  const exchanges = [bench.exchange(), bench.exchange(), bench.exchange(URI, client('stateful'))];
  const outcomes = exchanges.map((exchange) => bench.send(exchange));
  assert.equal(bench.sent, 1);
  const { exchange: flight } = bench.upstreams.calls[0]!;
  flight.servedBy = 'b';
  flight.attempts = new CallAttempts();
  exchanges[1]!.cancel('bored');
  exchanges[0]!.cancel('the one who began');
  assert.equal(flight.cancelled, null);
  held.resolve(bench.numbered());
  const [first, second, third] = await Promise.all(outcomes);
  for (const cancelled of [first!, second!]) {
    assert.ok(cancelled.kind === 'failure' && cancelled.error.code === 'CANCELLED');
  }
  assert.equal(read(third!).n, 1);
  // The exchange of every caller says how the request was sent.
  for (const { sentAt, servedBy, attempts } of exchanges as Exchange[])
    assert.deepEqual([sentAt, servedBy, attempts], [flight.sentAt, 'b', flight.attempts]);
  assert.notEqual(flight.sentAt, undefined);
  const text = bench.metrics.exposition();
  assert.match(text, /trunkline_cache_requests_total\{server="one",result="coalesced"\} 2/);
  assert.match(text, /trunkline_cache_requests_total\{server="one",result="miss"\} 1/);
  assert.match(text, /trunkline_cache_entries 1/);
});

test('when the last caller leaves, the server is notified; a later caller begins anew', async () => {
  const bench = new Bench();
  bench.upstreams.respond = () => new Promise(() => {});
  const exchange = bench.exchange();
  const outcome = bench.send(exchange);
  let reported = '';
  bench.upstreams.calls[0]!.exchange.onCancel = (reason) => {
    reported = reason;
  };
  exchange.cancel('gone');
  assert.equal(reported, 'gone');
  assert.equal((await outcome).kind, 'failure');
  bench.upstreams.respond = () => bench.numbered();
  assert.equal((await bench.ask()).n, 1);
});

test('a defect in a shared request ends it for each caller, and is not kept', async () => {
  const bench = new Bench();
  let fail!: (cause: Error) => void;
  bench.upstreams.respond = () => new Promise((_, reject) => (fail = reject));
  const waiting = [bench.exchange(), bench.exchange()].map((exchange) => bench.send(exchange));
  fail(new TypeError('a defect'));
  for (const one of waiting) await assert.rejects(one, /a defect/);
  bench.upstreams.respond = () => bench.numbered();
  assert.equal((await bench.ask()).n, 1);
});

test('a caller that receives the messages of its request does not share the request of another', async () => {
  const bench = new Bench();
  bench.upstreams.respond = () => new Promise(() => {});
  void bench.send(bench.exchange());
  void bench.send(bench.exchange('{"uri":"test://a","_meta":{"progressToken":1}}'));
  assert.equal(bench.sent, 2);
});

test('an uncached server is asked every time, and so is a stateful one', async () => {
  const off = new Bench({ cache: false });
  assert.deepEqual([(await off.ask()).n, (await off.ask()).n], [1, 2]);
  const stateful = new Bench();
  stateful.upstreams.known.set('one', serverCatalog('one', {}));
  assert.deepEqual([(await stateful.ask()).n, (await stateful.ask()).n], [1, 2]);
});
