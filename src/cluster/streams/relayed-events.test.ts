import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callOf, onNodes, serverNamed } from '../../../test/support/cluster-bench.ts';
import { RecordedEvents } from '../../../test/support/played-upstreams.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { request } from '../../protocol/compose.ts';
import type { ConsumerNodes } from '../nodes/consumer-nodes.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { OwnAdvertisement } from '../nodes/own-advertisement.ts';
import { RelayedEvents } from './relayed-events.ts';
import type { SideMessages } from './side-messages.ts';

const QUESTION = request('roots/list', '7', null, 'stateful');

/** Clients of this node that never answer. */
class SilentClients extends RecordedEvents {
  asked = 0;

  override request(): Promise<Message> {
    this.asked++;
    return new Promise(() => {});
  }
}

test('questions to clients of another node are relayed while earlier ones are unanswered', () =>
  onNodes(async (nodes) => {
    const clients = new SilentClients();
    const a = await nodes.join('a', [], { events: clients });
    const b = await nodes.join('b', [serverNamed('memory')]);
    await nodes.until(callOf(a, 'memory'));
    for (let at = 0; at < 300; at++) void b.cluster.events.request('memory', 's1', QUESTION, 'key');
    await nodes.pass(100);
    assert.equal(clients.asked, 300);
  }));

test('a question that did not reach the client fails with its reason, not as a method that the client does not know', async () => {
  const answerTo = async (error: Error): Promise<{ readonly code: number; readonly message: string }> => {
    const events = new RelayedEvents(
      new RecordedEvents(),
      { holderOf: () => 'b' } as unknown as ConsumerNodes,
      { ask: () => Promise.reject(error) } as unknown as SideMessages,
      {} as KnownServers,
      {} as OwnAdvertisement,
    );
    return JSON.parse((await events.request('memory', 's1', QUESTION, 'key')).bytes.toString()).error;
  };
  const { code, message } = await answerTo(new GatewayError('OVERLOADED', 'too many questions'));
  assert.deepEqual([code, message], [53_004, 'too many questions']);
  assert.equal((await answerTo(new TypeError('a defect'))).code, -32_603);
});
