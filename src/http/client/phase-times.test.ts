import assert from 'node:assert/strict';
import { type LookupFunction, Socket } from 'node:net';
import { afterEach, test } from 'node:test';
import { createSecureContext, createServer } from 'node:tls';
import { TestAuthority } from '../../../test/support/certificates.ts';
import { closeAll, failureOf, listenRaw, onCleanUp, send } from '../../../test/support/http-client.ts';
import { type Clock, systemClock } from '../../model/clock.ts';
import { openHttpClient } from './open-http-client.ts';
import { PhaseTimes, timeConnect } from './phase-times.ts';
import { Resolver } from './resolver.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

afterEach(closeAll);

/** A clock that advances only by `takes`. */
class HandTurned implements Clock {
  #now = 1_000;
  readonly after = systemClock.after.bind(systemClock);

  now(): number {
    return this.#now;
  }

  turnNow(): number {
    return this.#now;
  }

  wall(): number {
    return this.#now;
  }

  takes(ms: number): void {
    this.#now += ms;
  }
}

function slowNames(clock: HandTurned, ms: number): Resolver {
  return new Resolver({
    clock,
    lookup: (_name, answer) => {
      setImmediate(() => {
        clock.takes(ms);
        answer(null, [{ address: '127.0.0.1', family: 4 }]);
      });
    },
  });
}

const POST = { method: 'POST', path: '/', headers: [], body: [Buffer.from('{}')] };

test('check:J1 plain HTTP: name, connection and first byte are measured separately; a kept connection has only the last', async () => {
  const clock = new HandTurned();
  const phases = new PhaseTimes();
  const port = await listenRaw((socket) => {
    socket.on('data', () => {
      clock.takes(1_800);
      socket.write(OK);
    });
  });
  assert.equal(phases.figures(), null);
  const client = openHttpClient(`http://slow.test:${port}`, { clock, phases, resolver: slowNames(clock, 100) });
  onCleanUp(() => client.close());
  await send(client, POST);
  await send(client, POST);
  const figures = phases.figures();
  assert.deepEqual(figures?.dns, { lastMs: 100, p50Ms: 100, p95Ms: 100, count: 1 });
  assert.deepEqual(figures?.tcp, { lastMs: 0, p50Ms: 0, p95Ms: 0, count: 1 });
  assert.equal(figures?.tls, null);
  assert.deepEqual(figures?.firstByte, { lastMs: 1_800, p50Ms: 1_800, p95Ms: 1_800, count: 2 });
  assert.equal(figures?.slowest, 'firstByte');
  assert.equal(figures?.summary, 'slow to the first byte: 1.8 s of 1.9 s');
});

test('check:J1 TLS: the time of the handshake is separate', async () => {
  const authority = new TestAuthority();
  const certified = authority.issue({ name: 'localhost', hosts: ['slow.test'] });
  const clock = new HandTurned();
  const phases = new PhaseTimes();
  const server = createServer(
    {
      ...certified,
      SNICallback: (_name, done) => {
        clock.takes(700);
        done(null, createSecureContext(certified));
      },
    },
    (socket) => {
      socket.on('error', () => {});
      socket.on('data', () => {
        clock.takes(40);
        socket.write(OK);
      });
    },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onCleanUp(() => server.close());
  const { port } = server.address() as { port: number };
  const client = openHttpClient(`https://slow.test:${port}`, {
    clock,
    phases,
    resolver: slowNames(clock, 5),
    tls: { ca: authority.cert },
  });
  onCleanUp(() => client.close());
  await send(client, POST);
  const figures = phases.figures();
  const last = [figures?.dns, figures?.tcp, figures?.tls, figures?.firstByte].map((each) => each?.lastMs);
  assert.deepEqual(last, [5, 0, 700, 40]);
  assert.equal(figures?.summary, 'slow to agree on a secure connection (TLS): 700 ms of 745 ms');
});

test('check:J1 an abandoned answer counts with the time until then; a stream that is awaited does not', async () => {
  const clock = new HandTurned();
  const phases = new PhaseTimes();
  const asked = Promise.withResolvers<void>();
  const port = await listenRaw((socket) => {
    socket.on('data', (bytes) => {
      if (bytes.includes('POST')) asked.resolve();
    });
  });
  const client = openHttpClient(`http://127.0.0.1:${port}`, { clock, phases });
  onCleanUp(() => client.close());
  const quiet = { head: () => 'whole' as const, data: () => {}, end: () => {}, error: () => {} };
  const running = client.request(POST, quiet);
  const listening = client.request({ method: 'GET', path: '/', headers: [], body: [] }, quiet);
  await asked.promise;
  clock.takes(30_000);
  running.abort();
  listening.abort();
  assert.deepEqual(phases.figures()?.firstByte, { lastMs: 30_000, p50Ms: 30_000, p95Ms: 30_000, count: 1 });
  assert.equal(phases.figures()?.dns, null);
});

test('check:J1 a long lookup that does not find the name is shown as slow', async () => {
  const clock = new HandTurned();
  const phases = new PhaseTimes();
  const lookup: LookupFunction = (_name, _options, callback) => {
    const error = Object.assign(new Error('not found'), { code: 'ENOTFOUND', syscall: 'getaddrinfo' });
    setImmediate(() => {
      clock.takes(4_000);
      callback(error, '');
    });
  };
  const resolver = Object.assign(new Resolver({ clock }), { lookup });
  const client = openHttpClient('http://nowhere.test:1', { clock, phases, resolver });
  onCleanUp(() => client.close());
  assert.equal(failureOf(await send(client, POST)).kind, 'dns');
  assert.equal(phases.figures()?.summary, 'slow to look its name up (DNS): 4.0 s of 4.0 s');
});

test('an address that accepts no connection does not count as reached, even after a long attempt', () => {
  const clock = new HandTurned();
  const phases = new PhaseTimes();
  const [silent, open] = [new Socket(), new Socket()];
  timeConnect(silent, '192.0.2.1', false, phases, clock);
  clock.takes(5_000);
  silent.emit('close', false);
  assert.equal(phases.figures()?.tcp?.lastMs, 5_000);
  assert.equal(phases.reached, false);
  timeConnect(open, '192.0.2.1', false, phases, clock);
  open.emit('connect');
  assert.equal(phases.reached, true);
});

test('the percentiles are those of the last 128 times', () => {
  const phases = new PhaseTimes();
  for (let i = 0; i < 1_000; i++) phases.add('firstByte', 9_999);
  for (let i = 1; i <= 128; i++) phases.add('firstByte', i);
  assert.deepEqual(phases.figures()?.firstByte, { lastMs: 128, p50Ms: 64, p95Ms: 122, count: 1_128 });
  assert.equal(phases.figures()?.summary, 'quick; most of it to the first byte: 64 ms of 64 ms');
});
