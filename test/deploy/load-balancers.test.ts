import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { TestAuthority } from '../support/certificates.ts';
import { ClusterProcesses } from '../support/cluster-processes.ts';
import { CONFIGURATIONS, LoadBalancer, type ProxyName } from '../support/load-balancers.ts';
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
      const settings = { listen: { ...listen, trustedProxies: ['127.0.0.1'] }, agents };
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
  test(`${name} passes on the port that clients ask for: with one in listen.publicUrl a node accepts no other Host`, async () => {
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

function documented(): { readonly listen: object; readonly agents: object } {
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
