import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type BenchExchange, client, endpointOf, GatewayBench } from '../../test/support/gateway-bench.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../model/outcome.ts';
import { result } from '../protocol/compose.ts';

const URL_MODE = '{"elicitation":{"url":{}}}';
const CALL = '{"name":"web__echo"}';

/** A server that asks for a login until `signIn`. It has a login page unless `page` is null. */
function bench(page: string | null = 'http://127.0.0.1/oauth/login/web') {
  let connectedAt: number | null = null;
  let takesUser = true;
  const logins = { takesUser: () => takesUser, page: async () => page, connectedAt: () => connectedAt };
  const made = new GatewayBench({ web: null }, {}, undefined, { logins });
  made.upstreams.states.set('web', 'auth_required');
  made.upstreams.respond = (call) =>
    connectedAt === null && takesUser
      ? failure(
          new GatewayError('AUTH_REQUIRED', 'web asks for credentials; sign in: trunkline login web', {
            server: 'web',
          }),
        )
      : answer(result('9', '{"content":[]}', call.request.era));
  const signIn = () => {
    connectedAt = (connectedAt ?? 0) + 1;
    made.upstreams.states.set('web', 'connected');
  };
  const signOut = () => {
    connectedAt = null;
  };
  /** The definition is replaced by one with a token. */
  const redefine = () => {
    takesUser = false;
    made.upstreams.states.set('web', 'connected');
  };
  const call = (action: string | null, params = CALL, sessionId: string | null = 'session-1') => {
    const era = sessionId === null ? 'stateless' : 'stateful';
    const exchange = made.exchange('tools/call', params, {
      client: client(era, { capabilities: URL_MODE, sessionId }),
    });
    if (action !== null) exchange.reply = result('"q"', `{"action":"${action}"}`, 'stateful');
    const ended = made.gateway.run(exchange, { kind: 'aggregate', server: '', path: '/mcp' });
    return { exchange, ended };
  };
  return { made, signIn, signOut, redefine, call };
}

function isRefused(outcome: Outcome): void {
  assert.ok(outcome.kind === 'failure');
  assert.equal(outcome.error.code, 'AUTH_REQUIRED');
  assert.equal(outcome.error.outcome, 'REFUSED');
}

async function settled(made: GatewayBench, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 250) await made.clock.advance(250);
}

const methodsOf = ({ emitted }: BenchExchange) => emitted.map(({ method }) => method);

describe('S3.5 proto:D5 a call waits for the login of its user', () => {
  test('it is sent again when the user has signed in, however long that took', async () => {
    const { made, signIn, call } = bench();
    const { exchange, ended } = call('accept');
    await settled(made, 300_000);
    assert.equal(exchange.asked.length, 1);
    assert.equal(made.upstreams.calls.length, 1);
    signIn();
    await settled(made, 500);
    assert.equal((await ended).kind, 'answer');
    assert.equal(made.upstreams.calls.length, 2);
    assert.deepEqual(methodsOf(exchange), ['notifications/elicitation/complete']);
  });

  test('a user who signs in without answering the client ends the question', async () => {
    const { made, signIn, call } = bench();
    const { exchange, ended } = call(null);
    exchange.ask = (request) => {
      exchange.asked.push(request);
      return new Promise(() => {});
    };
    await settled(made, 1_000);
    signIn();
    await settled(made, 500);
    assert.equal((await ended).kind, 'answer');
    assert.deepEqual(methodsOf(exchange), ['notifications/cancelled']);
  });

  test('it is refused when the user declines, after ten minutes, when the gateway stops, and where there is no page', async () => {
    const declined = bench();
    const first = declined.call('decline');
    await settled(declined.made, 500);
    isRefused(await first.ended);

    const late = bench();
    const second = late.call('accept');
    await settled(late.made, 600_500);
    isRefused(await second.ended);

    const stopping = bench();
    const third = stopping.call('accept');
    await settled(stopping.made, 500);
    stopping.made.gateway.drain();
    await settled(stopping.made, 500);
    isRefused(await third.ended);

    const nowhere = bench(null);
    const fourth = nowhere.call('accept');
    isRefused(await fourth.ended);
    assert.equal(fourth.exchange.asked.length, 0);
  });

  test('a cancelled call ends at once, and the next call of its client asks again', async () => {
    const { made, signIn, call } = bench();
    const first = call('accept');
    const second = call('accept');
    await settled(made, 1_000);
    assert.deepEqual([first.exchange.asked.length, second.exchange.asked.length], [1, 0], 'one question for a client');
    first.exchange.cancel('enough');
    await settled(made, 500);
    isRefused(await first.ended);
    await settled(made, 500);
    assert.equal(second.exchange.asked.length, 1);
    signIn();
    await settled(made, 500);
    assert.equal((await second.ended).kind, 'answer');
  });

  test('each client asks its own user', async () => {
    const { made, signIn, call } = bench();
    const calls = ['session-1', 'session-2'].map((sessionId) => call('accept', CALL, sessionId));
    await settled(made, 500);
    assert.deepEqual(
      calls.map(({ exchange }) => exchange.asked.length),
      [1, 1],
    );
    signIn();
    await settled(made, 500);
    for (const { ended } of calls) assert.equal((await ended).kind, 'answer');
  });

  test('a stateless client gets a question per call, because it may wait for all of its calls at once', async () => {
    const { made, signIn, call } = bench();
    const calls = [call('accept', CALL, null), call('accept', CALL, null)];
    await settled(made, 500);
    assert.deepEqual(
      calls.map(({ exchange }) => exchange.asked.length),
      [1, 1],
    );
    signIn();
    await settled(made, 500);
    for (const { ended } of calls) assert.equal((await ended).kind, 'answer');
  });

  test('a user who declines does so for all calls that wait, and is asked again by the next one', async () => {
    const { made, call } = bench();
    const first = call('decline');
    const second = call('accept');
    await settled(made, 500);
    isRefused(await first.ended);
    isRefused(await second.ended);
    assert.equal(second.exchange.asked.length, 0);
    const third = call('decline');
    await settled(made, 500);
    isRefused(await third.ended);
    assert.equal(third.exchange.asked.length, 1);
  });

  test('it counts once against the limit of calls per minute', async () => {
    const { made, signIn, call } = bench();
    const limits = { maxMessageBytes: 1, maxProcesses: 1, callsPerMinute: 1 };
    made.upstreams.list = made.upstreams.list.map((server) => ({ ...server, limits }));
    const { ended } = call('accept');
    await settled(made, 500);
    signIn();
    await settled(made, 500);
    assert.equal((await ended).kind, 'answer');
    const next = await call('accept').ended;
    assert.ok(next.kind === 'failure' && next.error.code === 'RATE_LIMITED');
  });

  test('a definition that needs no login any more lets the call go on', async () => {
    const { made, redefine, call } = bench();
    const { ended } = call('accept');
    await settled(made, 500);
    redefine();
    await settled(made, 500);
    assert.equal((await ended).kind, 'answer');
  });

  test('it is refused without another question if the server does not take the new token either', async () => {
    const { made, signIn, call } = bench();
    const { exchange, ended } = call('accept');
    await settled(made, 500);
    made.upstreams.respond = () =>
      failure(new GatewayError('AUTH_REQUIRED', 'web asks for more; sign in: trunkline login web', { server: 'web' }));
    signIn();
    await settled(made, 1_000);
    isRefused(await ended);
    assert.equal(exchange.asked.length, 1);
  });
});

describe('S3.5 the login as a tool', () => {
  test('is listed while the server’s tools are unknown, despite filters, and removed by the first list', async () => {
    const { made, signIn, signOut, call } = bench();
    made.upstreams.list = made.upstreams.list.map((server) => ({
      ...server,
      tools: { include: new Set(['echo']), exclude: new Set<string>() },
    }));
    const listed = async () => {
      const outcome = await made.run('tools/list', null);
      assert.ok(outcome.kind === 'answer');
      return JSON.parse(outcome.message.body.toString()).tools.map(({ name }: { name: string }) => name);
    };
    assert.deepEqual(await listed(), ['web__trunkline_login']);
    signIn();
    made.upstreams.states.set('web', 'auth_required');
    assert.deepEqual(await listed(), ['web__trunkline_login'], 'the server does not take the token');
    signOut();
    const own = await made.run('tools/list', null, { endpoint: endpointOf('web') });
    assert.ok(own.kind === 'answer' && own.message.body.includes('"trunkline_login"'));
    const { ended } = call('accept', '{"name":"web__trunkline_login"}');
    await settled(made, 500);
    signIn();
    await settled(made, 500);
    const outcome = await ended;
    assert.ok(outcome.kind === 'answer');
    assert.match(outcome.message.body.toString(), /Signed in to web/);
    assert.equal(made.upstreams.calls.length, 1, 'after the login it is not called at the server');
    made.upstreams.listed('web', { tools: ['{"name":"echo"}'] });
    made.gateway.catalogChanged('web', '{}', ['tools']);
    assert.deepEqual(await listed(), ['web__echo']);
  });

  test('a tool of a server with the name of the login tool is an ordinary tool', async () => {
    const { made, signIn, call } = bench();
    made.upstreams.listed('web', { tools: ['{"name":"trunkline_login"}', '{"name":"echo"}'] });
    const params = '{"name":"web__trunkline_login"}';
    const { ended } = call('accept', params);
    await settled(made, 500);
    signIn();
    await settled(made, 500);
    assert.equal((await ended).kind, 'answer');
    assert.equal(made.upstreams.calls.length, 2, 'it is called at the server');

    made.upstreams.list = made.upstreams.list.map((server) => ({
      ...server,
      tools: { include: new Set(['echo']), exclude: new Set<string>() },
    }));
    const listed = await made.run('tools/list', null);
    assert.ok(listed.kind === 'answer' && !listed.message.body.includes('trunkline_login'));
    const refused = await call('accept', params).ended;
    assert.ok(refused.kind === 'failure' && refused.error.code === 'INVALID_PARAMS');
  });

  test('is listed at once, and the first list after the login waits for the tools of the server', async () => {
    const { made, signIn } = bench();
    const listed = async () => {
      const outcome = await made.run('tools/list', null);
      assert.ok(outcome.kind === 'answer');
      return JSON.parse(outcome.message.body.toString()).tools.map(({ name }: { name: string }) => name);
    };
    made.upstreams.states.set('web', 'starting');
    const early = listed();
    await settled(made, 2_500);
    assert.deepEqual(await early, []);
    made.upstreams.states.set('web', 'auth_required');
    made.gateway.statusChanged('web', made.upstreams.status('web')!);
    assert.deepEqual([await listed(), await listed()], [['web__trunkline_login'], ['web__trunkline_login']]);
    signIn();
    made.gateway.catalogChanged('web', '{}', []);
    const late = listed();
    await settled(made, 500);
    made.upstreams.listed('web', { tools: ['{"name":"echo"}'] });
    made.gateway.catalogChanged('web', '{}', ['tools']);
    assert.deepEqual(await late, ['web__echo']);
  });

  test('is announced to clients that were given a list before', async () => {
    const { made } = bench();
    made.upstreams.states.set('web', 'starting');
    const listing = made.run('tools/list', null);
    await settled(made, 2_500);
    await listing;
    made.upstreams.states.set('web', 'auth_required');
    made.gateway.statusChanged('web', made.upstreams.status('web')!);
    await settled(made, 250);
    assert.deepEqual(
      made.streams.delivered.map(({ message }) => message.method),
      ['notifications/tools/list_changed'],
    );
  });
});
