import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import {
  agent,
  BenchExchange,
  client,
  FakeUpstreams,
  serverNamed,
  UNPINNED,
} from '../../../test/support/gateway-bench.ts';
import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { request, result } from '../../protocol/compose.ts';
import { Guards } from '../drift/guards.ts';
import { Policies } from '../policy/policies.ts';
import { StateSealer } from '../sealer.ts';
import { Dispatch } from './dispatch.ts';
import { InputStates } from './input-states.ts';

const HOUR = 60 * 60_000;
/** A state that any rewriting would change: escapes, a number beyond doubles, a surrogate pair. */
const STATE = '"a\\u002fb\\/\\ud83d\\ude00 12345678901234567890 é"';
const ASKS = `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list","x":1.0}},"requestState":${STATE},"v":-0}`;

class Sealing extends BenchExchange {
  readonly sealsInput = true;
}

function bench() {
  const clock = new FakeClock(Date.UTC(2026, 7, 1));
  const upstreams = new FakeUpstreams(clock);
  upstreams.list = ['a', 'b'].map((name) => serverNamed(name));
  upstreams.respond = () => answer(result('9', ASKS, 'stateless'));
  const sealer = new StateSealer({ key: Buffer.alloc(32, 3), clock, random: systemRandom });
  const policies = new Policies({ upstreams, clock, guards: new Guards(UNPINNED, upstreams) });
  const dispatch = new Dispatch({
    upstreams,
    known: upstreams,
    policies,
    states: new InputStates(sealer, clock),
    tracer: null,
    clock,
  });
  const call = (params: string, principal: Principal = ANONYMOUS, server = 'a', method = 'tools/call') => {
    const message = request(method, '1', params, 'stateless');
    return dispatch.callServer(server, message, new Sealing(message, client('stateless', { principal })));
  };
  return { clock, upstreams, dispatch, call };
}

function answered(outcome: Outcome): Message {
  assert.ok(outcome.kind === 'answer', outcome.kind === 'failure' ? outcome.error.message : '');
  return outcome.message;
}

const stateIn = (outcome: Outcome): string => JSON.parse(answered(outcome).body.toString()).requestState;

describe('proto:S3 proto:S6 check:D4 the state of a stateless server on its way through clients', () => {
  test('is sealed, and returns to its server byte for byte; nothing else of the messages changes', async () => {
    const { upstreams, call } = bench();
    const first = await call('{"name":"t","arguments":{"n":1.0}}');
    const sealed = stateIn(first);
    assert.equal(answered(first).body.toString(), ASKS.replace(STATE, JSON.stringify(sealed)));
    assert.ok(!Buffer.from(sealed.split('.')[1]!, 'base64url').includes('12345678901234567890'));
    await call(
      `{"name":"t","inputResponses":{"k":{"z":-0}},"requestState":"${sealed}","arguments":{"n":1.0},"_meta":{"p":2}}`,
    );
    assert.equal(
      upstreams.calls[1]!.request.body.toString(),
      `{"name":"t","inputResponses":{"k":{"z":-0}},"requestState":${STATE},"arguments":{"n":1.0},"_meta":{"p":2}}`,
    );
    assert.notEqual(stateIn(await call('{"name":"t","arguments":{"n":1.0}}')), sealed);
  });

  test('may be sent again: its server decides whether it is valid twice', async () => {
    const { call, upstreams } = bench();
    const sealed = stateIn(await call('{"name":"t"}'));
    for (let i = 0; i < 2; i++) answered(await call(`{"name":"t","requestState":"${sealed}"}`));
    assert.equal(upstreams.calls.length, 3);
  });

  test('is refused with -32602 when altered, foreign or expired, and the server gets no request', async () => {
    const { call, upstreams, clock } = bench();
    const ann = agent('ann', 'a', 'b');
    const sealed = stateIn(await call('{"name":"t"}', ann));
    const flipped = sealed.slice(0, -4) + (sealed.at(-4) === 'A' ? 'B' : 'A') + sealed.slice(-3);
    const bad: [string, Promise<Outcome>][] = [
      ['tampered', call(`{"name":"t","requestState":"${flipped}"}`, ann)],
      ['not sealed', call(`{"name":"t","requestState":"plain"}`, ann)],
      ['no string', call(`{"name":"t","requestState":5}`, ann)],
      ['principal', call(`{"name":"t","requestState":"${sealed}"}`, agent('bob', 'a', 'b'))],
      ['anonymous', call(`{"name":"t","requestState":"${sealed}"}`)],
      ['server', call(`{"name":"t","requestState":"${sealed}"}`, ann, 'b')],
      ['tool', call(`{"name":"u","requestState":"${sealed}"}`, ann)],
      ['arguments', call(`{"name":"t","arguments":{},"requestState":"${sealed}"}`, ann)],
      ['method', call(`{"name":"t","requestState":"${sealed}"}`, ann, 'a', 'prompts/get')],
    ];
    for (const [what, outcome] of bad) {
      const ended = await outcome;
      assert.ok(ended.kind === 'failure' && ended.error.code === 'INVALID_PARAMS', what);
    }
    assert.equal(upstreams.calls.length, 1);
    await clock.advance(HOUR);
    const late = await call(`{"name":"t","requestState":"${sealed}"}`, ann);
    assert.ok(late.kind === 'failure' && late.error.code === 'INVALID_PARAMS');
    assert.equal(upstreams.calls.length, 1);
  });

  test('passes unchanged where the exchange needs no seal', async () => {
    const { dispatch, upstreams } = bench();
    const message = request('tools/call', '1', `{"name":"t","requestState":${STATE}}`, 'stateless');
    const outcome = await dispatch.callServer('a', message, new BenchExchange(message, client('stateless')));
    assert.equal(upstreams.calls[0]!.request, message);
    assert.equal(answered(outcome).body.toString(), ASKS);
  });

  test('a result that only mentions input, and one without a state, pass unchanged', async () => {
    const { call, upstreams } = bench();
    for (const body of [
      '{"resultType":"complete","content":[],"requestState":"input_required"}',
      '{"resultType":"input_required","inputRequests":{}}',
    ]) {
      upstreams.respond = () => answer(result('9', body, 'stateless'));
      assert.equal(answered(await call('{"name":"t"}')).body.toString(), body);
    }
  });
});

describe('S2.28 dispatch checks the access of a caller to a server', () => {
  const send = async (method: string, principal: Principal) => {
    const { upstreams, dispatch } = bench();
    const message = request(method, '1', '{"uri":"test://a"}', 'stateful');
    const outcome = await dispatch.callServer(
      'a',
      message,
      new BenchExchange(message, client('stateful', { principal })),
    );
    return { outcome, sent: upstreams.calls.length };
  };

  test('a caller without the right cannot reach the server with any method', async () => {
    for (const method of ['tools/call', 'resources/read', 'resources/subscribe', 'tasks/get', 'x/unknown']) {
      const { outcome, sent } = await send(method, agent('other', 'b'));
      assert.equal(outcome.kind === 'failure' && outcome.error.code, 'ACCESS_DENIED', method);
      assert.equal(sent, 0, method);
      assert.equal((await send(method, agent('mine', 'a'))).sent, 1, method);
    }
  });

  test('a caller that lost the right can still unsubscribe and cancel tasks', async () => {
    for (const method of ['resources/unsubscribe', 'tasks/cancel']) {
      assert.equal((await send(method, agent('other', 'b'))).sent, 1, method);
    }
  });
});
