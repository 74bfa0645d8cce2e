import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, DownstreamRig, stateless } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { LinePipes } from '../../../test/support/line-pipes.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure } from '../../model/outcome.ts';
import { notification, request } from '../../protocol/compose.ts';

let rig: DownstreamRig;
before(async () => {
  rig = await DownstreamRig.start();
});
after(() => rig.close());

/** A client and the front that serves it. */
class Pipes extends LinePipes {
  readonly handler = rig.downstream.stdio(this);
}

const INIT = call(0, 'initialize', {
  protocolVersion: '2025-06-18',
  capabilities: { roots: {} },
  clientInfo: { name: 'c' },
});

test('check:B10 a stateful client gets line by line answers, input requests and notifications', async () => {
  const pipes = new Pipes();
  assert.equal((await pipes.send(INIT).message()).result.protocolVersion, '2025-06-18');
  pipes.send('{"jsonrpc":"2.0","method":"notifications/initialized"}');
  rig.core.on('tools/call', async (exchange) => {
    exchange.emit(notification('notifications/progress', '{"progress":1.0}', 'stateful'));
    const answered = await exchange.ask(request('roots/list', '1', null, 'stateful'));
    return ok(exchange, `{\n"roots":${answered.body.toString()}}`);
  });
  pipes.send(call('é', 'tools/call', { name: 't' }));
  assert.match(await pipes.line(), /"progress":1\.0/);
  const asked = await pipes.message();
  assert.equal(asked.method, 'roots/list');
  pipes.send(`{"jsonrpc":"2.0","id":"${asked.id}","result":{"n":12345678901234567890}}`);
  const line = await pipes.line();
  assert.equal(line, '{"jsonrpc":"2.0","id":"é","result":{ "roots":{"n":12345678901234567890}}}');
  const { client } = rig.core.ran.at(-1)!;
  assert.equal(client.revision, '2025-06-18');
  rig.downstream.deliver(client.sessionId!, notification('notifications/tools/list_changed', null, 'stateful'));
  assert.equal((await pipes.message()).method, 'notifications/tools/list_changed');
  assert.equal((await pipes.send(INIT).message()).error.code, -32600);
  pipes.ends.write.end();
  await pipes.handler.closed;
  assert.ok(rig.core.ended.includes(client.sessionId!));
});

test('check:B10 nothing is written before the answer to `initialize`; changes are reported after it', async () => {
  const pipes = new Pipes();
  const changed = notification('notifications/tools/list_changed', null, 'stateful');
  const session = [...rig.downstream.sessions.values()].at(-1)!;
  rig.downstream.deliver(session.id, changed);
  const handshake = rig.core.handshake.bind(rig.core);
  rig.core.handshake = (...said) => {
    rig.downstream.deliver(session.id, changed);
    return handshake(...said);
  };
  assert.equal((await pipes.send(INIT).message()).id, 0);
  rig.core.handshake = handshake;
  rig.downstream.deliver(session.id, changed);
  assert.equal((await pipes.message()).method, 'notifications/tools/list_changed');
  assert.equal((await pipes.send(call(1, 'ping')).message()).id, 1);
  pipes.ends.write.end();
  await pipes.handler.closed;
});

test('check:B13 a client cannot cancel `initialize`', async () => {
  const pipes = new Pipes();
  const { handshakeAnswer } = rig.core;
  const handshake = rig.core.handshake.bind(rig.core);
  let answer = (): void => {};
  rig.core.handshake = () =>
    new Promise((resolve) => {
      answer = () => resolve(handshakeAnswer);
    });
  pipes.send(INIT);
  pipes.send('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}');
  pipes.send(call(1, 'ping'));
  assert.equal((await pipes.message()).id, 1, 'the cancellation has been read');
  answer();
  assert.equal((await pipes.message()).result.protocolVersion, '2025-06-18');
  rig.core.handshake = handshake;
  pipes.ends.write.end();
  await pipes.handler.closed;
});

test('check:B10 stateless requests on the same pipes need no headers, and a notification cancels them', async () => {
  const pipes = new Pipes();
  assert.deepEqual((await pipes.send(stateless('server/discover').body).message()).result.supportedVersions, [
    '2026-07-28',
  ]);
  rig.core.on('tools/call', (exchange) => ok(exchange, '{"x":1.0}'));
  assert.equal(
    await pipes.send(stateless('tools/call', { name: 'ü' }, { id: 7 }).body).line(),
    '{"jsonrpc":"2.0","id":7,"result":{"x":1.0}}',
  );
  assert.equal(rig.core.ran.at(-1)?.takesInputRequired, true);
  assert.equal((await pipes.send(stateless('ping').body).message()).error.code, -32601);
  const unknown = stateless('tools/list').body.replace('2026-07-28', '2099-01-01');
  assert.deepEqual((await pipes.send(unknown).message()).error.data, {
    supported: ['2026-07-28'],
    requested: '2099-01-01',
  });
  let started!: () => void;
  const running = new Promise<void>((resolve) => {
    started = resolve;
  });
  rig.core.on('tools/call', (exchange) => {
    started();
    return new Promise((resolve) => {
      exchange.onCancel = (reason) => resolve(failure(new GatewayError('CANCELLED', reason)));
    });
  });
  pipes.send(stateless('tools/call', { name: 't' }, { id: 'slow' }).body);
  await running;
  pipes.send('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}');
  assert.deepEqual((await pipes.send(call(8, 'ping')).message()).id, 8, 'no answer to the cancelled call');
  pipes.ends.write.end();
  await pipes.handler.closed;
  assert.deepEqual(await pipes.rest(), []);
});

test('invalid lines are answered, and later ones are served', async () => {
  const pipes = new Pipes();
  for (const [junk, code] of [
    ['{"jsonrpc":', -32700],
    ['hello', -32700],
    ['[]', -32600],
    ['{"jsonrpc":"1.0","id":1,"method":"x"}', -32600],
    [`{"pad":"${'x'.repeat(5 * 1024 * 1024)}"}`, -32700],
  ] as const) {
    assert.equal((await pipes.send(junk).message()).error.code, code, junk.slice(0, 40));
  }
  pipes.send('').send('   \r');
  assert.deepEqual((await pipes.send(call(1, 'ping')).message()).result, {});
  pipes.ends.write.end();
  await pipes.handler.closed;
});

test('a session of 2025-03-26 may send batches: each message is taken as if it had its own line', async () => {
  const pipes = new Pipes();
  const batch = `[${call(1, 'ping')},{"jsonrpc":"2.0","method":"notifications/initialized"},${call('b', 'tools/list')}]`;
  assert.equal((await pipes.send(batch).message()).error.code, -32600, 'before the session is open');
  await pipes.send(INIT.replace('2025-06-18', '2025-03-26')).message();
  pipes.send(batch);
  assert.deepEqual(await pipes.message(), { jsonrpc: '2.0', id: 1, result: {} });
  assert.deepEqual(await pipes.message(), { jsonrpc: '2.0', id: 'b', result: { method: 'tools/list' } });
  const refused = await pipes.send(`[${call(2, 'ping')},{"jsonrpc":"2.0","id":3}]`).message();
  assert.deepEqual([refused.id, refused.error.code], [null, -32600]);
  const again = await pipes.send(`[${INIT}]`).message();
  assert.deepEqual([again.id, again.error.code], [0, -32600]);
  pipes.ends.write.end();
  await pipes.handler.closed;
  assert.deepEqual(await pipes.rest(), []);
});

test('a later session has no batches', async () => {
  const pipes = new Pipes();
  await pipes.send(INIT).message();
  assert.equal((await pipes.send(`[${call(1, 'ping')}]`).message()).error.code, -32600);
  pipes.ends.write.end();
  await pipes.handler.closed;
});

test('a message may name the revision of its session, and no other stateful one', async () => {
  const pipes = new Pipes();
  const list = (id: number, revision: string) =>
    call(id, 'tools/list', { _meta: { 'io.modelcontextprotocol/protocolVersion': revision } });
  assert.equal((await pipes.send(list(1, '2025-06-18')).message()).error.code, -32022, 'before the session is open');
  await pipes.send(INIT).message();
  assert.deepEqual((await pipes.send(list(2, '2025-06-18')).message()).result, { method: 'tools/list' });
  assert.notEqual(rig.core.ran.at(-1)!.client.sessionId, null);
  assert.equal((await pipes.send(list(3, '2025-11-25')).message()).error.code, -32022);
  pipes.ends.write.end();
  await pipes.handler.closed;
});

test('calls in flight are answered after the end of the input', async () => {
  const pipes = new Pipes();
  let finish!: () => void;
  const waiting = new Promise<void>((resolve) => {
    finish = resolve;
  });
  rig.core.on('tools/call', async (exchange) => {
    await waiting;
    return ok(exchange, '{"last":true}');
  });
  pipes.ends.write.end(call(1, 'tools/call', { name: 't' }));
  setTimeout(finish, 50);
  assert.deepEqual((await pipes.message()).result, { last: true });
  await pipes.handler.closed;
});

test('a pipe whose session the gateway ends ends its calls in flight, of both eras', async () => {
  const pipes = new Pipes();
  await pipes.send(INIT).message();
  const session = [...rig.downstream.sessions.values()].at(-1)!;
  const cancelled: string[] = [];
  const running = Promise.withResolvers<void>();
  rig.core.on('tools/call', (exchange) => {
    if (exchange.request.era === 'stateless') running.resolve();
    return new Promise((resolve) => {
      exchange.onCancel = (reason) => {
        cancelled.push(`${exchange.request.era} ${reason}`);
        resolve(failure(new GatewayError('CANCELLED', reason)));
      };
    });
  });
  pipes.send(call(1, 'tools/call', { name: 't' }));
  pipes.send(stateless('tools/call', { name: 't' }, { id: 2 }).body);
  await running.promise;
  rig.downstream.sessions.end(session, 'ended by the operator');
  await pipes.handler.closed;
  assert.deepEqual(cancelled.sort(), ['stateful ended by the operator', 'stateless the session has ended']);
  assert.deepEqual(await pipes.rest(), []);
  assert.equal(pipes.handler.inFlight, 0);
});

test('a caller whose rights are narrowed uses its pipe with the new ones in both eras', async () => {
  const open = await DownstreamRig.start({ agents: { ada: null } });
  const pipes = new LinePipes();
  const { input, output } = pipes;
  const handler = open.downstream.stdio({ input, output, principal: open.authenticator.principal('agent:ada')! });
  open.core.on('tools/call', (exchange) => ok(exchange, '{}'));
  const rights = async (line: string): Promise<readonly string[] | null> => {
    await pipes.send(line).line();
    const { servers } = open.core.ran.at(-1)!.client.principal;
    return servers === null ? null : [...servers];
  };
  const calls = [stateless('tools/call', { name: 't' }, { id: 7 }).body, call(8, 'tools/call', { name: 't' })];
  await pipes.send(INIT).line();
  for (const one of calls) assert.equal(await rights(one), null);
  open.reload({ ada: ['own'] });
  for (const one of calls) assert.deepEqual(await rights(one), ['own']);
  pipes.ends.write.end();
  await handler.closed;
  await open.close();
});
