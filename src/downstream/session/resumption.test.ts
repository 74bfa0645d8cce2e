import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call, DownstreamRig } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { systemClock } from '../../model/clock.ts';
import { notification } from '../../protocol/compose.ts';
import { StateFile } from '../../store/state-file.ts';
import { Logger } from '../../telemetry/logger.ts';

/** Streams that resume (2025-11-25 transports §Resumability), also with another process of the gateway. */

function changed(list: string) {
  return notification(`notifications/${list}/list_changed`, null, 'stateful');
}

/** The internal id of the session that was opened last. */
function newest(rig: DownstreamRig): string {
  return [...rig.downstream.sessions.values()].at(-1)!.id;
}

test('check:B7 the GET stream continues at another process after the event that the client names, without repeats', async () => {
  const state = new StateFile({ path: ':memory:', clock: systemClock, logger: Logger.silent() });
  const first = await DownstreamRig.start({ state });
  const headers = await first.session();
  const id = newest(first);
  const stream = await first.listen(headers);
  await stream.next();
  for (const list of ['tools', 'prompts', 'resources']) first.downstream.deliver(id, changed(list));
  const seen = await stream.next();
  stream.drop();
  await first.close();
  state.flush();

  const second = await DownstreamRig.start({ state });
  const back = await second.listen({ ...headers, 'last-event-id': seen!.id! });
  assert.equal((await back.message()).method, 'notifications/prompts/list_changed');
  const last = await back.next();
  assert.match(last!.data, /resources\/list_changed/);
  second.downstream.deliver(id, changed('tools'));
  const fresh = await back.next();
  assert.match(fresh!.data, /tools\/list_changed/);
  assert.notEqual(fresh!.id, last!.id);
  // A second stream of the session gets none of it.
  const other = await second.listen(headers);
  second.downstream.deliver(id, changed('prompts'));
  assert.equal((await other.message()).method, 'notifications/prompts/list_changed');
  back.drop();
  other.drop();
  await second.close();
  state.close();
});

test('check:B7 every revision gets a retry time; only the latest gets an event before the first message', async () => {
  const rig = await DownstreamRig.start({ patienceMs: 50 });
  rig.core.on('tools/call', (exchange) => {
    exchange.emit(notification('notifications/progress', '{"progressToken":1,"progress":1}', 'stateful'));
    return ok(exchange, '{}');
  });
  for (const revision of ['2025-03-26', '2025-06-18', '2025-11-25']) {
    const headers = await rig.session({ revision });
    const answer = await rig.stream(call(1, 'tools/call', { name: 't' }), headers);
    const firstOf = await answer.next();
    assert.equal(firstOf!.data === '', revision === '2025-11-25', revision);
    assert.deepEqual(answer.retries, [1_000], revision);
    const stream = await rig.listen(headers);
    rig.downstream.deliver(newest(rig), changed('tools'));
    const first = await stream.next();
    assert.equal(first!.data === '', revision === '2025-11-25', revision);
    assert.deepEqual(stream.retries, [1_000], revision);
    assert.ok(first!.id);
    stream.drop();
  }
  await rig.close();
});
