import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import type { EventReader } from '../../../test/support/raw-http.ts';
import { systemClock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { SessionRecord } from '../../model/ports.ts';
import { notification } from '../../protocol/compose.ts';
import { SqliteSessionRecords } from '../../store/remembered.ts';
import { StateFile } from '../../store/state-file.ts';
import { Logger } from '../../telemetry/logger.ts';

/** Each client gets the log messages of servers that it asked for, and no others. */

const LEVEL = 'io.modelcontextprotocol/logLevel';

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start({ patienceMs: 60_000 });
  rig.core.on('tools/call', async (exchange) => {
    const { era } = exchange.request;
    for (const level of ['debug', 'info', 'error', 'odd']) exchange.emit(logged(level, era));
    exchange.emit(notification('notifications/progress', '{"progressToken":1,"progress":1}', era));
    return ok(exchange, '{}');
  });
  rig.core.on('logging/setLevel', async (exchange) => ok(exchange, '{}'));
});
after(() => rig.close());

function logged(level: string, era: Message['era'] = 'stateful'): Message {
  return notification('notifications/message', `{"level":"${level}","data":1.0}`, era);
}

/** The levels of the log messages up to the answer. */
async function heard(stream: EventReader): Promise<string[]> {
  const levels: string[] = [];
  for (;;) {
    const message = await stream.message();
    if (message.method === 'notifications/message') levels.push(message.params.level);
    if (message.id !== undefined) return levels;
  }
}

test('check:B13 a stateless request gets only the log messages that its own `_meta` requests', async () => {
  const run = async (level: string | null) => {
    const meta = level === null ? {} : { meta: { [LEVEL]: level } };
    const { body, headers } = stateless('tools/call', { name: 't' }, meta);
    return heard(await rig.stream(body, headers));
  };
  assert.deepEqual(await run(null), []);
  assert.deepEqual(await run('info'), ['info', 'error', 'odd']);
  assert.deepEqual(await run('emergency'), ['odd']);
});

test('check:B13 a session gets the messages of its level, in calls and outside of them, and all if it set none', async () => {
  const headers = await rig.session();
  const { id } = [...rig.downstream.sessions.values()].at(-1)!;
  const run = async () => heard(await rig.stream(call(1, 'tools/call', { name: 't' }), headers));
  assert.deepEqual(await run(), ['debug', 'info', 'error', 'odd']);
  await rig.post(call(2, 'logging/setLevel', { level: 'error' }), headers);
  await rig.post(call(3, 'logging/setLevel', { level: 'loud' }), headers);
  assert.deepEqual(await run(), ['error', 'odd']);
  const stream = await rig.listen(headers);
  rig.downstream.deliver(id, logged('info'));
  rig.downstream.deliver(id, logged('error'));
  let message = await stream.message();
  while (message.method === undefined) message = await stream.message();
  assert.equal(message.params.level, 'error');
  stream.drop();
});

test('check:B13 check:C5 a session keeps its level when another process continues it', async () => {
  const headers = await rig.session();
  await rig.post(call(1, 'logging/setLevel', { level: 'warning' }), headers);
  const records = new SqliteSessionRecords(rig.store);
  assert.equal((await records.get([...rig.downstream.sessions.values()].at(-1)!.id))?.logLevel, 'warning');
});

/** Sessions that other nodes know when the test says so. */
class SharedRecords extends SqliteSessionRecords {
  readonly asked = Promise.withResolvers<void>();
  readonly taken = Promise.withResolvers<void>();

  putEverywhere(record: SessionRecord): Promise<void> {
    this.put(record);
    this.asked.resolve();
    return this.taken.promise;
  }
}

test('a level is sent to no server if the session ends before other nodes have taken the level', async (t) => {
  const state = new StateFile({ path: ':memory:', clock: systemClock, logger: Logger.silent() });
  t.after(() => state.close());
  const records = new SharedRecords(state);
  const node = await DownstreamRig.start({ state, records });
  t.after(() => node.close());
  const headers = await node.session();
  const [session] = node.downstream.sessions.values();
  const reply = node.post(call(1, 'logging/setLevel', { level: 'error' }), headers);
  await records.asked.promise;
  node.downstream.sessions.end(session!, 'ended by the operator');
  records.taken.resolve();
  await Promise.allSettled([reply]);
  assert.deepEqual(node.core.ran, []);
});
