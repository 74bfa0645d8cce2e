import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bus, BusServing, ServingHandler } from '../../bus/bus.ts';
import type { ControlPlane, SendStep } from '../../control/control-plane.ts';
import { Logger } from '../../telemetry/logger.ts';
import { askPeer, serveNodes } from './control-of-nodes.ts';

const SECRET = 'a-secret-of-the-node-that-is-asked';

/** The answer of a node to this operation; `serving` has further members of the request. */
async function served(plane: object, operation: string, query = '', serving: object = {}): Promise<string> {
  const logger = Logger.silent();
  logger.addSecret(SECRET);
  const handlers: ServingHandler[] = [];
  const bus = {
    serve(_name: string, given: ServingHandler) {
      handlers.push(given);
    },
  } as unknown as Bus;
  serveNodes(bus, plane as ControlPlane, logger);
  let answered = '';
  const request = { operation, name: 's', query, body: '{"method":"ping","revision":"2025-11-25"}' };
  const common = { payload: Buffer.from(JSON.stringify(request)) };
  const answer = (parts: readonly Buffer[]): void => {
    answered = parts.join('');
  };
  await handlers[0]!(Object.assign(serving, common, { answer }) as unknown as BusServing);
  return answered;
}

test('secrets are redacted in the answers of a node to another node, except in answers of tools', async () => {
  const tool = { definition: JSON.stringify({ name: 't', description: SECRET }) };
  const plane = {
    tools: { list: async () => ({ tools: [tool], notOffered: [] }) },
    upstreams: { status: () => ({}) },
    callTool: async () => Buffer.from(SECRET),
  };
  assert.match(await served(plane, 'listTools'), /^200\n\{"tools":.*\[redacted\]/);
  assert.equal(await served(plane, 'callTool', 'tool=t'), `200\n${SECRET}`);
});

test('steps of a call that the other node cannot take yet are dropped, except required ones', async () => {
  const emitted: string[] = [];
  const serving = {
    onDrain: null as (() => void) | null,
    emit(step: Buffer) {
      emitted.push(step.toString().trim());
      return false;
    },
  };
  const playground = {
    async run(_body: Buffer, _gone: AbortSignal, sendStep: SendStep) {
      sendStep('1');
      sendStep('2');
      sendStep('3', true);
      sendStep('4');
      serving.onDrain?.();
      sendStep('5');
      return 'last';
    },
  };
  assert.equal(await served({ playground }, 'play', '', serving), '200\nlast');
  assert.deepEqual(emitted, ['1', '3', '5']);
});

test('calls, replays and restarts have a deadline of at least two hours, not of two minutes', () => {
  const deadlineOf = (operation: string): number => {
    let deadline = 0;
    const bus = {
      call(_name: string, _payload: Buffer, { deadlineMs }: { deadlineMs: number }) {
        deadline = deadlineMs;
        return { outcome: new Promise(() => {}) };
      },
    } as unknown as Bus;
    askPeer(bus, 'peer', { operation, name: '', query: '', body: '' });
    return deadline;
  };
  for (const operation of ['callTool', 'replayRecording', 'restartServer']) {
    assert.ok(deadlineOf(operation) >= 7_200_000, operation);
  }
  assert.equal(deadlineOf('listTools'), 120_000);
});
