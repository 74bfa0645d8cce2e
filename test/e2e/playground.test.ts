import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { REVISIONS } from '../../src/model/message.ts';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import { answerIn, endOf, play } from '../support/playing.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const EVERYTHING = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js');
const MATRIX = resolve(import.meta.dirname, '../fixtures/matrix/stdio.ts');
const ENDLESS = resolve(import.meta.dirname, '../fixtures/endless-input.mjs');
const KEY = 'a-key-of-an-agent-1';

const tool = (name: string, args: object = {}) => ({ method: 'tools/call', params: { name, arguments: args } });
const ANSWERS = {
  'elicitation/create': { result: { action: 'accept', content: { said: 'by form' } } },
  'sampling/createMessage': {
    result: { role: 'assistant', model: 'person', content: { type: 'text', text: 'by a person' } },
  },
  'roots/list': { result: { roots: [] } },
};

describe('the playground', () => {
  let gateway: RunningGateway;
  before(async () => {
    gateway = await RunningGateway.start({
      config: {
        mcpServers: {
          side: manySided('side'),
          everything: { command: process.execPath, args: [EVERYTHING] },
          endless: { command: process.execPath, args: [ENDLESS] },
          modern: { command: process.execPath, args: [MATRIX, '2026-07-28'] },
        },
        agents: { narrow: { key: KEY, servers: ['side'] } },
      },
    });
    await gateway.ready('side', 'everything', 'modern', 'endless');
  });
  after(() => gateway.dispose());

  test('a call in each revision sends the messages of a client of that revision and gets its answer', async () => {
    for (const revision of REVISIONS) {
      const steps = await play(gateway, { ...tool('side__echo', { text: 'hallo' }), revision });
      assert.equal(answerIn(steps).result.content[0].text, 'hallo', revision);
      assert.deepEqual(endOf(steps), { outcome: 'RESULT', reason: null });
      const sent = steps.flatMap((step) => (step.sent === undefined ? [] : [step.sent]));
      const methods = sent.map(({ method }: Json) => method);
      const stateless = revision === '2026-07-28';
      assert.deepEqual(methods, stateless ? ['tools/call'] : ['initialize', 'notifications/initialized', 'tools/call']);
      const claimed = stateless
        ? sent[0].params._meta['io.modelcontextprotocol/protocolVersion']
        : steps.find(({ received }) => received?.id === 0)!.received.result.protocolVersion;
      assert.equal(claimed, revision);
      assert.equal(answerIn(steps).result.resultType, stateless ? 'complete' : undefined);
    }
  });

  test('the playground cancels a call whose server asks more than eight times', async () => {
    for (const silent of [true, false]) {
      const call = { ...tool('endless__more', { silent }), revision: '2026-07-28' };
      const steps = await play(gateway, call, ANSWERS);
      assert.equal(endOf(steps).outcome, 'CANCELLED');
      assert.match(endOf(steps).reason, /more than 8 rounds/);
      assert.equal(steps.filter(({ sent }) => sent?.method === 'tools/call').length, 9);
    }
  });

  test('numbers pass to the digit, in the arguments and in what is shown', async () => {
    const token = '12345678901234567890';
    const body = `{"method":"tools/call","revision":"2025-11-25","params":{"name":"side__echo","arguments":{"n":${token}}}}`;
    const shown: string[] = [];
    const raw = await rawPlay(gateway, body);
    for (const [, data] of raw.matchAll(/^data: ?(.+)$/gm)) if (data!.includes('"sent"')) shown.push(data!);
    assert.ok(shown.at(-1)!.includes(`{"n":${token}}`));
  });

  test('progress, elicitation and sampling of a real server are seen and answered, in both eras', async () => {
    for (const revision of ['2025-11-25', '2026-07-28']) {
      const long = { duration: 1, steps: 2 };
      const steps = await play(gateway, { ...tool('everything__trigger-long-running-operation', long), revision });
      const progress = steps.filter(({ received }) => received?.method === 'notifications/progress');
      assert.ok(progress.length > 0, `progress in ${revision}`);
      const asked = await play(gateway, { ...tool('everything__trigger-elicitation-request'), revision }, ANSWERS);
      assert.ok(asked.some(({ question }) => question?.params.requestedSchema !== undefined));
      assert.match(JSON.stringify(answerIn(asked).result), /provided the requested information|by form/);
      const sampled = await play(
        gateway,
        { ...tool('everything__trigger-sampling-request', { prompt: 'x' }), revision },
        ANSWERS,
      );
      assert.match(JSON.stringify(answerIn(sampled).result), /by a person/);
    }
  });

  test('a server of 2026-07-28 asks several questions at once, and a stateful client answers each', async () => {
    for (const revision of ['2025-11-25', '2026-07-28']) {
      const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
      const body = { ...tool('modern__everything', { text: 'who' }), revision, capabilities };
      const steps = await play(gateway, body, ANSWERS);
      assert.equal(steps.filter(({ question }) => question !== undefined).length, 3, revision);
      const { first, second } = JSON.parse(answerIn(steps).result.content[0].text);
      assert.equal(first.content.text, 'by a person');
      assert.deepEqual(second.content, { said: 'by form' });
    }
  });

  test('a cancelled call is cancelled at its server', async () => {
    const steps = await play(
      gateway,
      { ...tool('modern__hold', { key: 'k' }), revision: '2025-11-25' },
      {},
      (step, run) => {
        if (step.sent?.method !== 'tools/call') return;
        setTimeout(() => {
          void gateway.control(`/api/v1/playground/${run}`, 'POST', '{"cancel":"changed my mind"}');
        }, 300);
      },
    );
    assert.deepEqual(endOf(steps), { outcome: 'CANCELLED', reason: 'changed my mind' });
    await until(async () => {
      const held = await play(gateway, { ...tool('modern__held', { key: 'k' }), revision: '2025-11-25' });
      return answerIn(held).result.content[0].text === 'cancelled';
    }, 'the server to get the cancellation');
  });

  test('an agent gets what it may use, and unknown names are refused with their reason', async () => {
    const names = async (principal: string | null) => {
      const steps = await play(gateway, { method: 'tools/list', revision: '2025-11-25', principal });
      return [...new Set(answerIn(steps).result.tools.map(({ name }: Json) => name.split('__')[0]))].sort();
    };
    assert.deepEqual(await names(null), ['endless', 'everything', 'modern', 'side']);
    assert.deepEqual(await names('narrow'), ['side']);
    const end = async (more: object) =>
      endOf(await play(gateway, { method: 'tools/list', revision: '2025-11-25', ...more }));
    assert.deepEqual(await end({ principal: 'narrow', server: 'modern' }), {
      outcome: 'REFUSED',
      reason: 'there is no server "modern" for narrow',
    });
    assert.equal((await end({ principal: 'nobody' })).reason, 'there is no agent named "nobody"');
    const denied = { ...tool('modern__echo'), revision: '2025-11-25', principal: 'narrow' };
    assert.equal(endOf(await play(gateway, denied)).outcome, 'REFUSED');
    const own = await play(gateway, { ...tool('echo', { text: 'own' }), revision: '2025-11-25', server: 'side' });
    assert.equal(answerIn(own).result.content[0].text, 'own');
    await assert.rejects(play(gateway, { method: 'ping', revision: '2020-01-01' }), /400 .*revision/);
  });

  test('a reload does not end a call of the operator', async () => {
    const steps = await play(gateway, { ...tool('side__sleep', { ms: 1500 }), revision: '2025-11-25' }, {}, (step) => {
      if (step.sent?.method !== 'tools/call') return;
      gateway.rewrite({
        mcpServers: {
          side: manySided('side'),
          everything: { command: process.execPath, args: [EVERYTHING] },
          modern: { command: process.execPath, args: [MATRIX, '2026-07-28'] },
        },
        agents: { narrow: { key: KEY, servers: ['side', 'modern'] } },
      });
    });
    assert.equal(answerIn(steps).result.content[0].text, 'slept');
  });
});

test('a call at another node of a cluster is streamed, answered and cancelled from here', async () => {
  await using nodes = await ClusterProcesses.start().then((started) =>
    Object.assign(started, { [Symbol.asyncDispose]: () => started.dispose() }),
  );
  const a = await nodes.node('a', {});
  const b = await nodes.node('b', { side: manySided('side') });
  await until(async () => (await a.servers()).includes('side'), 'node a to know the server');
  const body = (more: object) => ({ revision: '2025-11-25', ...more });
  const steps = await play(a.gateway, body(tool('side__ask', { message: 'who?' })), ANSWERS, undefined, 'b');
  assert.match(answerIn(steps).result.content[0].text, /by form/);
  const off = await play(
    a.gateway,
    body(tool('side__sleep', { ms: 60_000 })),
    {},
    (step, run) => {
      if (step.sent?.method !== 'tools/call') return;
      void a.gateway.control(`/api/v1/playground/${run}?node=b`, 'POST', '{"cancel":"enough"}');
    },
    'b',
  );
  assert.equal(endOf(off).outcome, 'CANCELLED');
  const { calls } = await b.control<{ calls: Json[] }>('/api/v1/calls?node=b');
  assert.deepEqual([...new Set(calls.map(({ client, node }) => `${client} ${node}`))], ['trunkline-playground 1 b']);
});

async function rawPlay(gateway: RunningGateway, body: string): Promise<string> {
  const { readFileSync } = await import('node:fs');
  const token = readFileSync(`${gateway.folder}/data/control.token`, 'utf8').trim();
  const response = await fetch(new URL('/api/v1/playground', gateway.controlUrl), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body,
  });
  return response.text();
}
