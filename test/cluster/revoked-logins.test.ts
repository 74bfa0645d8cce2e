import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@nats-io/transport-node';
import { measured } from '../faults/measured.ts';
import type { NodeProcess } from '../support/cluster-processes.ts';
import { until } from '../support/cluster-processes.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { SignedInNodes, signIn } from '../support/signed-in-nodes.ts';
import { WireClient } from '../support/wire-client.ts';

const DEADLINE_MS = 5_000;

function logout(node: NodeProcess, server: string) {
  const { folder } = node.gateway;
  return trunkline(['logout', server, '--data-dir', join(folder, 'data')], { cwd: folder });
}

test('check:I3 fault:F20 a login that one node revokes is out of use within 5 s on all nodes, with and without NATS, and after a restart of PostgreSQL', {
  timeout: 120_000,
}, async (t) => {
  const nodes = await SignedInNodes.start(['one', 'two', 'three']);
  const { issuer, cluster, database } = nodes;
  // The issuer keeps the tokens valid: only the nodes can end their use.
  issuer.revokes = false;
  let going = true;
  try {
    const clients = await Promise.all(cluster.nodes.map(({ mcpUrl }) => WireClient.open(mcpUrl)));
    const echo = (client: WireClient, server: string) =>
      client.request('tools/call', { name: `${server}__echo`, arguments: { text: 'hi' } });
    const callers = clients.flatMap((client) =>
      nodes.servers.map(async (server) => {
        while (going) {
          await echo(client, server).catch(() => null);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }),
    );
    const streams = (server: string) => [...issuer.streams].filter((stream) => stream.server === server).length;
    for (const server of nodes.servers) await until(() => streams(server) === 3, `a stream of each node to ${server}`);

    const revoked = async (how: string, node: NodeProcess, server: string): Promise<void> => {
      const begun = performance.now();
      const { code, err } = await logout(node, server);
      assert.equal(code, 0, err);
      // The deadline counts from the answer: the nodes do not determine how long the command takes to start.
      const answered = performance.now();
      await until(() => performance.now() > answered + DEADLINE_MS, 'the deadline');
      assert.equal(streams(server), 0, `streams to ${server}, ${how}`);
      const end = Math.max(0, ...issuer.carried(server, begun).map(({ at }) => at - answered));
      measured(t, 'F20', `${how}: last request with the token, after the answer`, Math.round(end), 'ms', DEADLINE_MS);
      const watched = performance.now();
      for (const client of clients) {
        const { message } = await echo(client, server);
        assert.match(JSON.stringify(message), new RegExp(`trunkline login ${server}".*"REFUSED"`));
      }
      await until(() => performance.now() > watched + 1_000, 'more calls');
      assert.deepEqual(issuer.carried(server, answered + DEADLINE_MS), []);
    };
    const [a, b, c] = cluster.nodes as [NodeProcess, NodeProcess, NodeProcess];
    await revoked('all is well', a, 'one');

    await database.kill();
    const refused = await logout(b, 'two');
    assert.notEqual(refused.code, 0);
    assert.match(refused.err, /PostgreSQL/);
    await database.run();
    await until(() => b.ready(), 'the node to have its store again');
    await revoked('after a restart of PostgreSQL', b, 'two');

    await cluster.nats.kill();
    await revoked('without NATS', c, 'three');
    await cluster.nats.run();
    await signIn(issuer, b.gateway, 'three');
    for (const client of clients) {
      await until(async () => (await echo(client, 'three')).message.result?.content?.[0]?.text === 'hi', 'a new login');
    }
    going = false;
    await Promise.all(callers);
  } catch (error) {
    for (const { name, stderr } of cluster.nodes) console.error(`--- ${name}\n${stderr.slice(-4_000)}`);
    throw error;
  } finally {
    going = false;
    await nodes.dispose();
  }
});

test('goal:G18 no token, code, verifier or secret of a client shows in logs, metrics, status, API, bus, database or files', {
  timeout: 120_000,
}, async () => {
  const nodes = await SignedInNodes.start(['web'], { args: ['--log-level', 'debug'] });
  const { issuer, cluster, database } = nodes;
  const shown = new Map<string, string>();
  const show = (place: string, text: string): void => void shown.set(place, `${shown.get(place) ?? ''}\n${text}`);
  const nats = await connect({ servers: cluster.nats.url });
  nats.subscribe('>', {
    callback: (_error, message) => show('bus', `${message.subject} ${Buffer.from(message.data)}`),
  });
  try {
    const { gateway } = nodes.first;
    const calls = async (what: string): Promise<void> => {
      for (const { mcpUrl } of cluster.nodes) {
        const client = await WireClient.open(mcpUrl);
        const { message } = await client.request('tools/call', { name: 'web__echo', arguments: { text: 'hi' } });
        show(`answers ${what}`, JSON.stringify(message));
      }
    };
    await signIn(issuer, gateway, 'web');
    issuer.expire();
    await calls('after an expiry');
    assert.equal(issuer.exchanged.length, 1);
    // The authorization server repeats the request in its refusals.
    issuer.repeats = true;
    const body = JSON.stringify({ redirectUri: 'http://127.0.0.1:9/back' });
    const { url } = await gateway.control<{ url: string }>('/api/v1/servers/web/login', 'POST', body);
    const back = new URL(await issuer.authorize(url));
    back.searchParams.set('code', 'canary-of-another-code');
    issuer.secrets.push('canary-of-another-code');
    const finish = gateway.control('/api/v1/login-redirects', 'POST', JSON.stringify({ url: back.href }));
    await assert.rejects(finish, (error: Error) => {
      show('a refused login', error.message);
      return /invalid_grant/.test(error.message);
    });
    issuer.forget();
    await calls('after a refused renewal');
    assert.match(shown.get('answers after a refused renewal')!, /trunkline login web/);
    for (const { name, gateway: node } of cluster.nodes) {
      for (const path of ['servers', 'servers/web', 'credentials', 'nodes', 'gateway', 'sessions']) {
        show(`/api/v1/${path} of ${name}`, JSON.stringify(await node.control(`/api/v1/${path}`)));
      }
      show(`metrics of ${name}`, await node.metrics());
      show(
        `status of ${name}`,
        JSON.stringify(
          await trunkline(['status', '--json', '--data-dir', join(node.folder, 'data')], { cwd: node.folder }),
        ),
      );
    }
    assert.match(shown.get('/api/v1/credentials of a')!, /login_required.*refresh_token=\[redacted\]/);
    show('database', execFileSync('pg_dump', ['--inserts', database.url], { encoding: 'utf8', maxBuffer: 1 << 28 }));
    assert.match(shown.get('database')!, /INSERT INTO trunkline.records VALUES \('credentials'/);
    for (const { name, gateway: node } of cluster.nodes) {
      show(`log of ${name}`, node.stderr);
      for (const file of filesIn(node.folder))
        show(`${file} of ${name}`, readFileSync(join(node.folder, file), 'latin1'));
    }
    for (const file of filesIn(cluster.nats.folder))
      show('bus at rest', readFileSync(join(cluster.nats.folder, file), 'latin1'));
    assert.match(shown.get('log of a')!, /"level":"debug"/);
    assert.ok(shown.get('bus')!.includes('trunkline.truth') && shown.has('bus at rest'));
    assert.ok(issuer.secrets.length >= 15);
    const hits = [...shown].flatMap(([place, text]) =>
      issuer.secrets.flatMap((secret) =>
        ['utf8', 'base64', 'base64url', 'hex'].flatMap((encoding) => {
          const at = text.indexOf(Buffer.from(secret).toString(encoding as BufferEncoding));
          return at < 0 ? [] : `${place} (${encoding}): ${text.slice(Math.max(0, at - 100), at + 60)}`;
        }),
      ),
    );
    assert.deepEqual(hits, []);
  } finally {
    await nats.close();
    await nodes.dispose();
  }
});

function filesIn(folder: string): string[] {
  const all = globSync('**/*', { cwd: folder, withFileTypes: true });
  return all.filter((file) => file.isFile()).map((file) => join(file.parentPath, file.name).slice(folder.length + 1));
}
