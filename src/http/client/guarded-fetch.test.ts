import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { freePort } from '../../../test/support/free-port.ts';
import { EgressRefused, FetchFailed, guardedDownload, guardedFetch } from './guarded-fetch.ts';
import { Resolver } from './resolver.ts';

/** Spellings of addresses of this machine and its network. */
const INSIDE = [
  ...[
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0177.0.0.1',
    '017700000001',
    '127.255.255.254',
  ],
  ...['0', '0.0.0.0', '00.0.0.0', '0x0', '10.0.0.1', '10.1', '0xa.0.0.1', '012.0.0.1', '167772161', '100.64.0.1'],
  ...[
    '169.254.169.254',
    '169.254.43518',
    '0xa9fea9fe',
    '2852039166',
    '0251.0376.0251.0376',
    '172.16.0.1',
    '172.31.255.255',
  ],
  ...['192.168.0.1', '192.168.1', '3232235521', '192.0.0.8', '192.0.2.1', '198.18.0.1', '198.51.100.1', '203.0.113.1'],
  ...['224.0.0.1', '240.0.0.1', '255.255.255.255', 'localhost', 'LOCALHOST'],
  ...[
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:10.0.0.1]',
    '[::ffff:a9fe:a9fe]',
  ],
  ...[
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::10.0.0.1]',
    '[64:ff9b:1::1]',
    '[2002:7f00:1::]',
    '[2002:a00:1::]',
  ],
  ...['[fc00::1]', '[fd12:3456::1]', '[fe80::1]', '[fec0::1]', '[ff02::1]', '[2001:db8::1]', '[2001::1]', '[100::1]'],
  ...['[3fff::1]', '[5f00::1]', '１２７.0.0.1', '127。0。0。1', '%31%32%37.0.0.1', '①②⑦.0.0.1'],
];

interface Wire {
  port: number;
  hits: number;
  connected: () => void;
}

async function tripwire(t: TestContext, listener: RequestListener): Promise<Wire> {
  const wire: Wire = { port: 0, hits: 0, connected: () => {} };
  const server = createServer((request, response) => {
    wire.hits++;
    listener(request, response);
  });
  server.on('connection', () => wire.connected());
  await new Promise<void>((open) => server.listen(0, '0.0.0.0', open));
  t.after(() => server.close());
  wire.port = (server.address() as AddressInfo).port;
  return wire;
}

test('goal:G19 proto:T10 no spelling of an address of this machine or its network is reached', async (t) => {
  assert.ok(INSIDE.length >= 60, String(INSIDE.length));
  const wire = await tripwire(t, (_request, response) => response.end('{}'));
  const fetch = guardedFetch(new Resolver(), false);
  for (const host of INSIDE) {
    for (const scheme of ['https', 'http']) {
      await assert.rejects(fetch(`${scheme}://${host}:${wire.port}/`), EgressRefused, `${scheme}://${host}`);
    }
  }
  assert.equal(wire.hits, 0);
});

test('goal:G19 a name that resolves to an internal address, alone or after a public one, is not reached', async (t) => {
  const wire = await tripwire(t, (_request, response) => response.end('{}'));
  const answers = [
    [{ address: '127.0.0.1', family: 4 }],
    [
      { address: '93.184.216.34', family: 4 },
      { address: '10.0.0.1', family: 4 },
    ],
    [{ address: '::ffff:127.0.0.1', family: 6 }],
  ];
  for (const addresses of answers) {
    const resolver = new Resolver({ lookup: (_name, answer) => answer(null, addresses) });
    await assert.rejects(guardedFetch(resolver, false)(`https://rebind.example:${wire.port}/`), /set auth\.issuer/);
  }
  assert.equal(wire.hits, 0);
});

test('proto:T10 redirects are not followed, large bodies are not read, and http is for loopback alone', async (t) => {
  const target = await tripwire(t, (_request, response) => response.end('{}'));
  const wire = await tripwire(t, (request, response) => {
    if (request.url === '/large') response.end('x'.repeat(300 * 1024));
    else response.writeHead(302, { location: `http://127.0.0.1:${target.port}/secret` }).end('the body');
  });
  const fetch = guardedFetch(new Resolver(), true);
  const refusal = await fetch(`http://127.0.0.1:${wire.port}/`).catch((error: Error) => error);
  assert.ok(refusal instanceof EgressRefused && !/secret|the body/.test(refusal.message), String(refusal));
  await assert.rejects(fetch(`http://127.0.0.1:${wire.port}/large`), /more than 256 KiB/);
  await assert.rejects(fetch('http://192.168.0.1/'), EgressRefused);
  await assert.rejects(fetch('http://user:secret@127.0.0.1/'), (error: Error) => !error.message.includes('secret'));
  assert.equal(target.hits, 0);
});

async function downloaded(url: string, hosts: readonly string[], maxBytes = 1_000_000, resolver = new Resolver()) {
  const chunks: Uint8Array[] = [];
  for await (const chunk of guardedDownload(resolver, url, hosts, maxBytes)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test('proto:T10 a download is bounded, and each redirect of it is checked like the first address', async (t) => {
  const target = await tripwire(t, (_request, response) => response.end('secret'));
  const wire = await tripwire(t, (request, response) => {
    const [, steps = ''] = /^\/steps\/(\d)$/.exec(request.url!) ?? [];
    if (request.url === '/large') response.end(Buffer.alloc(600_000));
    else if (request.url === '/broken')
      response.writeHead(200, { 'content-length': '9' }).end('x', () => response.destroy());
    else if (steps === '0') response.end('there');
    else if (steps !== '') response.writeHead(302, { location: `/steps/${Number(steps) - 1}` }).end();
    else response.writeHead(307, { location: decodeURIComponent(request.url!.slice(1)) }).end();
  });
  const hosts = [`127.0.0.1:${wire.port}`, 'named.example'];
  const base = `http://127.0.0.1:${wire.port}`;
  assert.equal((await downloaded(`${base}/large`, hosts)).length, 600_000);
  await assert.rejects(downloaded(`${base}/large`, hosts, 599_999), /answers with more than/);
  assert.equal(String(await downloaded(`${base}/steps/5`, hosts)), 'there');
  await assert.rejects(downloaded(`${base}/steps/6`, hosts), /redirects for the 6th time/);
  await assert.rejects(downloaded(`${base}/broken`, hosts), FetchFailed);
  await assert.rejects(downloaded(`${base}/steps/0`, []), EgressRefused);
  const inside = new Resolver({ lookup: (_name, answer) => answer(null, [{ address: '127.0.0.1', family: 4 }]) });
  const places = INSIDE.filter((host) => /^[ -~]+$/.test(host)).map((host) => `https://${host}:${target.port}/`);
  for (const place of [
    ...places,
    `http://127.0.0.1:${target.port}/`,
    `https://rebind.example:${target.port}/`,
    'file:///etc/passwd',
  ]) {
    const refused = downloaded(`${base}/${encodeURIComponent(place)}`, hosts, 1_000_000, inside);
    await assert.rejects(refused, EgressRefused, place);
  }
  assert.equal(target.hits, 0);
});

test('the error for a host that does not answer names the host, without the rest of the URL', async (t) => {
  const fetch = guardedFetch(new Resolver(), true);
  const port = await freePort();
  const message = `127.0.0.1:${port} cannot be reached (ECONNREFUSED)`;
  const failure = await fetch(`http://127.0.0.1:${port}/secret`).catch((error: Error) => error);
  assert.ok(failure instanceof FetchFailed);
  assert.equal(failure.message, message);
  const wire = await tripwire(t, (_request, response) => void response.destroy());
  await assert.rejects(fetch(`http://127.0.0.1:${wire.port}/secret`), /^Error: 127\.0\.0\.1:\d+ cannot be reached/);
});

test('proto:T10 only a host and port that the operator has named may resolve to an internal address', async (t) => {
  const wire = await tripwire(t, (_request, response) => response.end('{}'));
  const resolver = new Resolver({ lookup: (_name, answer) => answer(null, [{ address: '127.0.0.1', family: 4 }]) });
  const fetch = guardedFetch(resolver, false, [`mcp.corp:${wire.port}`]);
  const reached = () =>
    new Promise<void>((hit) => {
      const before = connections;
      const look = setInterval(() => {
        if (connections === before) return;
        clearInterval(look);
        hit();
      }, 5);
    });
  let connections = 0;
  wire.connected = () => connections++;
  // The server speaks no TLS: the test checks only for a connection.
  await Promise.all([reached(), assert.rejects(fetch(`https://mcp.corp:${wire.port}/`))]);
  for (const other of [
    `https://mcp.corp:${wire.port + 1}/`,
    `https://idp.corp:${wire.port}/`,
    `http://mcp.corp:${wire.port}/`,
  ])
    await assert.rejects(fetch(other));
  assert.equal(connections, 1);
});
