import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  ScriptedServer,
  type ScriptedTransport,
  SILENCE,
  statefulServer,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  httpServerOf,
  serverOf,
  TestExchange,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import type { Message } from '../../model/message.ts';
import type { Server } from '../../model/server.ts';
import { request, result } from '../../protocol/compose.ts';

const ASKABLE = '{"elicitation":{},"roots":{}}';
const FORM = { jsonrpc: '2.0', id: 'form', method: 'elicitation/create', params: { message: 'who?' } };
const ROOTS = { jsonrpc: '2.0', id: 'roots', method: 'roots/list' };

async function bench(
  changes: Partial<Server> = {},
  http = false,
): Promise<{ bench: UpstreamBench; script: ScriptedServer }> {
  const started = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await started.run([http ? httpServerOf('a', changes) : serverOf('a', changes), script]);
  return { bench: started, script };
}

/** A stateless client's call whose questions wait for an answer that never comes. */
function call(handle: string | null = null): TestExchange {
  const exchange = toolCall(clientOf(null, ASKABLE, { handle }));
  exchange.answer = () => new Promise(() => {});
  return exchange;
}

const calls = (link: ScriptedTransport) => link.seen.filter(({ method }) => method === 'tools/call');
const answerTo = (link: ScriptedTransport, id: string) =>
  link.seen.find((seen) => String(seen.id) === id && seen.method === undefined);
const codeOf = (seen: { readonly error?: unknown } | undefined) => (seen?.error as { code: number } | undefined)?.code;

describe('proto:S4 check:B8 an input request of a stateful server on a pipe that several stateless clients may share', () => {
  test('goes to the only call in flight', async () => {
    const { bench: it, script } = await bench();
    const one = call();
    one.answer = async (asked: Message) => result(asked.id, '{"action":"accept"}', 'stateful');
    const outcome = it.call('a', one);
    await settled();
    script.last.deliver(FORM);
    await settled();
    assert.deepEqual(answerTo(script.last, 'form')?.result, { action: 'accept' });
    script.last.respond(calls(script.last)[0]!.id as number, {});
    answerText(await outcome);
  });

  test('is refused where two calls are in flight, and reaches neither', async () => {
    const { bench: it, script } = await bench();
    const [one, two] = [call(), call()];
    void it.call('a', one);
    void it.call('a', two);
    await settled();
    assert.equal(script.live.length, 1);
    script.last.deliver(FORM);
    await settled();
    assert.equal(codeOf(answerTo(script.last, 'form')), -32601);
    assert.equal(one.asked.length + two.asked.length, 0);
  });

  test('goes to the next call after one was cancelled and the server has read that', async () => {
    const { bench: it, script } = await bench();
    const [gone, one] = [call(), call()];
    void it.call('a', gone);
    await settled();
    gone.cancel('enough');
    void it.call('a', one);
    await settled();
    const sent = script.last.seen.map(({ method }) => method);
    assert.ok(sent.indexOf('notifications/cancelled') < sent.lastIndexOf('ping'));
    script.last.deliver(FORM);
    await settled();
    assert.equal(one.asked.length, 1);
    assert.equal(gone.asked.length, 0);
  });

  test('is refused after a cancelled call, until that call has ended or can run no more', async () => {
    const { bench: it, script } = await bench();
    script.handlers['ping'] = () => SILENCE;
    const [gone, one] = [call(), call()];
    void it.call('a', gone);
    await settled();
    gone.cancel('enough');
    void it.call('a', one);
    await settled();
    const link = script.last;
    link.deliver(FORM);
    await settled();
    assert.equal(codeOf(answerTo(link, 'form')), -32601, 'it may be the cancelled call that asks');
    link.respond(calls(link)[0]!.id as number, {});
    link.deliver({ ...FORM, id: 'form 2' });
    await settled();
    assert.equal(one.asked.length, 1, 'the cancelled call has ended after all');

    const { bench: other, script: late } = await bench();
    late.handlers['ping'] = () => SILENCE;
    const [lost, next] = [call(), call()];
    void other.call('a', lost);
    await settled();
    lost.cancel('enough');
    await other.clock.advance(10 * 60_000 + 1);
    void other.call('a', next);
    await settled();
    late.last.deliver(FORM);
    await settled();
    assert.equal(next.asked.length, 1);
  });

  test('gets a connection of its own for a call beside one with an open input request', async () => {
    const { bench: it, script } = await bench();
    const [first, second, third] = [call(), call(), call()];
    void it.call('a', first);
    await settled();
    script.last.deliver(FORM);
    await settled();
    assert.equal(first.asked.length, 1);
    void it.call('a', second);
    await settled();
    assert.equal(script.live.length, 2);
    script.last.deliver({ ...FORM, id: 'other' });
    await settled();
    assert.equal(second.asked.length, 1);
    assert.equal(first.asked.length, 1);
    void it.call('a', third);
    await settled();
    assert.equal(script.live.length, 3);
    script.last.deliver({ ...FORM, id: 'third' });
    await settled();
    for (let i = 0; i < 4; i++) {
      void it.call('a', call());
      await settled();
      script.last.deliver({ ...FORM, id: `more ${i}` });
      await settled();
    }
    assert.equal(script.live.length, 4, 'the number of connections is limited');
  });

  test('is refused where no more processes may run and calls share', async () => {
    const { bench: it, script } = await bench({ limits: { maxMessageBytes: 1 << 20, maxProcesses: 1 } });
    const [first, second] = [call(), call()];
    void it.call('a', first);
    await settled();
    script.last.deliver(FORM);
    await settled();
    void it.call('a', second);
    await settled();
    assert.equal(script.live.length, 1);
    assert.equal(calls(script.last).length, 2);
    script.last.deliver({ ...FORM, id: 'second' });
    await settled();
    assert.equal(codeOf(answerTo(script.last, 'second')), -32601);
    assert.equal(second.asked.length, 0);
  });

  test('uses one connection per principal where the operator wants that', async () => {
    const { bench: it, script } = await bench({ isolation: 'principal' });
    const [first, second] = [call(), call()];
    void it.call('a', first);
    await settled();
    script.last.deliver(FORM);
    await settled();
    assert.equal(first.asked.length, 1);
    void it.call('a', second);
    await settled();
    assert.equal(script.live.length, 1);
    script.last.deliver({ ...FORM, id: 'second' });
    await settled();
    assert.equal(codeOf(answerTo(script.last, 'second')), -32601);
  });

  test('uses one connection per value of the header that the operator named', async () => {
    const { bench: it, script } = await bench();
    const [one, two] = [call('h'), call('h')];
    void it.call('a', one);
    void it.call('a', two);
    await settled();
    script.last.deliver(FORM);
    await settled();
    assert.equal(two.asked.length, 1);
    assert.equal(script.live.length, 1);
  });

  test('for roots without a call gets an empty list where they were declared, and all else is refused', async () => {
    for (const http of [false, true]) {
      const { bench: it, script } = await bench({}, http);
      const outcome = it.call('a', call());
      await settled();
      const link = script.links.find((one) => calls(one).length > 0)!;
      link.respond(calls(link)[0]!.id as number, {});
      answerText(await outcome);
      link.deliver(ROOTS);
      link.deliver(FORM);
      await settled();
      assert.deepEqual(answerTo(link, 'roots')?.result, { roots: [] });
      assert.equal(it.events.requests.length, 1, 'no call is there to answer the form');
    }
    const { bench: it, script } = await bench();
    const silent = toolCall(clientOf(null, '{}'));
    void it.call('a', silent);
    await settled();
    script.last.respond(calls(script.last)[0]!.id as number, {});
    script.last.deliver(ROOTS);
    await settled();
    assert.equal(it.events.requests.length, 1);
  });

  test('goes to no client while only a list request is in flight, and roots get an empty list', async () => {
    const { bench: it, script } = await bench();
    const client = clientOf(null, ASKABLE);
    void it.call('a', call());
    await settled();
    script.handlers['prompts/list'] = () => SILENCE;
    const list = new TestExchange(client, request('prompts/list', '1', '{}', 'stateless'));
    void it.call('a', list);
    await settled();
    const link = script.links.find((one) => one.count('prompts/list') > 0)!;
    for (const { id } of calls(link)) link.respond(id as number, {});
    await settled();
    link.deliver(ROOTS);
    await settled();
    assert.deepEqual(answerTo(link, 'roots')?.result, { roots: [] });
    assert.equal(list.asked.length, 0);
  });

  test('before any call belongs to no client', async () => {
    const started = new UpstreamBench();
    const script = new ScriptedServer({
      ...statefulServer(),
      initialize: (params, link) => {
        queueMicrotask(() => queueMicrotask(() => link.deliver(ROOTS)));
        return statefulServer()['initialize']!(params, link, 0);
      },
      'tools/call': () => SILENCE,
    });
    await started.run([serverOf('a'), script]);
    const one = call();
    void started.call('a', one);
    await settled();
    await started.clock.advance(200);
    assert.deepEqual(answerTo(script.last, 'roots')?.result, { roots: [] });
    assert.equal(one.asked.length, 0);
  });

  test('fault:F06 the deadline of the server stops while its client is asked', async () => {
    const { bench: it, script } = await bench();
    const one = call();
    let ended = false;
    void it.call('a', one).then(() => {
      ended = true;
    });
    await settled();
    script.last.deliver(FORM);
    await settled();
    await it.clock.advance(14 * 60_000);
    assert.equal(ended, false);
    await it.clock.advance(60_000);
    assert.equal(ended, true, 'the deadline stops for a limited time');
    assert.equal(script.last.count('notifications/cancelled'), 1);
  });

  test('proto:S5 the server gets the client’s declaration unchanged', async () => {
    const { bench: it, script } = await bench();
    const capabilities = '{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"x":1.0}';
    void it.call('a', toolCall(clientOf(null, capabilities)));
    await settled();
    const line = script.links.flatMap((link) => link.lines).findLast((text) => text.includes('"initialize"'));
    assert.ok(line!.includes(`"capabilities":${capabilities}`), line);
  });
});

test('the ping after a cancelled call ends unanswered after a minute, and the server still counts as running that call', async () => {
  const { bench: it, script } = await bench();
  script.handlers['ping'] = () => SILENCE;
  const gone = call();
  void it.call('a', gone);
  await settled();
  gone.cancel('enough');
  const link = script.last;
  const cancelled = () => link.lastOf('notifications/cancelled').params?.['requestId'];
  const ping = link.lastOf('ping').id as number;
  await it.clock.advance(59_999);
  assert.notEqual(cancelled(), ping);
  await it.clock.advance(1);
  assert.equal(cancelled(), ping);
  assert.ok(link.abandoned.includes(ping));
  void it.call('a', call());
  await settled();
  link.deliver(FORM);
  await settled();
  assert.equal(codeOf(answerTo(link, 'form')), -32601);
});
