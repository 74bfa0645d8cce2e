import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecordingReceiver } from '../../../test/contracts/recording-receiver.ts';
import { transportContract } from '../../../test/contracts/transport.contract.ts';
import { nodeSpec, stdioBench } from '../../../test/support/stdio-bench.ts';
import { serverOf } from '../../../test/support/upstream-bench.ts';
import type { OwnedProcess } from '../../model/ports.ts';
import type { StdioSpec } from '../../model/server.ts';
import { withEpoch } from '../process/environment.ts';
import { type MemoryLink, MemoryTransport } from './memory-transport.ts';
import { OwnedTransport } from './owned-transport.ts';

class PlayedOwned implements OwnedProcess {
  readonly epoch = 'abc.7';
  isHeld = true;
  readonly reported: string[] = [];
  released = 0;

  assignTo(): void {}

  ready(): void {
    this.reported.push('ready');
  }

  ending(): void {
    this.reported.push('ending');
  }

  release(): void {
    this.released++;
  }
}

transportContract({
  name: 'owned',
  pushes: true,
  emits: true,
  endsWithServer: true,
  async start(receiver) {
    const arrived: Buffer[] = [];
    const waiting: ((message: Buffer) => void)[] = [];
    let link: MemoryLink | null = null;
    const transport = new OwnedTransport({
      server: 'fake',
      kind: 'memory',
      own: async () => new PlayedOwned(),
      make: () =>
        new MemoryTransport('fake', (given) => {
          link = given;
          return {
            receive: (message) => (waiting.shift() ?? ((late) => arrived.push(late)))(message),
            close: () => {},
          };
        }),
    });
    await transport.open(receiver);
    const write = (message: Buffer): void => link?.deliver(message);
    return {
      transport,
      server: {
        next: () => {
          const message = arrived.shift();
          return message ? Promise.resolve(message) : new Promise((resolve) => waiting.push(resolve));
        },
        answer: (_request, message) => write(message),
        emit: (_request, message) => write(message),
        push: write,
        die: () => link?.exit(),
      },
      dispose: async () => {},
    };
  },
});

test('fault:F31 a process that belongs to another node gets no more messages: they are NOT_SENT', async () => {
  const owned = new PlayedOwned();
  const heard: string[] = [];
  const epochs: string[] = [];
  const transport = new OwnedTransport({
    server: 'memory',
    kind: 'memory',
    own: async () => owned,
    make: ({ epoch }) => {
      epochs.push(epoch);
      return new MemoryTransport('memory', () => ({
        receive: (message) => heard.push(message.toString()),
        close: () => {},
      }));
    },
  });
  const receiver = new RecordingReceiver();
  await transport.open(receiver);
  assert.deepEqual(epochs, ['abc.7']);
  owned.isHeld = false;
  assert.equal(transport.silent, true);
  transport.send([Buffer.from('{"id":1}')], { request: 1, method: 'tools/call', headers: null });
  transport.send([Buffer.from('{}')], { request: 0, method: 'notifications/x', headers: null });
  assert.equal((await receiver.loss(1)).outcome, 'NOT_SENT');
  owned.isHeld = true;
  transport.send([Buffer.from('{"id":2}')], { request: 2, method: 'tools/call', headers: null });
  await transport.close('remove');
  assert.deepEqual(
    heard.filter((text) => text !== '{"id":2}'),
    [],
  );
  assert.equal(owned.released, 1);
});

test('fault:F31 a call that waits for its write when the process goes to another node is not written', {
  timeout: 30_000,
}, async () => {
  const owned = new PlayedOwned();
  const transport = new OwnedTransport({
    server: 'fake',
    kind: 'stdio',
    own: async () => owned,
    make: (given) => stdioBench(nodeSpec('server.mjs'), { owned: given }).transport,
  });
  const receiver = new RecordingReceiver();
  await transport.open(receiver);
  const ask = (request: number): void => {
    const text = `{"jsonrpc":"2.0","id":${request},"method":"tools/call","params":{"do":"echo","text":"x"}}`;
    transport.send([Buffer.from(text)], { request, method: 'tools/call', headers: null });
  };
  ask(1);
  owned.isHeld = false;
  const { message, data } = await receiver.loss(1);
  assert.match(message, /does not own the process of fake/);
  assert.deepEqual([data.outcome, data.retryable], ['NOT_SENT', true]);
  owned.isHeld = true;
  ask(2);
  await receiver.answer(2);
  assert.equal(receiver.messages.length, 1, 'the process answered call 1 too');
  await transport.close('interrupt');
});

test('fault:F31 a local process that goes to another node before its start is not started', async (t) => {
  const { transport, receiver, guard, log } = stdioBench(nodeSpec('server.mjs'), { owned: { isHeld: false } });
  t.after(() => transport.close('interrupt'));
  await assert.rejects(transport.open(receiver), /does not own the process of fake/);
  assert.equal(guard.registered.size, 0);
  assert.doesNotMatch(JSON.stringify(log), /process_started/);
});

test('check:H4 the ownership of a process is released once, when the process has ended and its transport is closed', async () => {
  const owned = new PlayedOwned();
  const left = Promise.withResolvers<void>();
  let link: MemoryLink | null = null;
  const transport = new OwnedTransport({
    server: 'memory',
    kind: 'memory',
    own: async () => owned,
    make: () => {
      const inner = new MemoryTransport('memory', (given) => {
        link = given;
        return { receive: () => {}, close: () => {} };
      });
      const close = inner.close.bind(inner);
      inner.close = (how) => left.promise.then(() => close(how));
      return inner;
    },
  });
  const receiver = new RecordingReceiver();
  await transport.open(receiver);
  link!.exit();
  await new Promise(setImmediate);
  assert.equal(owned.released, 0, 'the transport is not closed yet');
  left.resolve();
  await new Promise(setImmediate);
  assert.equal(owned.released, 1);
  await transport.close('remove');
  assert.equal(owned.released, 1);
});

test('the node does not start a process that another node owns', async () => {
  const refusal = new Error('node b owns it');
  const transport = new OwnedTransport({
    server: 'memory',
    kind: 'memory',
    own: () => Promise.reject(refusal),
    make: () => assert.fail('a process was started'),
  });
  await assert.rejects(transport.open(new RecordingReceiver()), refusal);
  await transport.close('remove');
});

test('the environment of a process has the epoch, in a cluster only', () => {
  const transport: StdioSpec = { type: 'stdio', command: 'x', args: [], env: {}, inheritEnv: false, cwd: '/' };
  const server = serverOf('a', { transport });
  const spec = withEpoch(server, 'abc.7').transport as StdioSpec;
  assert.equal(spec.env['TRUNKLINE_EPOCH']?.reveal(), 'abc.7');
  assert.equal(withEpoch(server, ''), server);
});

test('check:H4 ownership that arrives after the connection was closed is released at once', async () => {
  const owned = new PlayedOwned();
  const own = Promise.withResolvers<OwnedProcess>();
  const transport = new OwnedTransport({
    server: 'memory',
    kind: 'memory',
    own: () => own.promise,
    make: () => assert.fail('a process was started'),
  });
  const opened = transport.open(new RecordingReceiver());
  await transport.close('remove');
  own.resolve(owned);
  await assert.rejects(opened, /is closed/);
  assert.equal(owned.released, 1);
});
