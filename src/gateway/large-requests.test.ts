import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agent, type BenchExchange, client, GatewayBench, MCP } from '../../test/support/gateway-bench.ts';
import { tool } from '../../test/support/server-catalogs.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Outcome } from '../model/outcome.ts';
import { LargeRequests } from './large-requests.ts';

const MIB = 1024 * 1024;

test('bytes of large calls in flight are limited per principal and in total; each may always have one', () => {
  const large = new LargeRequests();
  const exchange = (principal: string, length: number): Exchange =>
    ({ request: { method: 'tools/call', bytes: { length } }, client: { principal: { id: principal } } }) as never;
  assert.deepEqual(
    [16 * 1024, 16 * 1024 + 1].map((length) => large.isLarge(exchange('a', length))),
    [false, true],
  );
  const take = (principal: string, length: number): (() => void) => {
    const taken = large.take(exchange(principal, length));
    if (taken instanceof GatewayError) throw taken;
    return taken;
  };
  const first = take('a', 300 * MIB);
  assert.throws(() => take('a', MIB), { code: 'OVERLOADED' });
  const second = take('b', 200 * MIB);
  assert.throws(() => take('b', 20 * MIB), { code: 'OVERLOADED' }, 'the limit in total');
  first();
  const third = take('b', 20 * MIB);
  assert.throws(() => take('b', 40 * MIB), { code: 'OVERLOADED' }, 'the limit of one principal');
  take('a', 200 * MIB);
  take('a', 50 * MIB);
  second();
  third();
  take('b', 200 * MIB);
});

test('a large listen is refused while another large one of the same caller is open', async () => {
  const bench = new GatewayBench({ a: { tools: [tool('t')] } });
  const of = { a: client('stateless', { principal: agent('a') }), b: client('stateless', { principal: agent('b') }) };
  const listen = (caller: 'a' | 'b', bytes: number): { exchange: BenchExchange; outcome: Promise<Outcome> } => {
    const params = `{"notifications":{},"_meta":{"x":"${'x'.repeat(bytes)}"}}`;
    const exchange = bench.exchange('subscriptions/listen', params, { client: of[caller] });
    return { exchange, outcome: bench.gateway.run(exchange, MCP) };
  };
  const codeOf = async (outcome: Promise<Outcome>): Promise<string> => {
    const ended = await Promise.race([outcome, bench.clock.advance(5_000)]);
    if (ended === undefined) return 'open';
    return ended.kind === 'failure' ? ended.error.code : ended.kind;
  };
  const open = listen('a', 20 * MIB);
  assert.equal(await codeOf(open.outcome), 'open');
  assert.equal(await codeOf(listen('a', 20 * MIB).outcome), 'OVERLOADED');
  for (const [caller, bytes] of [
    ['a', 10_000],
    ['b', 20 * MIB],
  ] as const) {
    assert.equal(await codeOf(listen(caller, bytes).outcome), 'open', caller);
  }
  open.exchange.cancel('closed the stream');
  assert.equal(await codeOf(open.outcome), 'CANCELLED');
  assert.equal(await codeOf(listen('a', 20 * MIB).outcome), 'open');
});
