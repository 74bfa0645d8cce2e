import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { RoundRobin } from './round-robin.ts';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');
const folder = mkdtempSync(join(tmpdir(), 'trunkline-example-'));
const secret = randomBytes(32).toString('hex');

const nodes = await Promise.all(['blue', 'green', 'red'].map(start));
const proxy = await RoundRobin.start(nodes.map(({ url }) => url));
try {
  const client = new Client({ name: 'example', version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${proxy.url}/servers/thinking/mcp`)));
  // The server counts the thoughts of its session in its own memory: there is one process for it, wherever that is.
  for (let thoughtNumber = 1; thoughtNumber <= 6; thoughtNumber++) {
    const thought = { thought: 'and on', thoughtNumber, totalThoughts: 6, nextThoughtNeeded: thoughtNumber < 6 };
    const { content } = await client.callTool({ name: 'sequentialthinking', arguments: thought });
    const [answer] = content as [{ text: string }];
    console.log(`thoughts so far: ${JSON.parse(answer.text).thoughtHistoryLength}`);
  }
  await client.close();
  console.log(`requests at each node: ${proxy.counts.join(', ')}`);
} finally {
  await proxy[Symbol.asyncDispose]();
  for (const { end } of nodes) end();
  await Promise.all(nodes.map(({ ended }) => ended));
  rmSync(folder, { recursive: true });
}

/** One node, and where it listens. */
async function start(node: string): Promise<{ url: string; end: () => void; ended: Promise<unknown> }> {
  const args = ['--json', '--port', '0', '--control-port', '0', '--data-dir', join(folder, node), 'trunkline.json'];
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: import.meta.dirname,
    env: { ...process.env, NODE: node, TRUNKLINE_CLUSTER_SECRET: secret },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((done) => child.once('exit', done));
  for await (const line of createInterface({ input: child.stdout })) {
    const url = new URL(JSON.parse(line).mcpUrl).origin;
    while (!(await fetch(`${url}/readyz`)).ok) await new Promise((done) => setTimeout(done, 50));
    return { url, end: () => child.kill(), ended };
  }
  throw new Error(`node ${node} did not start`);
}
