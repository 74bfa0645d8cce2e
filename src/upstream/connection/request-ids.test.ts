import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Refusal,
  type ScriptedServer,
  type ScriptedTransport,
  type Seen,
  SILENCE,
  statefulScript,
} from '../../../test/support/scripted-server.ts';
import { stillRandom } from '../../../test/support/still-random.ts';
import {
  answerText,
  clientOf,
  httpServerOf,
  Remembered,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { systemRandom } from '../../model/random.ts';

const INT32_MAX = 2 ** 31 - 1;

/** The ids of all requests that reached the server, in order of arrival. */
function idsAt({ links }: ScriptedServer): number[] {
  return links.flatMap(({ seen }) =>
    seen.flatMap(({ id, method }) => (method !== undefined && typeof id === 'number' ? [id] : [])),
  );
}

test('check:B4 the ids of 10,000 calls, over three processes that continue one session, are all different and in no order', async () => {
  const script = statefulScript();
  const { initialize } = script.handlers;
  script.handlers['initialize'] = (params, link, id) => {
    link.sessionId('upstream');
    return initialize!(params, link, id);
  };
  const remembered = new Remembered();
  for (const calls of [5_000, 3_000, 2_000]) {
    const bench = new UpstreamBench({ remembered, random: systemRandom });
    await bench.run([httpServerOf('a'), script]);
    for (let i = 0; i < calls; i++) answerText(await bench.call('a', toolCall(clientOf('one'))));
    await bench.set.close('shutdown');
  }
  assert.equal(script.links.filter((link) => link.count('initialize') > 0).length, 1);
  const ids = idsAt(script);
  assert.ok(ids.length > 10_000);
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(ids.every((id) => Number.isSafeInteger(id) && id > 0 && id < 1e14));
  let rising = 0;
  for (let i = 1; i < ids.length; i++) {
    const step = ids[i]! - ids[i - 1]!;
    // By chance, one step in seven million would be so short.
    assert.ok(Math.abs(step) > 1, `${ids[i]} follows ${ids[i - 1]}`);
    if (step > 0) rising++;
  }
  assert.ok(Math.abs(rising / ids.length - 0.5) < 0.05, `${rising} of ${ids.length} are above the one before`);
  // No part of an id is a counter.
  const texts = ids.map(String);
  for (let at = 0; at < 14; at++) {
    const firstOfPart = at === 0 || at === 5;
    for (const digit of '0123456789'.slice(firstOfPart ? 1 : 0)) {
      const share = texts.filter((text) => text[at] === digit).length / texts.length;
      assert.ok(Math.abs(share - (firstOfPart ? 1 / 9 : 1 / 10)) < 0.02, `digit ${at} is ${digit} in ${share}`);
    }
  }
});

test('check:B4 an id in use is not issued again', async () => {
  const script = statefulScript();
  script.handlers['tools/call'] = () => SILENCE;
  let drawn = 0;
  // Each number is drawn several times.
  const bench = new UpstreamBench({ random: { ...stillRandom(), below: () => Math.floor(drawn++ / 5) } });
  await bench.run([serverOf('a'), script]);
  const calls = Array.from({ length: 3 }, () => bench.call('a', toolCall(clientOf('one'))));
  await new Promise(setImmediate);
  const ids = script.links.flatMap(({ seen }) =>
    seen.filter(({ method }) => method === 'tools/call').map(({ id }) => id),
  );
  assert.equal(ids.length, 3);
  assert.equal(new Set(ids).size, 3);
  await bench.set.close('shutdown');
  await Promise.all(calls);
});

/** The server as one that keeps 32 bits of every id, as servers made with rmcp before 0.6.3 do. */
function cutting(script: ScriptedServer): ScriptedServer {
  const open = script.open.bind(script);
  script.open = (...how) => {
    const link = open(...how);
    const deliver = link.deliver.bind(link);
    link.deliver = (message, stream) => {
      const { id, method } = message as Seen;
      deliver(method === undefined ? { ...(message as Seen), id: Number(id) % 2 ** 32 } : message, stream);
    };
    return link;
  };
  return script;
}

for (const server of [serverOf('a'), httpServerOf('a')]) {
  test(`check:B4 a server behind ${server.transport.type} that cuts ids to 32 bits gets ids that it can keep`, async () => {
    const script = cutting(statefulScript());
    const bench = new UpstreamBench({ random: systemRandom });
    await bench.run([server, script]);
    for (let i = 0; i < 20; i++) answerText(await bench.call('a', toolCall(clientOf('one'))));
    const short = script.links.flatMap(({ seen }) =>
      seen.filter(({ method }) => method === 'tools/call').map(({ id }) => Number(id)),
    );
    assert.equal(short.length, 20);
    assert.ok(short.every((id) => id > 0 && id <= INT32_MAX));
    assert.ok(new Set(short).size === 20 && short.some((id) => id > 2 ** 20), 'and still random');
    await bench.set.close('shutdown');
  });
}

test('check:B4 a server on a pipe that ends at an id of more than 32 bits starts at the second attempt', async () => {
  const script = statefulScript();
  const { initialize } = script.handlers;
  const refuse = (link: ScriptedTransport, id: number): boolean => {
    if (id > INT32_MAX) link.end();
    return id > INT32_MAX;
  };
  script.handlers['initialize'] = (params, link, id) => (refuse(link, id) ? SILENCE : initialize!(params, link, id));
  script.handlers['server/discover'] = (_params, link, id) =>
    refuse(link, id) ? SILENCE : new Refusal(-32601, 'Method not found');
  const bench = new UpstreamBench({ random: systemRandom });
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  for (let i = 0; i < 20; i++) await bench.clock.advance(5_000);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  await bench.set.close('shutdown');
});
