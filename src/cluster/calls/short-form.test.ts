import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemoryHub } from '../../bus/memory/memory-wire.ts';
import { SignedBus } from '../../bus/signed-bus.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { Message } from '../../model/message.ts';
import { answer } from '../../model/outcome.ts';
import { systemRandom } from '../../model/random.ts';
import { scanMessage } from '../../protocol/scan.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { ClusterCalls } from '../cluster-calls.ts';
import type { LocalUpstreams } from '../cluster-deps.ts';
import { SHORT_FORM } from '../frames/frame.ts';
import { ConsumerNodes } from '../nodes/consumer-nodes.ts';
import type { NodeView } from '../nodes/node-state.ts';
import { RelayedCalls } from './relayed-calls.ts';
import { RemoteCalls } from './remote-calls.ts';
import { ServedCalls } from './served-calls.ts';
import { packAnswer, packRequest, packResendContext, unpackAnswer, unpackRequest } from './short-form.ts';

const EPOCH = 'incarnation.7';
const REQUEST = scan(
  '{"jsonrpc":"2.0","id":"é 1","method":"tools/call","params":{"name":"add","arguments":{"n":12345678901234567890}}}',
);
const RESULT = scan('{"jsonrpc":"2.0","id":1,"result":{"n":1.0}}');

test('a request and its answer keep their bytes and the positions of their envelope in the short form', () => {
  const packed = Buffer.concat(packRequest(REQUEST, 'x7', 12.4, 3, Buffer.from('{"server":"é"}'))!);
  const { message, ...rest } = unpackRequest(packed)!;
  assert.deepEqual(message, REQUEST);
  assert.deepEqual(rest, { exchange: 'x7', waitedMs: 12, number: 3, context: '{"server":"é"}' });
  for (const key of ['a key, é', '', null]) {
    assert.deepEqual(unpackAnswer(Buffer.concat(packAnswer(RESULT, key, true)!)), { message: RESULT, key, own: true });
  }
  assert.equal(unpackAnswer(packResendContext()), 'resend');
});

test('a call without a short form does not get one', () => {
  const listed = scan('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');
  assert.equal(packRequest(listed, 'x', 0, 1, null), null);
  assert.equal(packAnswer(RESULT, 'k'.repeat(255), false), null);
  assert.equal(unpackRequest(Buffer.from([0, 0, 0, 2, 0x7b, 0x7d])), null);
});

test('no missing or wrong byte makes a message with positions beyond its end', () => {
  const packed = Buffer.concat(packRequest(REQUEST, 'x', 0, 1, Buffer.from('{}'))!);
  const answered = Buffer.concat(packAnswer(RESULT, 'key', false)!);
  for (const [whole, unpack] of [
    [packed, (bytes: Buffer) => unpackRequest(bytes)?.message ?? null],
    [answered, messageOfAnswer],
  ] as const) {
    // The bus itself detects a payload without its last byte, which follows all positions.
    for (let length = 1; length < whole.length - 1; length++)
      assert.equal(placesOf(whole.subarray(0, length), unpack), 'refused');
    const ends = new Set<string>();
    for (let at = 0; at < whole.length; at++) {
      for (let value = 0; value <= 0xff; value++) {
        const broken = Buffer.from(whole);
        broken[at] = value;
        ends.add(placesOf(broken, unpack));
      }
    }
    assert.deepEqual(ends, new Set(['none', 'refused', 'within']));
  }
});

test('the context of a call is sent once, and again to a node that no longer has it', async () => {
  await using bench = new Bench();
  assert.equal(await bench.call(), 'answered');
  assert.equal(await bench.call(), 'answered');
  assert.equal(await bench.call(), 'answered');
  assert.deepEqual(bench.sent, [true, false, false]);
  bench.forget();
  assert.equal(await bench.call(), 'answered');
  assert.deepEqual(bench.sent, [true, false, false, false, true]);
  assert.equal(bench.ran, 4, 'a call without its context did not run');
  assert.deepEqual(bench.clients.at(-1), CLIENT);
});

test('another epoch or client needs its own context; a new run of the node answers elsewhere', async () => {
  await using bench = new Bench();
  await bench.call();
  await bench.call({ epoch: 'another' });
  await bench.call({ client: { ...CLIENT, logLevel: 'error' } });
  assert.deepEqual(bench.sent, [true, true, true]);
  assert.equal(bench.clients.at(-1)?.logLevel, 'error');
  bench.epoch = 'incarnation.8';
  assert.equal(await bench.call(), 'elsewhere');
});

test('a node that does not announce the short form gets the other form', async () => {
  await using bench = new Bench();
  assert.equal(await bench.call({ forms: undefined }), 'answered');
  assert.deepEqual(bench.sent, ['other form']);
});

function scan(text: string): Message {
  const scanned = scanMessage(Buffer.from(text), 'stateful', 'strict');
  assert.ok(scanned instanceof Message);
  return scanned;
}

/** Whether these bytes give a message, and its positions are within it. Fails if a position is beyond its end. */
function placesOf(bytes: Buffer, unpack: (bytes: Buffer) => Message | null): 'none' | 'refused' | 'within' {
  let message: Message | null;
  try {
    message = unpack(bytes);
  } catch (error) {
    assert.ok(error instanceof GatewayError, String(error));
    return 'refused';
  }
  if (message === null) return 'none';
  const { idStart, idEnd, bodyStart, bodyEnd } = message;
  for (const place of [idStart, idEnd, bodyStart, bodyEnd]) {
    assert.ok(
      place >= -1 && place <= message.bytes.length,
      `${place} of ${message.bytes.length} in ${bytes.toString('hex')}`,
    );
  }
  return 'within';
}

function messageOfAnswer(bytes: Buffer): Message | null {
  const answered = unpackAnswer(bytes);
  return answered === null || answered === 'resend' ? null : answered.message;
}

const CLIENT: ClientProfile = {
  principal: { id: 'p', name: 'P', servers: new Set(['memory']) },
  sessionId: 'session',
  revision: '2025-11-25',
  capabilities: '{}',
  fingerprint: 'f',
  info: null,
  logLevel: null,
  handle: null,
};

interface Call {
  readonly epoch?: string | null;
  readonly client?: ClientProfile;
  readonly forms?: number | undefined;
}

/** A node that calls, and one that serves, over a bus in memory. */
class Bench implements AsyncDisposable {
  epoch = EPOCH;
  ran = 0;
  /** For each call that arrived: whether it contained its context. */
  readonly sent: (boolean | string)[] = [];
  readonly clients: ClientProfile[] = [];
  readonly #clock = new FakeClock();
  readonly #hub = new MemoryHub();
  readonly #caller = this.#join();
  readonly #server = this.#join();
  readonly #calls = new RemoteCalls(this.#caller);
  #served: ServedCalls;

  constructor() {
    this.#served = this.#serve();
  }

  async call({ epoch = null, client = CLIENT, ...node }: Call = {}): Promise<string> {
    const forms = 'forms' in node ? node.forms : SHORT_FORM;
    const view: NodeView = {
      id: 'b',
      peer: this.#server.peer,
      state: 'ready',
      protocols: [1, 2],
      version: '',
      epoch: EPOCH,
      offer: 1,
      load: 0,
      startedAt: 0,
      ...(forms === undefined ? {} : { forms }),
    };
    const exchange: Exchange = {
      id: 'x',
      request: REQUEST,
      client,
      takesInputRequired: false,
      cancelled: null,
      onCancel: null,
      emit: () => {},
      ask: () => Promise.reject(new Error('no request to the client is expected')),
    };
    const outcome = await this.#calls.run(view, 'memory', REQUEST, exchange, epoch, 0, 1_000);
    if (outcome.kind === 'elsewhere') return outcome.kind;
    assert.ok(outcome.outcome.kind === 'answer', JSON.stringify(outcome));
    assert.deepEqual(outcome.outcome.message, RESULT);
    assert.deepEqual([outcome.key, outcome.own], ['key', true]);
    return 'answered';
  }

  /** The serving node loses all contexts. */
  forget(): void {
    void this.#served.close();
    this.#served = this.#serve();
  }

  #serve(): ServedCalls {
    const bus: Bus = new Proxy(this.#server, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target);
        if (name !== 'serve') return typeof value === 'function' ? value.bind(target) : value;
        return (...[subject, handler, options]: Parameters<Bus['serve']>) =>
          target.serve(
            subject,
            (serving) => {
              const short = unpackRequest(serving.payload);
              this.sent.push(short === null ? 'other form' : short.context !== '');
              return handler(serving);
            },
            options,
          );
      },
    });
    const local = { sessionKey: () => 'key', ownsConnection: () => true } as unknown as LocalUpstreams;
    const serve: ClusterCalls['serve'] = async (_server, request, exchange) => {
      assert.deepEqual(request, REQUEST);
      this.ran++;
      this.clients.push(exchange.client);
      return answer(RESULT);
    };
    const orphaned = new RelayedCalls({ bus, clock: this.#clock }, { others: () => [] });
    const noPublicCalls = { publicCall: () => null };
    return new ServedCalls(
      { bus, clock: this.#clock, local },
      this,
      { serve, relayed: orphaned },
      new ConsumerNodes(),
      noPublicCalls,
    );
  }

  #join(): Bus {
    return new SignedBus({
      wire: this.#hub.open(),
      clock: this.#clock,
      keys: new KeyRing(['a secret of the cluster, thirty-two bytes at least']),
      random: systemRandom,
      logger: Logger.silent(),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#caller.close();
    await this.#server.close();
  }
}
