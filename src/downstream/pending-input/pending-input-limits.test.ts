import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AskingRig, askedIn, DECLARED, KEY, PAGE, retry } from '../../../test/support/asking-rig.ts';
import { DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { agent, client, MCP } from '../../../test/support/gateway-bench.ts';
import { StateSealer } from '../../gateway/sealer.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { errorAnswer, request } from '../../protocol/compose.ts';
import { ClientExchange, ExchangeList, type Reply } from '../session/client-exchange.ts';
import { PendingInputRequests } from './pending-input-requests.ts';

const PAGES = `{"elicitations":[${PAGE}]}`;

test('a state from before a restart makes no call, at its first use and at its second', async () => {
  const asking = await AskingRig.start();
  asking.rig.core.on('tools/call', () => answer(errorAnswer('0', -32042, 'needs you', PAGES, 'stateful')));
  const asked = askedIn(await asking.post());
  const successor = await DownstreamRig.start({ clock: asking.clock, keys: [KEY], unknownCallers: 'allow' });
  try {
    const { body, headers } = stateless('tools/call', { name: 't', ...retry(asked) }, { capabilities: DECLARED });
    for (let i = 0; i < 2; i++) assert.equal((await successor.post(body, headers)).json.error?.code, -32602);
    assert.equal(successor.core.ran.length, 0);
  } finally {
    await successor.close();
    await asking.rig.close();
  }
});

/** Pending input requests, and the last answer to their clients. */
function lotted() {
  const clock = new FakeClock();
  const sealing = new StateSealer({ key: KEY, clock, random: systemRandom });
  const pendingInput = new PendingInputRequests({ clock, random: systemRandom, sealing });
  let last: Outcome | null = null;
  const reply: Reply = {
    canAsk: true,
    notify: () => {},
    askFor: () => Promise.reject(new Error('not asked here')),
    answer: (_exchange, outcome) => {
      last = outcome;
    },
    cancelled: () => {},
  };
  const exchange = (params: object, profile: ClientProfile) =>
    new ClientExchange(
      request('tools/call', '1', JSON.stringify({ name: 't', ...params }), 'stateless'),
      profile,
      reply,
    );
  const asked = () => {
    assert.ok(last?.kind === 'answer');
    return JSON.parse(last.message.body.toString()) as { inputRequests: object; requestState: string };
  };
  return { clock, pendingInput, exchange, asked };
}

const ADA = client('stateless', { principal: agent('ada'), capabilities: JSON.stringify(DECLARED) });
const BOB = { ...ADA, principal: agent('bob') };

test('an input request takes memory only until it is answered, however many the call sends', async () => {
  const { clock, pendingInput, exchange, asked } = lotted();
  const call = exchange({}, ADA);
  const list = new ExchangeList();
  list.add(call);
  pendingInput.begin(call, list, MCP, null);
  const params = JSON.stringify({ maxTokens: 1, messages: ['x'.repeat(4 * 1024 * 1024)] });
  for (let round = 0; round < 20; round++) {
    const answered = call.ask(request('sampling/createMessage', `"${round}"`, params, 'stateful'));
    await clock.advance(5);
    const attached = exchange(retry(asked() as never), ADA);
    const returning = pendingInput.matchRetry(attached.request, ADA.principal, MCP, null);
    assert.ok(returning?.kind === 'resumes', `round ${round}`);
    returning.call.attach(attached, returning.responses);
    await answered;
  }
});

test('states of clients that open pages are limited per principal, and leave no timer after their end', async () => {
  const { clock, pendingInput, exchange, asked } = lotted();
  const before = clock.pending;
  const questions = Buffer.from('{"ask1":{"method":"elicitation/create"}}');
  const sent = (profile: ClientProfile) => {
    const begun = exchange({}, profile);
    begun.finish(answer(pendingInput.requireInputForRerun(begun, MCP, questions)));
    return exchange(retry(asked() as never), profile);
  };
  for (let i = 0; i < 10; i++) {
    const attached = sent(ADA);
    assert.equal(pendingInput.matchRetry(attached.request, ADA.principal, MCP, null)?.kind, 'again');
  }
  assert.equal(clock.pending, before);
  for (let i = 0; i < 2_048; i++) sent(ADA);
  assert.throws(() => sent(ADA), { code: 'OVERLOADED' });
  sent(BOB);
  await clock.advance(10 * 60_000);
  await settled();
  assert.equal(clock.pending, before);
  sent(ADA);
});

test('a retry with fewer capabilities gets only the input requests that these allow', async () => {
  const { clock, pendingInput, exchange, asked } = lotted();
  const call = exchange({}, ADA);
  const list = new ExchangeList();
  list.add(call);
  pendingInput.begin(call, list, MCP, null);
  const sampled = call.ask(request('sampling/createMessage', '"s"', '{"maxTokens":1}', 'stateful'));
  const refused = assert.rejects(sampled, { code: 'MISSING_CAPABILITY' });
  const listed = call.ask(request('roots/list', '"r"', null, 'stateful'));
  await clock.advance(5);
  const { requestState } = asked();
  const attached = exchange({ requestState }, { ...ADA, capabilities: '{"roots":{}}' });
  const returning = pendingInput.matchRetry(attached.request, ADA.principal, MCP, null);
  assert.ok(returning?.kind === 'resumes');
  returning.call.attach(attached, returning.responses);
  await clock.advance(5);
  assert.deepEqual(Object.values(asked().inputRequests), [{ method: 'roots/list', params: {} }]);
  await refused;
  call.finish(answer(errorAnswer('0', -1, 'over', null, 'stateful')));
  await assert.rejects(listed, { code: 'CANCELLED' });
});

test('large input requests of a caller leave room for those of others, and free their memory at the end', async () => {
  const { pendingInput, exchange } = lotted();
  const params = JSON.stringify({ maxTokens: 1, messages: ['x'.repeat(4 * 1024 * 1024)] });
  const over = answer(errorAnswer('0', -1, 'over', null, 'stateful'));
  const begun = (profile: ClientProfile) => {
    const call = exchange({}, profile);
    const list = new ExchangeList();
    list.add(call);
    pendingInput.begin(call, list, MCP, null);
    return call;
  };
  /** How many of a call's input requests are accepted. */
  const asks = async (call: ClientExchange): Promise<number> => {
    let refused = 0;
    const all = Array.from({ length: 16 }, (_, i) =>
      call.ask(request('sampling/createMessage', `"${i}"`, params, 'stateful')),
    );
    for (const one of all) one.catch((error: { code: string }) => error.code === 'OVERLOADED' && refused++);
    await settled();
    return all.length - refused;
  };
  for (let round = 0; round < 3; round++) {
    const calls = [begun(ADA), begun(BOB)];
    assert.deepEqual([await asks(calls[0]!), await asks(calls[1]!)], [7, 7]);
    for (const call of calls) call.finish(over);
    await settled();
  }
});
