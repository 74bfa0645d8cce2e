import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { AskingRig, askedIn, DECLARED, form, KEY, retry } from '../../../test/support/asking-rig.ts';
import { DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import type { Reply } from '../../../test/support/raw-http.ts';
import { StateSealer } from '../../gateway/sealer.ts';
import { answer } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { errorAnswer, request, result } from '../../protocol/compose.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';
import { ClientExchange, ExchangeList } from '../session/client-exchange.ts';
import { PendingInputRequests } from './pending-input-requests.ts';

let asking: AskingRig;
before(async () => {
  asking = await AskingRig.start();
});
after(() => asking.rig.close());

describe('check:B8 which requests lead a stateless client back to its waiting call', () => {
  test('proto:S3 proto:S6 altered, foreign, reused and expired states are -32602, and nothing runs', async () => {
    asking.serves(() => [form()]);
    const asked = askedIn(await asking.post({ key: 'ann' }));
    const { requestState } = asked;
    const ran = asking.rig.core.ran.length;
    const at = requestState.length - 5;
    const flipped = requestState.slice(0, at) + (requestState[at] === 'A' ? 'B' : 'A') + requestState.slice(at + 1);
    const other = stateless('prompts/get', { name: 't', requestState }, { capabilities: DECLARED });
    const bad: [string, Promise<Reply>][] = [
      ['tampered', asking.post({ key: 'ann', params: { requestState: flipped } })],
      ['cut', asking.post({ key: 'ann', params: { requestState: requestState.slice(0, -1) } })],
      ['principal', asking.post({ key: 'bob', params: { requestState } })],
      ['no key', asking.post({ params: { requestState } })],
      ['endpoint', asking.post({ key: 'ann', params: { requestState }, path: '/servers/memory/mcp' })],
      ['tool', asking.post({ key: 'ann', params: { requestState, name: 'u' } })],
      ['arguments', asking.post({ key: 'ann', params: { requestState, arguments: { a: 1 } } })],
      ['method', asking.rig.post(other.body, { ...other.headers, authorization: 'Bearer key-of-ann' })],
      ['answers', asking.post({ key: 'ann', params: { requestState, inputResponses: [] } })],
    ];
    for (const [what, sent] of bad) {
      const reply = await sent;
      assert.equal(reply.json.error?.code, -32602, what);
    }
    assert.equal(asking.rig.core.ran.length, ran);
    assert.equal(asking.rig.downstream.waitingForInput, 1, 'and the call still waits');
    assert.equal((await asking.post({ key: 'ann', params: retry(asked) })).json.result.resultType, 'complete');
    assert.equal((await asking.post({ key: 'ann', params: retry(asked) })).json.error.code, -32602, 'reused');
    const late = askedIn(await asking.post({ key: 'ann' }));
    const before = asking.rig.core.ran.length;
    await asking.clock.advance(10 * 60_000);
    assert.deepEqual(asking.cancels.length, 1, 'a parked call to which no client returns is cancelled');
    assert.equal(asking.rig.downstream.waitingForInput, 0);
    assert.equal((await asking.post({ key: 'ann', params: retry(late) })).json.error.code, -32602, 'expired');
    assert.equal(asking.rig.core.ran.length, before);
  });

  test('an answer of the server without an attached request waits for the client', async () => {
    let asked: Promise<unknown> | null = null;
    let give = (): void => {};
    asking.rig.core.on('tools/call', async (exchange) => {
      asked = exchange.ask(form()).catch((error: Error) => error);
      await new Promise<void>((resolve) => {
        give = resolve;
      });
      return answer(errorAnswer('0', -5, 'gave up', null, 'stateful'));
    });
    const first = askedIn(await asking.post());
    give();
    assert.ok((await asked!) instanceof Error);
    const reply = await asking.post({ params: retry(first) });
    assert.deepEqual(reply.json.error, { code: -5, message: 'gave up' });
    assert.equal(asking.rig.downstream.waitingForInput, 0);
  });

  test('a lost connection of the retry cancels the call, like any request of this revision', async () => {
    asking.serves(
      () => [form()],
      () => [],
    );
    let release = (): void => {};
    asking.rig.core.on('tools/call', async (exchange) => {
      await exchange.ask(form());
      await new Promise<void>((resolve) => {
        release = resolve;
        exchange.onCancel = (reason) => {
          asking.cancels.push(reason);
          resolve();
        };
      });
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const asked = askedIn(await asking.post());
    const { body, headers } = stateless('tools/call', { name: 't', ...retry(asked) }, { capabilities: DECLARED });
    const aborted = new AbortController();
    const lost = fetch(asking.rig.url(), {
      method: 'POST',
      body,
      headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      signal: aborted.signal,
    }).catch(() => null);
    while (asking.rig.downstream.waitingForInput > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await settled();
    aborted.abort();
    await lost;
    while (asking.cancels.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.deepEqual(asking.cancels, ['the client closed the connection']);
    release();
  });

  test('after a restart the call is UNKNOWN, and does not run again', async () => {
    asking.serves(() => [form()]);
    const asked = askedIn(await asking.post());
    const successor = await DownstreamRig.start({
      clock: asking.clock,
      keys: [KEY],
      agents: { ann: null },
      unknownCallers: 'allow',
    });
    try {
      const { body, headers } = stateless('tools/call', { name: 't', ...retry(asked) }, { capabilities: DECLARED });
      const reply = await successor.post(body, headers);
      assert.equal(reply.json.error.code, 53002);
      assert.equal(reply.json.error.data.outcome, 'UNKNOWN');
      assert.equal(successor.core.ran.length, 0);
      const stranger = await DownstreamRig.start({ clock: asking.clock, unknownCallers: 'allow' });
      assert.equal((await stranger.post(body, headers)).json.error.code, -32602, 'a state of another installation');
      await stranger.close();
    } finally {
      await successor.close();
    }
    assert.equal((await asking.post({ params: retry(asked) })).json.result.resultType, 'complete');
  });

  test('while the secret changes, a state sealed by the old key works at a node with the new one', async () => {
    asking.serves(() => [form()]);
    const asked = askedIn(await asking.post());
    const { body, headers } = stateless('tools/call', { name: 't', ...retry(asked) }, { capabilities: DECLARED });
    const next = Buffer.alloc(32, 8);
    const codes: unknown[] = [];
    for (const keys of [[next, KEY], [next]]) {
      const node = await DownstreamRig.start({ clock: asking.clock, keys, unknownCallers: 'allow' });
      codes.push((await node.post(body, headers)).json.error.code);
      await node.close();
    }
    assert.deepEqual(codes, [53002, -32602]);
  });

  test('waiting calls are bounded per principal; above the limit the server’s input request is refused', async () => {
    const pendingInput = new PendingInputRequests({
      clock: asking.clock,
      random: systemRandom,
      sealing: new StateSealer({ key: KEY, clock: asking.clock, random: systemRandom }),
    });
    const principal = { id: 'agent:x', name: 'x', servers: null };
    const list = new ExchangeList();
    const begin = (bytes: number, who = principal): void => {
      const message = request('tools/call', '1', `{"name":"${'t'.repeat(bytes)}"}`, 'stateless');
      const client = { ...asking.rig.core.ran[0]!.client, principal: who };
      const exchange = new ClientExchange(message, client, { ...NO_REPLY });
      list.add(exchange);
      pendingInput.begin(exchange, list, MCP, null);
    };
    for (let i = 0; i < 2_048; i++) begin(1);
    assert.throws(() => begin(1), { code: 'OVERLOADED' });
    const other = { ...principal, id: 'agent:y' };
    begin(1, other);
    assert.throws(() => begin(64 * 1024 * 1024, other), { code: 'OVERLOADED' });
  });

  test('a caller that loses its rights does not get back to its waiting call', async () => {
    asking.serves(() => [form()]);
    const asked = askedIn(await asking.post({ key: 'ann' }));
    asking.rig.reload({ ann: ['memory'], bob: null });
    assert.equal(asking.cancels.length, 1);
    const reply = await asking.post({ key: 'ann', params: retry(asked) });
    assert.equal(reply.json.error.code, 53009);
    asking.rig.reload({ ann: null, bob: null });
  });

  test('a caller that loses its rights does not get an answer that came before, while it was away', async () => {
    const come = Promise.withResolvers<void>();
    asking.rig.core.on('tools/call', async (exchange) => {
      exchange.ask(form()).catch(() => {});
      await come.promise;
      return answer(result('0', '{"content":[],"secret":1}', 'stateful'));
    });
    const asked = askedIn(await asking.post({ key: 'ann' }));
    come.resolve();
    await settled();
    asking.rig.reload({ ann: ['memory'], bob: null });
    asking.rig.reload({ ann: null, bob: null });
    const { error } = (await asking.post({ key: 'ann', params: retry(asked) })).json;
    assert.deepEqual([error?.code, error?.data.outcome], [53009, 'UNKNOWN']);
  });

  test('a call during which its caller lost rights ends when the caller comes back with input', async () => {
    const begun = Promise.withResolvers<void>();
    const asks = Promise.withResolvers<void>();
    asking.rig.core.on('tools/call', async (exchange) => {
      begun.resolve();
      await asks.promise;
      await exchange.ask(form()).catch(() => {});
      return answer(result('0', '{"content":[],"secret":1}', 'stateful'));
    });
    const first = asking.post({ key: 'ann' });
    await begun.promise;
    asking.rig.reload({ ann: ['memory'], bob: null });
    asks.resolve();
    const reply = await asking.post({ key: 'ann', params: retry(askedIn(await first)) });
    asking.rig.reload({ ann: null, bob: null });
    assert.equal(reply.json.error?.code, 53009);
  });

  test('the rights at the node that the client comes back to count at the node of the call', async () => {
    asking.serves(() => [form()]);
    const asked = askedIn(await asking.post({ key: 'ann' }));
    const { client } = asking.rig.core.ran.at(-1)!;
    const { body } = stateless('tools/call', { name: 't', ...retry(asked) }, { capabilities: DECLARED });
    const message = scanMessage(Buffer.from(body), 'stateless', 'strict');
    assert.ok(!isScanFailure(message));
    const narrowed = { ...client, principal: { ...client.principal, servers: new Set(['memory']) } };
    const returned = asking.rig.downstream.returned(new ClientExchange(message, narrowed, NO_REPLY), MCP);
    const outcome = await asking.while(returned);
    assert.ok(outcome.kind === 'failure');
    assert.equal(outcome.error.code, 'ACCESS_DENIED');
    assert.equal(asking.cancels.length, 1);
  });
});

const MCP = { kind: 'aggregate', server: '', path: '/mcp' } as const;
const NO_REPLY = {
  canAsk: true,
  notify: () => {},
  askFor: () => Promise.reject(new Error('not asked')),
  answer: () => {},
  cancelled: () => {},
};
