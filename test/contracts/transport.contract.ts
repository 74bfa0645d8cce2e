import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Outgoing, Transport, TransportReceiver } from '../../src/upstream/transport/transport.ts';
import { RecordingReceiver } from './recording-receiver.ts';

/** How the suite gets a transport with a server behind it that the test plays itself. */
export interface TransportHarness {
  /** Shown in the titles. */
  readonly name: string;
  /** The server can send messages without a request (`FakeServer.push`). */
  readonly pushes: boolean;
  /** The server can send more than the answer on a request's way (`FakeServer.emit`). */
  readonly emits: boolean;
  /** The connection ends with its server, and `closed` reports it; false if every request connects anew. */
  readonly endsWithServer: boolean;
  /** Resolves when the transport is open, and negotiated where its wire needs that. */
  start(receiver: TransportReceiver): Promise<TransportBench>;
}

export interface TransportBench {
  readonly transport: Transport;
  readonly server: FakeServer;
  /** Frees what `start` made beside the transport. Called after `transport.close`. */
  dispose(): Promise<void>;
}

export interface FakeServer {
  /** The next message of ours that reached the server, in order of arrival, without framing; waits for it. */
  next(): Promise<Buffer>;
  /** Answers request `request` with these bytes as one message; on its own stream where the wire has one. */
  answer(request: number, message: Buffer): void;
  /** Sends a message on the way of `request` before its answer. */
  emit(request: number, message: Buffer): void;
  /** Sends a message on the connection's common channel. */
  push(message: Buffer): void;
  /** Vanishes at once, as by `kill -9`. Later connections are refused. */
  die(): void;
}

const MIB = 1024 * 1024;
/** Long enough for a wrong event to arrive late. */
const SETTLE_MS = 60;

/** What every `Transport` promises, whatever its wire. */
export function transportContract(harness: TransportHarness): void {
  describe(`transport contract: ${harness.name}`, () => {
    let receiver: RecordingReceiver;

    function scenario(title: string, run: (transport: Transport, server: FakeServer) => Promise<void>): void {
      test(title, { timeout: 30_000 }, async () => {
        receiver = new RecordingReceiver();
        const bench = await harness.start(receiver);
        try {
          await run(bench.transport, bench.server);
        } finally {
          await bench.transport.close('interrupt');
          await bench.dispose();
        }
      });
    }

    scenario(`S4.2 [${harness.name}] a message reaches the server byte for byte`, async (transport, server) => {
      const odd =
        ' {"params" :{"n":12345678901234567890,"x":1.0,"\\u00e9":"é\\n"},"id":1, "method":"a","jsonrpc":"2.0"}';
      const bytes = Buffer.from(odd);
      transport.send([bytes.subarray(0, 7), bytes.subarray(7, 8), bytes.subarray(8)], request(1));
      assert.equal((await server.next()).toString(), odd);
      server.answer(1, result(1));
      await receiver.answer(1);
    });

    scenario(`S4.2 [${harness.name}] an answer reaches the receiver byte for byte`, async (transport, server) => {
      const odd = Buffer.from(
        '{"result":{"n":1e400,"big":12345678901234567890,"future":[1.0,{}],"s":"\\ud800 é"},"jsonrpc":"2.0","id":1}',
      );
      transport.send([call(1)], request(1));
      await server.next();
      server.answer(1, odd);
      const answer = await receiver.answer(1);
      assert.equal(answer.bytes.toString('latin1'), odd.toString('latin1'));
      assert.equal(answer.request, transport.streamPerRequest ? 1 : 0);
    });

    scenario(`S4.2 [${harness.name}] received messages do not change later`, async (transport, server) => {
      for (let id = 1; id <= 20; id++) {
        transport.send([call(id)], request(id));
        await server.next();
        server.answer(id, result(id, String.fromCharCode(96 + id).repeat(5000)));
        await receiver.answer(id);
      }
      const texts = receiver.messages.map(({ bytes }) => bytes.toString());
      assert.deepEqual(
        texts,
        Array.from({ length: 20 }, (_, i) => result(i + 1, String.fromCharCode(97 + i).repeat(5000)).toString()),
      );
    });

    if (harness.pushes) {
      scenario(`S4.2 [${harness.name}] pushed messages arrive in order, on the common channel`, async (_, server) => {
        const sent = Array.from({ length: 300 }, (_, i) => notification(`n/${i}`).toString());
        for (const text of sent) server.push(Buffer.from(text));
        await receiver.until(() => receiver.messages.length === sent.length);
        assert.deepEqual(
          receiver.messages.map(({ bytes }) => bytes.toString()),
          sent,
        );
        assert.ok(receiver.messages.every(({ request }) => request === 0));
      });
    }

    if (harness.emits) {
      scenario(`S4.2 [${harness.name}] messages of a request arrive before its answer`, async (transport, server) => {
        transport.send([call(1)], request(1));
        await server.next();
        server.emit(1, notification('notifications/progress'));
        server.emit(1, notification('notifications/message'));
        server.answer(1, result(1));
        await receiver.answer(1);
        assert.deepEqual(
          receiver.messages.map(({ bytes, request }) => [JSON.parse(bytes.toString()).method ?? 'answer', request]),
          ['notifications/progress', 'notifications/message', 'answer'].map((what) => [
            what,
            transport.streamPerRequest ? 1 : 0,
          ]),
        );
      });
    }

    scenario(
      `S4.2 [${harness.name}] many requests at once, answered out of order, each once`,
      async (transport, server) => {
        const count = 100;
        for (let id = 1; id <= count; id++) transport.send([call(id)], request(id));
        const ids = new Set<number>();
        while (ids.size < count) ids.add(JSON.parse((await server.next()).toString()).id);
        for (const id of [...ids].sort((a, b) => b - a)) server.answer(id, result(id));
        for (let id = 1; id <= count; id++) await receiver.answer(id);
        assert.equal(receiver.messages.length, count);
        assert.deepEqual(receiver.losses, []);
      },
    );

    scenario(`S4.2 [${harness.name}] 5 MiB each way`, async (transport, server) => {
      const text = 'x"\\é'.repeat(MIB);
      const big = call(1, text);
      transport.send([big.subarray(0, MIB), big.subarray(MIB)], request(1));
      assert.ok((await server.next()).equals(big));
      server.answer(1, result(1, text));
      assert.ok((await receiver.answer(1)).bytes.equals(result(1, text)));
    });

    scenario(`S4.2 [${harness.name}] no message or loss follows a notification`, async (transport, server) => {
      transport.send([notification('notifications/cancelled')], {
        request: 0,
        method: 'notifications/cancelled',
        headers: null,
      });
      assert.equal(JSON.parse((await server.next()).toString()).method, 'notifications/cancelled');
      server.die();
      transport.send([notification('notifications/cancelled')], {
        request: 0,
        method: 'notifications/cancelled',
        headers: null,
      });
      await settle();
      assert.deepEqual(receiver.losses, []);
      assert.deepEqual(receiver.messages, []);
    });

    scenario(
      `S4.2 [${harness.name}] the server dies during a call: lost once, UNKNOWN, nothing else`,
      async (transport, server) => {
        transport.send([call(1)], request(1));
        transport.send([call(2)], request(2));
        await server.next();
        await server.next();
        server.answer(1, result(1));
        await receiver.answer(1);
        server.die();
        const loss = await receiver.loss(2);
        assert.equal(loss.outcome, 'UNKNOWN');
        assert.equal(loss.data.sent, true);
        await settle();
        assert.deepEqual(
          receiver.losses.map(({ request }) => request),
          [2],
        );
        if (harness.endsWithServer) {
          await receiver.until(() => receiver.closedReasons.length > 0);
          assert.deepEqual(receiver.order.slice(-2), ['lost 2', 'closed']);
          assert.equal(receiver.closedReasons.length, 1);
        }
      },
    );

    scenario(
      `S4.2 [${harness.name}] a message after the server's death is NOT_SENT, not lost in silence`,
      async (transport, server) => {
        server.die();
        if (harness.endsWithServer) await receiver.until(() => receiver.closedReasons.length > 0);
        transport.send([call(1)], request(1));
        const loss = await receiver.loss(1);
        assert.equal(loss.outcome, 'NOT_SENT');
        assert.equal(loss.data.sent, false);
      },
    );

    scenario(`S4.2 [${harness.name}] an abandoned request is never lost`, async (transport, server) => {
      transport.send([call(1)], request(1));
      transport.send([call(2)], request(2));
      await server.next();
      await server.next();
      transport.abandon(1);
      transport.abandon(1);
      transport.abandon(77);
      server.die();
      await receiver.loss(2);
      await settle();
      assert.deepEqual(
        receiver.losses.map(({ request }) => request),
        [2],
      );
    });

    scenario(
      `S4.2 [${harness.name}] close reports calls in flight at once, and nothing later`,
      async (transport, server) => {
        transport.send([call(1)], request(1));
        transport.send([call(2)], request(2));
        await server.next();
        await server.next();
        const first = transport.close('interrupt');
        assert.deepEqual(
          receiver.losses.map(({ request, error }) => [request, error.outcome]),
          [
            [1, 'UNKNOWN'],
            [2, 'UNKNOWN'],
          ],
        );
        const reported = receiver.order.length;
        server.answer(1, result(1));
        if (harness.pushes) server.push(notification('late'));
        transport.send([call(3)], request(3));
        await Promise.all([first, transport.close('remove'), transport.close('shutdown')]);
        transport.send([call(4)], request(4));
        transport.abandon(1);
        await settle();
        assert.equal(receiver.order.length, reported);
        assert.deepEqual(receiver.closedReasons, []);
      },
    );

    scenario(`S4.2 [${harness.name}] close after the server's death resolves`, async (transport, server) => {
      server.die();
      if (harness.endsWithServer) await receiver.until(() => receiver.closedReasons.length > 0);
      await transport.close('remove');
      await transport.close('remove');
      assert.ok(receiver.closedReasons.length <= 1);
    });
  });
}

function request(id: number): Outgoing {
  return { request: id, method: 'tools/call', headers: null };
}

function call(id: number, text = 'hello'): Buffer {
  const params = { name: 'echo', arguments: { text } };
  return Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }));
}

function result(id: number, text = 'hello'): Buffer {
  return Buffer.from(JSON.stringify({ result: { content: [{ type: 'text', text }] }, jsonrpc: '2.0', id }));
}

function notification(method: string): Buffer {
  return Buffer.from(JSON.stringify({ jsonrpc: '2.0', method }));
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}
