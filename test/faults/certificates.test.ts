import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createSecureContext, TLSSocket } from 'node:tls';
import { type Certified, TestAuthority } from '../support/certificates.ts';
import { FaultBench } from './fault-bench.ts';
import { LedgerHttpProcess } from './ledger/ledger-process.ts';

const DAY_MS = 86_400_000;
const authority = new TestAuthority();
const stranger = new TestAuthority('Stranger');

const issue = (request: { hosts?: string[]; from?: Date; to?: Date }): Certified =>
  authority.issue({ name: 'server', hosts: ['localhost'], ...request });

/** Each with a pattern of its reason in the status. With null the server closes the connection in the handshake. */
const BAD: Readonly<Record<string, readonly [Certified | null, RegExp]>> = {
  late: [issue({ from: new Date(Date.now() - 2 * DAY_MS), to: new Date(Date.now() - DAY_MS) }), /CERT_HAS_EXPIRED/],
  early: [issue({ from: new Date(Date.now() + DAY_MS) }), /CERT_NOT_YET_VALID/],
  misnamed: [issue({ hosts: ['other.example'] }), /ERR_TLS_CERT_ALTNAME_INVALID/],
  untrusted: [stranger.issue({ name: 'server', hosts: ['localhost'] }), /UNABLE_TO_|SELF_SIGNED/],
  cut: [null, /before secure TLS connection/],
};
/** Text that would reveal the certificates or the network behind the gateway to a client. */
const TELLING =
  /certificat|expired|CERT_|UNABLE_TO|altname|issuer|self.signed|TLS connection|socket|localhost|other\.example/i;

test('fault:F27 five bad certificates and handshakes: calls are NOT_SENT, only the status has the reason, no plaintext is sent', async (t) => {
  const bench = new FaultBench(t);
  const remote = await LedgerHttpProcess.start(bench.ledger('good'), 'stateful');
  t.after(() => remote.kill());
  const ca = join(bench.folder, 'ca.pem');
  writeFileSync(ca, authority.cert);
  const good = await TlsProxy.start(t, issue({}), remote.port);
  const proxies = new Map<string, TlsProxy>();
  for (const [name, [certified]] of Object.entries(BAD)) {
    proxies.set(name, await TlsProxy.start(t, certified, remote.port));
  }
  const over = (proxy: TlsProxy): Record<string, unknown> => ({
    type: 'http',
    url: `https://localhost:${proxy.port}/mcp`,
    tls: { ca },
  });
  const bad = [...proxies].map(([name, proxy]) => [name, over(proxy)] as const);
  await bench.start({ good: over(good), ...Object.fromEntries(bad) });
  await bench.gateway.ready('good');
  const aggregate = await bench.opened('one');
  for (const [name, [, reasonIs]] of Object.entries(BAD)) {
    const attempt = await aggregate.call(`${name}__unsafe`, {}, { own: 'unsafe' });
    assert.equal(attempt.ending, 'NOT_SENT', attempt.reason);
    assert.doesNotMatch(attempt.reason, TELLING);
    const alone = bench.client(`alone-${name}`, 'stateless', name);
    const direct = await alone.call('unsafe');
    assert.equal(direct.ending, 'NOT_SENT', direct.reason);
    assert.doesNotMatch(direct.reason, TELLING);
    assert.doesNotMatch(JSON.stringify(await alone.request('tools/list')), TELLING);
    assert.doesNotMatch(JSON.stringify(await alone.request('server/discover')), TELLING);
    const { state, reason } = await bench.status(name);
    assert.match(state, /^(?:failed|unreachable|starting)$/);
    assert.match(String(reason), reasonIs);
    const proxy = proxies.get(name)!;
    assert.ok(proxy.connections > 0, `${name}: no connection was made`);
    assert.equal(proxy.decrypted, 0, `${name} received data`);
    assert.equal(proxy.inTheClear, 0, `${name} received plaintext`);
  }
  const through = await aggregate.call('good__unsafe');
  assert.equal(through.ending, 'RESULT', through.reason);
  assert.ok(good.decrypted > 0);
  assert.deepEqual(bench.violations(['good']), []);
});

/** TLS in front of a port of this machine. Counts decrypted bytes, and bytes that were not TLS. */
class TlsProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  connections = 0;
  decrypted = 0;
  inTheClear = 0;

  static async start(t: TestContext, certified: Certified | null, target: number): Promise<TlsProxy> {
    const proxy = new TlsProxy(certified, target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, 'localhost', resolve));
    t.after(() => {
      proxy.#server.close();
      for (const socket of proxy.#sockets) socket.destroy();
    });
    return proxy;
  }

  private constructor(certified: Certified | null, target: number) {
    const secureContext = certified === null ? null : createSecureContext(certified);
    this.#server = createServer((raw) => {
      this.connections++;
      this.#sockets.add(raw);
      raw.on('error', () => {}).on('close', () => this.#sockets.delete(raw));
      raw.once('readable', () => {
        const first = raw.read() as Buffer | null;
        if (first === null) return;
        // A TLS record of kind handshake.
        if (first[0] !== 0x16) this.inTheClear += first.length;
        if (secureContext === null) raw.end();
        else {
          raw.unshift(first);
          this.#speak(new TLSSocket(raw, { isServer: true, secureContext }), target);
        }
      });
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  #speak(near: TLSSocket, target: number): void {
    const far = connect(target, '127.0.0.1');
    near.on('data', (bytes: Buffer) => {
      this.decrypted += bytes.length;
    });
    near.on('error', () => far.destroy()).pipe(far);
    far.on('error', () => near.destroy()).pipe(near);
  }
}
