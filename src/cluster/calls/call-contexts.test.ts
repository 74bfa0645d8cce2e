import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestExchange } from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import type { Bus, BusCall, Payload } from '../../bus/bus.ts';
import { result } from '../../protocol/compose.ts';
import { SHORT_FORM } from '../frames/frame.ts';
import type { NodeView } from '../nodes/node-state.ts';
import { OutgoingContexts } from './call-contexts.ts';
import { RemoteCalls } from './remote-calls.ts';
import { packAnswer, packResendContext, unpackRequest } from './short-form.ts';

const NODE: NodeView = {
  id: 'b',
  peer: 'peer-b',
  state: 'ready',
  protocols: [1, 2],
  version: '',
  epoch: '1.7',
  offer: 1,
  load: 0,
  startedAt: 0,
  forms: SHORT_FORM,
};

test('the text of a context is kept only while a call sends it, however the call ends', async (t) => {
  const given = t.mock.method(OutgoingContexts.prototype, 'of');
  const answers: (Buffer | null)[] = [];
  const sent: string[] = [];
  const calls = new RemoteCalls(busOf(sent, answers));
  const exchange = new TestExchange();
  const call = () => calls.run(NODE, 'memory', exchange.request, exchange, null, 0, 1_000);
  const latest = () => given.mock.calls.at(-1)!.result!;
  const well = Buffer.concat(packAnswer(result('7', '{}', 'stateful'), 'key', true)!);
  const first = call();
  assert.ok(latest().text!.length > 0);
  await first;
  assert.deepEqual([latest().text, latest().known], [null, false], 'no node answered');
  answers.push(well, well, packResendContext(), well);
  await call();
  assert.deepEqual([latest().text, latest().known], [null, true]);
  await call();
  // The node has forgotten the context: the caller serializes it again, to the same text.
  await call();
  assert.deepEqual([latest().text, latest().known], [null, true]);
  assert.deepEqual(
    sent.map((text) => text !== ''),
    [true, true, false, false, true],
  );
  assert.equal(new Set(sent.filter((text) => text !== '')).size, 1);
  assert.deepEqual(JSON.parse(sent[0]!).client, clientOf('s1'));
});

/** A bus that returns these answers in order, then failures. `sent` collects the context of each call. */
function busOf(sent: string[], answers: (Buffer | null)[]): Bus {
  const call = (_subject: string, payload: Payload): BusCall => {
    sent.push(unpackRequest(Buffer.concat(payload as Buffer[]))!.context);
    const answer = answers.shift();
    const error = { code: 'UNKNOWN', message: 'no answer', data: {}, outcome: 'UNKNOWN' };
    const outcome = answer == null ? { kind: 'failure', error } : { kind: 'result', payload: answer };
    return { outcome: Promise.resolve(outcome) } as unknown as BusCall;
  };
  return { call } as unknown as Bus;
}
