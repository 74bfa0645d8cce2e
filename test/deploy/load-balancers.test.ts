import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { TestAuthority } from '../support/certificates.ts';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { CONFIGURATIONS, LoadBalancer, type ProxyName } from '../support/load-balancers.ts';
import { NatsServer } from '../support/nats-server.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const EVERYTHING = resolve(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);
const KEY = 'key-of-the-agent-0';
const HOST = 'mcp.example.com';
const PROXIES: readonly ProxyName[] = ['nginx', 'haproxy'];
const INITIALIZE = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'client', version: '1' } };
/** How long the call lasts, in seconds; it reports its progress four times. */
const CALL_S = 2;

interface Answer {
  readonly status: number;
  readonly session: string | undefined;
  readonly text: string;
  /** From the request to the first bytes of the body, and to the end, in milliseconds. */
  readonly firstMs: number;
  readonly endMs: number;
}

for (const name of PROXIES)
  test(`three nodes with the configuration of deploy/load-balancers behind ${name} with TLS: keys, Host, sessions over nodes, events as they are sent`, async () => {
    const { listen, agents } = documented();
    const authority = new TestAuthority();
    const tls = authority.issue({ name: 'mcp', hosts: [HOST] });
    const cluster = await ClusterProcesses.start();
    try {
      const servers = { everything: { command: process.execPath, args: [EVERYTHING] } };
      // On a loaded machine a server may need more than the usual 2 s to start; a list would leave it out.
      const settings = { listen: { ...listen, trustedProxies: ['127.0.0.1'] }, agents, firstListWaitMs: 30_000 };
      const nodes = await Promise.all(
        ['n1', 'n2', 'n3'].map((node) => cluster.node(node, servers, settings, { env: { AGENT_KEY: KEY } })),
      );
      const ports = nodes.map(({ mcpUrl }) => Number(new URL(mcpUrl).port));
      await using balancer = await LoadBalancer.start(name, { nodes: ports, tls });
      let id = 0;
      const post = (method: string, params: object, headers: Record<string, string> = {}): Promise<Answer> =>
        send(balancer.port, authority.cert, JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }), headers);
      const key = { authorization: `Bearer ${KEY}` };
      assert.equal((await post('initialize', INITIALIZE)).status, 401);
      assert.equal((await post('initialize', INITIALIZE, { ...key, host: 'rebound.example' })).status, 403);
      const { status, session } = await post('initialize', INITIALIZE, key);
      assert.equal(status, 200, balancer.log);
      const inSession = { ...key, 'mcp-session-id': session!, 'mcp-protocol-version': '2025-11-25' };
      // More requests of a session than nodes: each is answered, whichever node gets it.
      for (let i = 0; i < 2 * nodes.length; i++)
        assert.match((await post('tools/list', {}, inSession)).text, /everything__echo/);
      const call = {
        name: 'everything__trigger-long-running-operation',
        arguments: { duration: CALL_S, steps: 4 },
        _meta: { progressToken: 'p' },
      };
      const { text, firstMs, endMs } = await post('tools/call', call, inSession);
      assert.match(text, /notifications\/progress[\s\S]*"result"/);
      assert.ok(endMs - firstMs > (CALL_S * 1000) / 4, `first event after ${firstMs} ms, answer after ${endMs} ms`);
    } finally {
      await cluster.dispose();
    }
  });

for (const name of PROXIES)
  test(`${name} passes on the port of the Host: with a port in listen.publicUrl a node refuses a Host without it`, async () => {
    const { listen, agents } = documented();
    const authority = new TestAuthority();
    const asked = `${HOST}:8443`;
    const gateway = await RunningGateway.start({
      config: {
        mcpServers: {},
        listen: { ...listen, publicUrl: `https://${asked}`, trustedProxies: ['127.0.0.1'] },
        agents,
      },
      env: { AGENT_KEY: KEY },
    });
    try {
      const port = Number(new URL(gateway.mcpUrl).port);
      const tls = authority.issue({ name: 'mcp', hosts: [HOST] });
      await using balancer = await LoadBalancer.start(name, { nodes: [port, port, port], tls });
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: INITIALIZE });
      const statusFor = async (host: string): Promise<number> =>
        (await send(balancer.port, authority.cert, body, { authorization: `Bearer ${KEY}`, host })).status;
      assert.equal(await statusFor(asked), 200, balancer.log);
      assert.equal(await statusFor(HOST), 403);
    } finally {
      await gateway.dispose();
    }
  });

test('the servers of nats.conf form one NATS cluster with TLS, which a node with the documented settings joins', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-documented-nats-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const authority = new TestAuthority();
  const { cert, key } = authority.issue({ name: 'nats', hosts: ['127.0.0.1'] });
  const files = { 'nats.pem': cert, 'nats.key': key, 'ca.pem': authority.cert };
  writeFileSync(join(folder, 'nats-ca.pem'), authority.cert);
  process.env['NATS_PASSWORD'] = 'password-of-the-node';
  const ports = await Promise.all([1, 2, 3].map(freePort));
  const servers = await Promise.all(
    ports.map((port, at) => NatsServer.start({ config: natsConfig(ports, port, at), files })),
  );
  t.after(() => Promise.all(servers.map((server) => server[Symbol.asyncDispose]())));
  const { cluster, agents } = documented();
  const gateway = await RunningGateway.start({
    config: {
      mcpServers: {},
      agents,
      cluster: {
        ...cluster,
        nats: servers.map(({ port }) => `tls://127.0.0.1:${port}`),
        tls: { ca: join(folder, 'nats-ca.pem') },
      },
    },
    env: { AGENT_KEY: KEY, CLUSTER_SECRET: 'secret of this cluster, 32 bytes!', NATS_PASSWORD: 'password-of-the-node' },
  });
  t.after(() => gateway.dispose());
  const nodes = () => gateway.control<{ readonly nodes: readonly { readonly state: string }[] }>('/api/v1/nodes');
  await until(async () => (await nodes()).nodes[0]?.state === 'ready', 'the lease').catch((error: Error) => {
    throw new Error(`${error.message}: ${gateway.stderr}`);
  });
  assert.doesNotMatch(gateway.stderr, /stream_replicas_few|bus_server_lacks/);
});

/** The part of nats.conf that NatsServer does not write itself, with the addresses and files of this test. */
function natsConfig(ports: readonly number[], port: number, at: number): string {
  const text = readFileSync(join(CONFIGURATIONS, 'nats.conf'), 'utf8');
  const routes = ports.map((other) => `nats://127.0.0.1:${other}`);
  const written = ['listen: 0.0.0.0:4222\n', 'jetstream { store_dir: /var/lib/nats }\n'];
  for (const line of [...written, 'server_name: nats-1', '0.0.0.0:6222']) assert.ok(text.includes(line), line);
  return written
    .reduce((rest, line) => rest.replace(line, ''), text)
    .replace('server_name: nats-1', `server_name: nats-${at + 1}`)
    .replace('0.0.0.0:6222', `127.0.0.1:${port}`)
    .replace(/routes: \[.*\]/, `routes: [${routes.join(', ')}]`)
    .replaceAll('/etc/nats/', 'FOLDER/');
}

function documented(): { readonly listen: object; readonly agents: object; readonly cluster: object } {
  return parse(readFileSync(join(CONFIGURATIONS, 'trunkline.yaml'), 'utf8'));
}

function send(port: number, ca: string, body: string, headers: Record<string, string>): Promise<Answer> {
  const begunAt = performance.now();
  return new Promise((done, fail) => {
    const options = {
      host: '127.0.0.1',
      port,
      ca,
      servername: HOST,
      path: '/mcp',
      method: 'POST',
      headers: {
        host: HOST,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        ...headers,
      },
    };
    const asked = request(options, (answer) => {
      let text = '';
      let firstMs = 0;
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        firstMs ||= performance.now() - begunAt;
        text += chunk;
      });
      answer.on('error', fail);
      answer.on('end', () => {
        const session = answer.headers['mcp-session-id'] as string | undefined;
        done({ status: answer.statusCode!, session, text, firstMs, endMs: performance.now() - begunAt });
      });
    });
    asked.on('error', fail);
    asked.end(body);
  });
}
