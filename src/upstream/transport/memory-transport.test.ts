import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecordingReceiver } from '../../../test/contracts/recording-receiver.ts';
import { transportContract } from '../../../test/contracts/transport.contract.ts';
import { settled } from '../../../test/support/fake-clock.ts';
import { RecordingLog } from '../../../test/support/stdio-bench.ts';
import { type MemoryLink, type MemoryServer, MemoryTransport } from './memory-transport.ts';

transportContract({
  name: 'memory',
  pushes: true,
  emits: true,
  endsWithServer: true,
  async start(receiver) {
    const arrived: Buffer[] = [];
    const waiting: ((message: Buffer) => void)[] = [];
    let link: MemoryLink | null = null;
    const transport = new MemoryTransport('fake', (given) => {
      link = given;
      return {
        receive: (message) => (waiting.shift() ?? ((late) => arrived.push(late)))(message),
        close: () => {},
      };
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

const PING = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}');
const OUTGOING = { request: 1, method: 'ping', headers: null };

test('a server in memory exchanges copies of messages', async () => {
  const receiver = new RecordingReceiver();
  const transport = new MemoryTransport('fake', (link): MemoryServer => {
    return {
      receive: (message) => {
        message.fill(0x20);
        const answer = Buffer.from('{"jsonrpc":"2.0","id":1,"result":{}}');
        link.deliver(answer);
        answer.fill(0x20);
      },
      close: () => {},
    };
  });
  await transport.open(receiver);
  const mine = Buffer.from(PING);
  transport.send([mine], OUTGOING);
  await receiver.answer(1);
  assert.ok(mine.equals(PING));
  assert.equal(receiver.messages[0]?.bytes.toString(), '{"jsonrpc":"2.0","id":1,"result":{}}');
  await transport.close('remove');
});

test('answers in a batch are delivered when the server ends', async () => {
  const receiver = new RecordingReceiver();
  let link: MemoryLink | null = null;
  const transport = new MemoryTransport('fake', (own) => {
    link = own;
    return { receive: () => {}, close: () => {} };
  });
  await transport.open(receiver);
  for (const request of [1, 2, 3]) transport.send([PING], { ...OUTGOING, request });
  link!.deliver('[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":3,"result":{}}]');
  link!.exit();
  await receiver.until(() => receiver.closedReasons.length > 0);
  assert.deepEqual(
    receiver.losses.map(({ request }) => request),
    [2],
  );
});

test('a server in memory that throws has crashed: calls are UNKNOWN, then it is closed', async () => {
  const receiver = new RecordingReceiver();
  const transport = new MemoryTransport('fake', () => ({
    receive: () => {
      throw new Error('boom');
    },
    close: () => {},
  }));
  await transport.open(receiver);
  transport.send([PING], OUTGOING);
  assert.equal((await receiver.loss(1)).outcome, 'UNKNOWN');
  assert.equal(receiver.closedReasons[0]?.kind, 'protocol');
});

test('open fails with NOT_SENT if the server in memory cannot be made', async () => {
  const transport = new MemoryTransport('fake', () => {
    throw new Error('no such thing');
  });
  await assert.rejects(transport.open(new RecordingReceiver()), { code: 'NOT_SENT', message: /no such thing/ });
});

test('a server in memory that throws or rejects when it is closed is closed all the same, and the reason is logged', async () => {
  const log = new RecordingLog();
  const closes = [
    () => {
      throw new Error('boom');
    },
    async () => {
      throw new Error('later');
    },
  ];
  for (const close of closes) {
    const transport = new MemoryTransport('fake', () => ({ receive: () => {}, close }), log);
    await transport.open(new RecordingReceiver());
    await transport.close('remove');
  }
  await settled();
  assert.deepEqual(log.of('server_close_failed'), [{ error: 'boom' }, { error: 'later' }]);
});
