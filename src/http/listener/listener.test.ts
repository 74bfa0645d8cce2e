import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { TestAuthority } from '../../../test/support/certificates.ts';
import { until } from '../../../test/support/http-client.ts';
import { BASE_SETTINGS, LANES, listenerRig, post, talk } from '../../../test/support/http-listener.ts';
import { nodeHttp } from '../node-http.ts';
import { ListenError } from './listen-error.ts';
import { Listener } from './listener.ts';
import type { RequestContext } from './request-context.ts';

const get = (path: string, lines = ''): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`;

describe('listener', () => {
  test('a request head has 20 s, and a slow sender is cut within 25 s', async (t) => {
    const made = t.mock.method(nodeHttp, 'createServer');
    await listenerRig(t);
    const limits = made.mock.calls[0]!.arguments[0] as Record<string, unknown>;
    assert.deepEqual([limits['headersTimeout'], limits['connectionsCheckingInterval']], [20_000, 5_000]);
  });

  test('routes by exact path and by one named segment; the query is passed on', async (t) => {
    const { listener, port } = await listenerRig(t);
    const seen: string[] = [];
    const show = (context: RequestContext): void => {
      seen.push(`${context.path}|${context.param}|${context.query}`);
      context.empty(202);
    };
    listener.routes.add('/mcp', { GET: show });
    listener.routes.add('/servers/{name}/mcp', { GET: show });
    for (const path of ['/mcp?a=b?c', '/servers/my-server_1.x/mcp', '/servers/__proto__/mcp?']) {
      assert.deepEqual((await talk(port, get(path))).statuses, [202]);
    }
    assert.deepEqual(seen, [
      '/mcp||a=b?c',
      '/servers/my-server_1.x/mcp|my-server_1.x|',
      '/servers/__proto__/mcp|__proto__|',
    ]);
  });

  test('answers 405 with the allowed methods, and 404 for an unknown path', async (t) => {
    const { port } = await listenerRig(t);
    const wrong = await talk(port, 'DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n');
    assert.deepEqual(wrong.statuses, [405]);
    assert.match(wrong.text, /\r\nAllow: POST, GET\r\n/);
    assert.deepEqual((await talk(port, get('/nothing'))).statuses, [404]);
  });

  test('accepts the names and addresses of loopback, and the allowed names', async (t) => {
    const { port } = await listenerRig(t, { allowedHosts: ['Gateway.Example', 'other.example:8443'] });
    const hosts = [
      'localhost',
      'LOCALHOST:9',
      '127.0.0.1:4270',
      '127.8.8.8',
      '[::1]:80',
      'gateway.example',
      'GATEWAY.example:1',
    ];
    for (const host of [...hosts, 'other.example:8443']) {
      assert.deepEqual((await talk(port, post([], '{}', '/mcp', host), 40)).statuses, [200], host);
    }
    assert.deepEqual((await talk(port, post([], '{}', '/mcp', 'other.example:9'), 40)).statuses, [403]);
  });

  test('bound to every interface, accepts only the address of the connection', async (t) => {
    const { port } = await listenerRig(t, { host: '0.0.0.0' });
    assert.deepEqual((await talk(port, post([], '{}', '/mcp', '127.0.0.1'))).statuses, [200]);
    assert.deepEqual((await talk(port, post([], '{}', '/mcp', '192.0.2.1'))).statuses, [403]);
    assert.deepEqual((await talk(port, post([], '{}', '/mcp', '0.0.0.0'))).statuses, [403]);
  });

  test('accepts pages on loopback and allowed origins; sends CORS to the allowed ones only', async (t) => {
    const { port } = await listenerRig(t, { allowedOrigins: ['https://app.example', 'http://localhost:6274/'] });
    for (const origin of ['http://localhost:1234', 'http://127.0.0.1', 'http://[::1]:5173', 'https://localhost']) {
      const { statuses, text } = await talk(port, post([`Origin: ${origin}`]), 40);
      assert.deepEqual(statuses, [200], origin);
      assert.doesNotMatch(text, /access-control/i, origin);
    }
    for (const origin of ['https://app.example', 'http://localhost:6274']) {
      const { statuses, text } = await talk(port, post([`Origin: ${origin}`]), 40);
      assert.deepEqual(statuses, [200], origin);
      assert.ok(text.includes(`Access-Control-Allow-Origin: ${origin}\r\n`), text);
      assert.match(text, /Access-Control-Expose-Headers: [^\r]*Mcp-Session-Id/);
      assert.match(text, /Vary: Origin/);
    }
    const asked = 'Mcp-Param-Region, MCP-Protocol-Version, X-Evil, Mcp-Param-tenant_id.~1, Authorization';
    const preflight = await talk(
      port,
      `OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: ${asked}\r\n\r\n`,
    );
    assert.deepEqual(preflight.statuses, [204]);
    assert.match(preflight.text, /Access-Control-Allow-Methods: POST, GET\r\n/);
    const allowed = /Access-Control-Allow-Headers: ([^\r]*)/.exec(preflight.text)![1]!.toLowerCase().split(', ');
    const always = ['content-type', 'authorization', 'mcp-session-id', 'last-event-id'];
    for (const name of [...always, 'mcp-param-region', 'mcp-param-tenant_id.~1']) {
      assert.ok(allowed.includes(name), name);
    }
    assert.ok(!allowed.includes('x-evil'));
    assert.doesNotMatch(preflight.text, /Allow-Credentials|Allow-Origin: \*/);
  });

  test('trusts X-Forwarded-* of trusted proxies only', async (t) => {
    const seen: string[] = [];
    const lines = ['X-Forwarded-Host: gw.example', 'X-Forwarded-Proto: http, https'];
    for (const [trustedProxies, host, expected] of [
      [['127.0.0.0/8'], 'inner', 'https://gw.example'],
      [['10.0.0.1'], 'localhost', 'http://localhost'],
      [[], 'localhost', 'http://localhost'],
    ] as const) {
      const { listener, port } = await listenerRig(t, { trustedProxies, allowedHosts: ['gw.example'] });
      listener.routes.add('/mcp', {
        POST: (context) => {
          seen.push(context.publicOrigin);
          context.empty(202);
        },
      });
      assert.deepEqual((await talk(port, post(lines, '{}', '/mcp', host))).statuses, [202]);
      assert.equal(seen.pop(), expected);
    }
    const { port } = await listenerRig(t, { trustedProxies: ['127.0.0.1'] });
    assert.deepEqual((await talk(port, post(['X-Forwarded-Host: evil.example']))).statuses, [403]);
  });

  test('settings can be replaced while it runs', async (t) => {
    const { listener, port } = await listenerRig(t);
    const request = post([], '{"long":"xxxxxxxxxxxxxxxx"}', '/mcp', 'new.example');
    for (let i = 0; i < 2; i++) listener.update({ ...BASE_SETTINGS, host: 'new.example' });
    assert.deepEqual((await talk(port, request)).statuses, [403], 'a new address needs a restart');
    listener.update({ ...BASE_SETTINGS, allowedHosts: ['new.example'] });
    assert.deepEqual((await talk(port, request)).statuses, [200]);
    listener.update({ ...BASE_SETTINGS, allowedHosts: ['new.example'], maxBodyBytes: 5 });
    assert.deepEqual((await talk(port, request)).statuses, [413]);
  });

  test('reads whole bodies in any pieces', async (t) => {
    const { port, reached } = await listenerRig(t);
    const big = JSON.stringify({ text: 'x'.repeat(60_000) });
    assert.deepEqual((await talk(port, post([], big))).statuses, [200]);
    assert.equal(reached.pop(), `/mcp  ${big}`);
    const chunked = `POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; charset=UTF-8\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n`;
    assert.deepEqual((await talk(port, chunked)).statuses, [200]);
    assert.equal(reached.pop(), '/mcp  {"a":1}');
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    const whole = post([], '{"slow":true}');
    for (let at = 0; at < whole.length; at += 20) {
      socket.write(whole.slice(at, at + 20));
      await delay(1);
    }
    await until(() => reached.length === 1);
    assert.equal(reached.pop(), '/mcp  {"slow":true}');
  });

  test('a client with Expect may go on only where its body would be accepted', async (t) => {
    const { port, reached } = await listenerRig(t);
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    let text = '';
    socket.on('data', (chunk) => void (text += chunk));
    socket.write(post(['Expect: 100-continue'], '').replace('Content-Length: 0', 'Content-Length: 2'));
    await until(() => text.includes('100 Continue'));
    socket.write('{}');
    await until(() => text.includes('200 OK'));
    assert.deepEqual(reached, ['/mcp  {}']);
  });

  test('a refusal before the body keeps the connection if the body is small', async (t) => {
    const { port } = await listenerRig(t);
    const { statuses } = await talk(port, post([], '{}', '/nothing') + post());
    assert.deepEqual(statuses, [404, 200]);
  });

  test('routes may define the form of their refusals', async (t) => {
    const { listener, port } = await listenerRig(t);
    listener.routes.add(
      '/rpc',
      { POST: (context) => context.readJson(() => context.empty(202)) },
      {
        render: ({ message }) => JSON.stringify({ jsonrpc: '2.0', error: { code: -32600, message } }),
        maxBodyBytes: 10,
      },
    );
    for (const bytes of [
      post(['Origin: null'], '{}', '/rpc'),
      post([], '"larger than 10"', '/rpc'),
      get('/rpc'),
      'POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}',
    ]) {
      const { text } = await talk(port, bytes);
      const body = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));
      assert.equal(body.error.code, -32600, text);
    }
  });

  for (const [fastPath, lines] of Object.entries(LANES)) {
    test(`a handler that throws is answered with 500 and logged, without its message in the answer (${fastPath})`, async (t) => {
      const { listener, port, logged } = await listenerRig(t);
      listener.routes.add('/boom', {
        GET: () => {
          throw new Error('inner secret');
        },
      });
      const { statuses, text } = await talk(port, get('/boom', lines));
      assert.deepEqual(statuses, [500]);
      assert.doesNotMatch(text, /inner secret/);
      assert.match(logged.join(), /request_failed.*inner secret/);
    });
  }

  for (const [fastPath, lines] of Object.entries(LANES)) {
    test(`notifies a handler once when its client goes away, and not when the answer is out (${fastPath})`, async (t) => {
      const { listener, port } = await listenerRig(t);
      let gone = 0;
      let waiting = 0;
      listener.routes.add('/wait', {
        GET: (context) => {
          waiting += 1;
          context.onDisconnect(() => gone++);
          if (context.query === 'now') context.json(200, '{}');
        },
      });
      await talk(port, get('/wait?now', lines));
      const socket = connect(port, '127.0.0.1', () => socket.write(get('/wait', lines)));
      await until(() => waiting === 2);
      assert.equal(gone, 0);
      socket.destroy();
      await until(() => gone === 1);
    });
  }

  for (const [fastPath, lines] of Object.entries(LANES)) {
    test(`a client that does not read its answer is closed; one that reads slowly is not (${fastPath})`, async (t) => {
      const { listener, port } = await listenerRig(t, {}, { stallMs: 600 });
      const body = Buffer.alloc(14 * 1024 * 1024, 'x');
      let gone = 0;
      listener.routes.add('/large', {
        GET: (context) => {
          context.onDisconnect(() => gone++);
          context.answer(200, 'text/plain', body);
        },
      });
      const [stuck, slow] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')];
      t.after(() => [stuck.destroy(), slow.destroy()]);
      for (const socket of [stuck, slow]) socket.write(get('/large', lines));
      let received = 0;
      slow.on('data', (chunk) => {
        received += chunk.length;
        slow.pause();
        setTimeout(() => slow.resume(), 4);
      });
      await until(() => gone === 1);
      await until(() => received > body.length);
      assert.equal(gone, 1);
    });
  }

  for (const [fastPath, lines] of Object.entries(LANES)) {
    test(`only the first of several answers counts (${fastPath})`, async (t) => {
      const { listener, port } = await listenerRig(t);
      listener.routes.add('/twice', {
        GET: (context) => {
          context.answer(200, 'text/plain', [Buffer.from('fi'), Buffer.from('rst')]);
          context.json(500, '{}');
          context.refuse({ status: 400, code: 'late', message: 'late' });
          context.empty(202);
        },
      });
      const { statuses, text } = await talk(port, get('/twice', lines));
      assert.deepEqual(statuses, [200]);
      assert.ok(text.endsWith('\r\n\r\nfirst'));
    });
  }
});

describe('life of a listener', () => {
  test('a port in use is reported with the flag that chooses another', async (t) => {
    const { port } = await listenerRig(t);
    const second = new Listener({
      settings: { ...BASE_SETTINGS, port },
      log: { info() {}, warn() {}, error() {} },
      portFlag: '--control-port',
    });
    await assert.rejects(second.listen(), (error: unknown) => {
      assert.ok(error instanceof ListenError);
      assert.equal(error.code, 'EADDRINUSE');
      assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${port} is in use.*--control-port`));
      return true;
    });
    await second.close();
    const nowhere = new Listener({
      settings: { ...BASE_SETTINGS, host: '192.0.2.1' },
      log: { info() {}, warn() {}, error() {} },
    });
    await assert.rejects(nowhere.listen(), /192\.0\.2\.1 is not an address of this machine/);
  });

  for (const [fastPath, lines] of Object.entries(LANES)) {
    test(`draining: no new connections, answers under way go out, the connection then closes (${fastPath})`, async (t) => {
      const { listener, port } = await listenerRig(t);
      const contexts: RequestContext[] = [];
      listener.routes.add('/slow', { GET: (context) => void contexts.push(context) });
      const slow = talk(port, get('/slow', lines));
      await until(() => contexts.length === 1);
      listener.stopAccepting();
      await assert.rejects(
        new Promise((resolve, reject) => connect(port, '127.0.0.1').on('connect', resolve).on('error', reject)),
      );
      const closed = listener.close(5_000);
      await delay(30);
      contexts[0]!.json(200, '{"done":true}');
      const { text, closed: ended } = await slow;
      assert.match(text, /"done":true/);
      assert.equal(ended, true);
      await closed;
    });
  }

  for (const [fastPath, lines] of Object.entries(LANES)) {
    test(`fault:F33 draining: a request sent while the event loop is blocked is answered (${fastPath})`, async (t) => {
      const { listener, port } = await listenerRig(t);
      const socket = connect(port, '127.0.0.1');
      t.after(() => socket.destroy());
      let text = '';
      socket.on('data', (bytes) => (text += bytes));
      const answers = (): number => text.split('HTTP/1.1 200').length - 1;
      socket.write(get('/mcp', lines));
      await until(() => answers() === 1);
      const restMs = 1_000;
      const end = performance.now() + restMs;
      const drained = listener.stopAccepting(restMs);
      await delay(50);
      // Due timers run next, before the socket is read.
      await new Promise((resolve) => setImmediate(resolve));
      socket.write(get('/mcp', lines));
      while (performance.now() < end + 100);
      await until(() => answers() === 2);
      assert.match(text.slice(text.lastIndexOf('HTTP/1.1 200')), /connection: close/i);
      await drained;
    });
  }

  for (const [fastPath, lines] of Object.entries(LANES)) {
    test(`close ends open streams and waiting requests when the grace is over (${fastPath})`, async (t) => {
      const { listener, port } = await listenerRig(t);
      listener.routes.add('/stream', { GET: (context) => void context.openSse() });
      listener.routes.add('/never', { GET: () => {} });
      const open = [talk(port, get('/stream', lines), 5_000), talk(port, get('/never', lines))];
      await until(() => listener.wheel.open === 1);
      await listener.close(50);
      for (const { closed } of await Promise.all(open)) assert.equal(closed, true);
      await until(() => listener.wheel.open === 0);
    });
  }

  test('serves TLS and loads a certificate renewed on disk', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-tls-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const files = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') };
    const authority = new TestAuthority();
    const write = (name: string): void => {
      const { cert, key } = authority.issue({ name, hosts: ['localhost'] });
      writeFileSync(files.keyFile, key);
      writeFileSync(files.certFile, cert);
    };
    write('first');
    const { port, logged } = await listenerRig(t, { tls: files });
    const ask = (): Promise<{ name: string; text: string }> =>
      new Promise((resolve, reject) => {
        const socket = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ca: authority.cert }, () => {
          const name = String(socket.getPeerCertificate().subject.CN);
          socket.write(get('/mcp', 'Connection: close\r\n'));
          let text = '';
          socket.on('data', (chunk) => void (text += chunk));
          socket.on('end', () => resolve({ name, text }));
        });
        socket.on('error', reject);
      });
    const first = await ask();
    assert.equal(first.name, 'first');
    assert.match(first.text, /^HTTP\/1\.1 200/);
    await delay(20);
    writeFileSync(files.certFile, 'half written');
    await until(() => logged.some((line) => line.startsWith('certificate_unusable')));
    assert.equal((await ask()).name, 'first');
    write('second');
    await until(() => logged.some((line) => line.startsWith('certificate_reloaded')));
    assert.equal((await ask()).name, 'second');
    // Plain HTTP is not answered there.
    assert.deepEqual((await talk(port, get('/mcp'))).statuses, []);
  });
});
