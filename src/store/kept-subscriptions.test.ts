import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import { client, GatewayBench } from '../../test/support/gateway-bench.ts';
import { systemClock } from '../model/clock.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { answer, failure } from '../model/outcome.ts';
import { errorAnswer, notification } from '../protocol/compose.ts';
import { Logger } from '../telemetry/logger.ts';
import { KeptSubscriptions } from './kept-subscriptions.ts';
import { StateFile } from './state-file.ts';

const OFFERS = { a: { resources: [], capabilities: { resources: { subscribe: true } } } };
const UPDATED = 'notifications/resources/updated';

function store(t: TestContext, ...sessions: readonly string[]): StateFile {
  const state = new StateFile({ path: ':memory:', clock: systemClock, logger: Logger.silent() });
  t.after(() => state.close());
  for (const session of sessions) state.put('session', session, Buffer.from('{}'));
  return state;
}

/** A lone gateway and what it keeps in this state file. */
class Alone {
  readonly kept: KeptSubscriptions;
  readonly bench: GatewayBench;
  listening = true;
  #seen = 0;

  constructor(stateFile: StateFile) {
    const bench: GatewayBench = new GatewayBench(OFFERS, {}, undefined, undefined, {
      refusal: (...of) => this.kept.refusal(...of),
      subscribed: (...of) => this.kept.subscribed(...of),
      subscribedElsewhere: (principal) => this.kept.subscribedElsewhere(principal),
      givenUp: (...of) => this.kept.givenUp(...of),
      sessionEnded: (sessionId) => this.kept.sessionEnded(sessionId),
    });
    const { clock, gateway } = bench;
    const downstream = {
      clientOf: (sessionId: string) => client('stateful', { sessionId }),
      listening: () => this.listening,
    };
    this.bench = bench;
    this.kept = new KeptSubscriptions({ stateFile, clock, gateway, downstream: () => downstream });
  }

  async ask(method: 'subscribe' | 'unsubscribe' | 'templates/list', sessionId: string, uri = ''): Promise<string> {
    const profile = client('stateful', { sessionId });
    const params = uri === '' ? null : JSON.stringify({ uri: `trunkline://a/${uri}` });
    const outcome = await this.bench.run(`resources/${method}`, params, { client: profile });
    return outcome.kind === 'answer' ? 'agreed' : outcome.error.code;
  }

  /** The client opens a stream of its session. */
  async opens(sessionId: string): Promise<void> {
    await this.ask('templates/list', sessionId);
    this.kept.opened(sessionId);
    await settled();
  }

  /** What the server was asked since the last call. */
  asked(): string[] {
    const calls = this.bench.upstreams.calls.slice(this.#seen);
    this.#seen += calls.length;
    const texts = calls.map(({ request: { method, body } }) => `${method} ${body.toString()}`);
    return texts.filter((text) => text.includes('subscribe'));
  }

  /** The clients that were notified, and of what. */
  delivered(): string[] {
    const texts = this.bench.streams.delivered.splice(0);
    return texts.map(({ sessionId, message }) => `${sessionId} ${message.method} ${message.body.toString()}`);
  }

  async pass(ms: number): Promise<void> {
    await this.bench.clock.advance(ms);
    await settled();
  }
}

test('the session of a lone gateway has its subscriptions again after a restart, when its client opens a stream', async (t) => {
  const state = store(t, 's', 'other');
  const first = new Alone(state);
  assert.equal(await first.ask('subscribe', 's', 'x://1'), 'agreed');
  assert.equal(await first.ask('subscribe', 's', 'x://2'), 'agreed');
  assert.equal(await first.ask('unsubscribe', 's', 'x://2'), 'agreed');
  assert.equal(await first.ask('subscribe', 'other', 'x://3'), 'agreed');

  const second = new Alone(state);
  assert.equal(second.kept.subscribedElsewhere(client('stateful').principal.id), 2);
  await second.opens('s');
  assert.deepEqual(second.asked(), ['resources/subscribe {"uri":"x://1"}']);
  const updated = `s ${UPDATED} {"uri":"trunkline://a/x://1"}`;
  assert.deepEqual(second.delivered(), [updated], 'updates may be lost');
  second.bench.gateway.notification('a', null, notification(UPDATED, '{"uri":"x://1"}', 'stateful'));
  assert.deepEqual(second.delivered(), [updated]);
  await second.opens('s');
  assert.deepEqual(second.asked(), [], 'one subscription however many streams');
  assert.equal(second.kept.subscribedElsewhere(client('stateful').principal.id), 1);

  second.bench.gateway.sessionEnded('s');
  second.bench.gateway.sessionEnded('other');
  assert.equal(state.all('subscription').size, 0);
});

test('a subscription that cannot be made after a restart is tried as long as the client listens, and reported if it is refused', async (t) => {
  const state = store(t, 's');
  const first = new Alone(state);
  for (const uri of ['x://1', 'x://2']) await first.ask('subscribe', 's', uri);
  const second = new Alone(state);
  const { upstreams } = second.bench;
  const { respond } = upstreams;
  upstreams.respond = () => failure(new GatewayError('NOT_SENT', 'it starts'));
  await second.opens('s');
  assert.equal(second.asked().length, 2);
  second.listening = false;
  await second.pass(60_000);
  assert.deepEqual([second.asked(), second.delivered()], [[], []]);
  second.listening = true;
  await second.opens('s');
  assert.equal(second.asked().length, 2);
  assert.equal(await second.ask('unsubscribe', 's', 'x://2'), 'NOT_SENT');
  second.asked();
  upstreams.respond = ({ request }) => answer(errorAnswer(request.id, -32002, 'no such resource', null, 'stateful'));
  await second.pass(1_000);
  assert.deepEqual(second.asked(), ['resources/subscribe {"uri":"x://1"}'], 'the client gave up the other one');
  assert.deepEqual(second.delivered(), [`s ${UPDATED} {"uri":"trunkline://a/x://1"}`]);
  upstreams.respond = respond;
  await second.pass(60_000);
  assert.deepEqual(second.asked(), []);
  assert.equal(state.all('subscription').size, 0);
});

test('a resource that the client gives up while the next process subscribes again does not stay subscribed', async (t) => {
  const state = store(t, 's');
  await new Alone(state).ask('subscribe', 's', 'x://1');
  const second = new Alone(state);
  const { upstreams } = second.bench;
  const { respond } = upstreams;
  const waiting = Promise.withResolvers<void>();
  upstreams.respond = async (call) => {
    await waiting.promise;
    return respond(call);
  };
  second.kept.opened('s');
  await settled();
  second.kept.givenUp('s', 'a', 'x://1');
  waiting.resolve();
  await settled();
  assert.deepEqual(second.asked(), ['resources/subscribe {"uri":"x://1"}', 'resources/unsubscribe {"uri":"x://1"}']);
});

test('subscriptions without a session, and damaged ones, are removed at the start; a session keeps at most a thousand', async (t) => {
  const state = store(t, 's');
  const first = new Alone(state);
  await first.ask('subscribe', 'gone', 'x://1');
  for (let i = 0; i < 1_000; i++) assert.equal(await first.ask('subscribe', 's', `x://${i}`), 'agreed');
  state.put('subscription', 'k', Buffer.from('{"sessionId":"s"}'));
  const second = new Alone(state);
  assert.equal(state.all('subscription').size, 1_000);
  assert.equal(await second.ask('subscribe', 's', 'x://more'), 'OVERLOADED');
  assert.equal(await second.ask('subscribe', 's', 'x://7'), 'agreed');
});
